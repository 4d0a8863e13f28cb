"""The invariants of the tables: each a sentence that holds always, and the SQL that looks for
what breaks it.

Every query answers ``(subject, detail)`` rows, is one statement (so it sees one snapshot), reads
at most the newest ``depth`` jobs where it has to look at whole rows, and locks nothing. The
sentences are explained in ``docs/invariants.md``.
"""

# Every piece of SQL here is put together from constants of this file.
# ruff: noqa: S608

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invariant:
    """A sentence that holds always, and the query whose rows contradict it."""

    name: str
    statement: str
    query: str
    remedy: str
    kept_by: str
    """The constraint, trigger or duty that keeps it."""


_RECENT = """recent AS (SELECT * FROM jobs_job ORDER BY created_at DESC, id DESC
  LIMIT %(depth)s)"""
_LIVE = """live AS (SELECT * FROM jobs_lease
  WHERE dead_at IS NULL AND until > jobs_clock() AND NOT draining)"""

_SCOPES = """ARRAY['queue:' || j.queue, 'kind:' || j.kind, 'tenant:' || j.tenant,
    'key:' || j.kind || '|' || coalesce(j.limit_key, ''),
    'limit_key:' || coalesce(j.limit_key, '')]"""
_OPEN = f"""NOT EXISTS (SELECT 1 FROM jobs_closure c WHERE c.scope = ANY ({_SCOPES}))"""
_UNLIMITED = f"""NOT EXISTS (SELECT 1 FROM jobs_limiter m WHERE m.scope = ANY ({_SCOPES}))"""

_TAMPERED = "a write has bypassed the triggers or constraints: find its source and repair the row"
_NO_REAPER = "start a dispatcher (manage.py jobs dispatch); it settles the jobs of dead executors"


def _moves(table: str, source: str, legal: str) -> str:
    return f"""
SELECT r.id::text, '{table}: ' || (h.move->>1) || ' -> ' || (h.move->>2)
FROM {source} r CROSS JOIN LATERAL jsonb_array_elements(r.history) AS h(move)
WHERE NOT ((h.move->>1) || '>' || (h.move->>2)) = ANY (%({legal})s::text[])
"""


def _tails(table: str, source: str, births: str) -> str:
    return f"""
SELECT r.id::text, '{table}: is ' || r.state || ', last move to '
  || coalesce(r.history->-1->>2, '(none)')
FROM {source} r
WHERE CASE WHEN jsonb_array_length(r.history) = 0 THEN NOT r.state = ANY (%({births})s::text[])
  ELSE r.history->-1->>2 IS DISTINCT FROM r.state END
"""


def _chains(table: str, source: str) -> str:
    # Where entries were dropped, the eighth and the ninth are no neighbours.
    return f"""
SELECT r.id::text, '{table}: ' || (h.move->>1) || ' follows ' || (r.history->(h.n - 2)::int->>2)
FROM {source} r
CROSS JOIN LATERAL jsonb_array_elements(r.history) WITH ORDINALITY AS h(move, n)
WHERE h.n > 1 AND h.move->>1 IS DISTINCT FROM r.history->(h.n - 2)::int->>2
  AND NOT (r.history_dropped > 0 AND h.n = 9)
"""


_LETTERS = "letters"
_WITH_BOTH = f"""WITH {_RECENT}, letters AS (SELECT * FROM jobs_deadletter
  ORDER BY opened_at DESC, id DESC LIMIT %(depth)s)"""

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "running_has_owner",
        "A job has an owner exactly while it is running, and then it has a token too.",
        """
SELECT id::text, state || ' with owner ' || coalesce(owner::text, '(none)') FROM jobs_job
WHERE state = 'running' AND (owner IS NULL OR token IS NULL)
UNION ALL
(WITH recent AS (SELECT * FROM jobs_job ORDER BY created_at DESC, id DESC LIMIT %(depth)s)
SELECT id::text, state || ' with owner ' || owner::text FROM recent
WHERE state <> 'running' AND owner IS NOT NULL)
""",
        _TAMPERED,
        "constraint jobs_job_running_has_owner",
    ),
    Invariant(
        "running_has_lease",
        "The executor of every running job has a lease that has not expired long ago.",
        """
SELECT j.id::text, CASE WHEN l.owner IS NULL THEN 'executor ' || j.owner::text || ' has no lease'
  ELSE 'the lease of executor ' || j.owner::text || ' ended at ' || l.until::text END
FROM jobs_job j LEFT JOIN jobs_lease l ON l.owner = j.owner
WHERE j.state = 'running' AND (l.owner IS NULL OR l.until
  + (greatest(0, j.lease - %(lease)s) + %(patience)s) * interval '1 s' < jobs_clock())
""",
        _NO_REAPER,
        "the reaper; a lease with running jobs is never deleted",
    ),
    Invariant(
        "running_in_time",
        "Under a live lease, no job keeps running long after its timeout.",
        # One that has crashed its process before may still wait to run alone.
        """
SELECT j.id::text, 'running since ' || j.started_at::text || ', its timeout was '
  || j.timeout::text || ' s'
FROM jobs_job j JOIN jobs_lease l ON l.owner = j.owner
WHERE j.state = 'running' AND l.dead_at IS NULL AND l.until > jobs_clock() AND j.crashes = 0
  AND j.started_at + (j.timeout + %(grace)s + %(stuck)s) * interval '1 s' < jobs_clock()
""",
        "look at the worker's log, which says why the result cannot be written; restart the "
        "worker, and the job runs again",
        "the supervisor ends what outlives its timeout; the settler writes every outcome",
    ),
    Invariant(
        "final_has_end",
        "A job has a finish time if and only if its state is final.",
        f"""
WITH {_RECENT}
SELECT id::text, state || ', finished at ' || coalesce(finished_at::text, '(never)') FROM recent
WHERE (state = ANY (%(finals)s::text[])) <> (finished_at IS NOT NULL)
""",
        _TAMPERED,
        "constraint jobs_job_final_has_end",
    ),
    Invariant(
        "queued_has_time",
        "A queued job has the time at which it was queued.",
        """
SELECT id::text, 'queued, no queued_at' FROM jobs_job WHERE state = 'queued' AND queued_at IS NULL
""",
        _TAMPERED,
        "constraint jobs_job_queued_has_time",
    ),
    Invariant(
        "claimed_has_token",
        "A job that was ever claimed has the token of its last claim.",
        f"""
WITH {_RECENT}
SELECT id::text, 'attempt ' || attempt::text || ', no token' FROM recent
WHERE attempt > 0 AND token IS NULL
""",
        _TAMPERED,
        "every claim writes a token, and nothing removes it",
    ),
    Invariant(
        "counters_fit",
        "No counter is negative, and the failures, crashes and releases of a job are no more than "
        "its attempts.",
        f"""
WITH {_RECENT}
SELECT id::text, format('attempt %%s, failures %%s, crashes %%s, releases %%s', attempt, failures,
  crashes, releases) FROM recent
WHERE least(attempt, failures, crashes, releases) < 0 OR failures + crashes + releases > attempt
""",
        _TAMPERED,
        "constraint jobs_job_counters; every claim counts one attempt, every ending at most one",
    ),
    Invariant(
        "attempts_numbered",
        "A recorded attempt has a number between 1 and the number of its job's last attempt.",
        f"""
WITH {_RECENT}
SELECT j.id::text, 'attempt ' || a.number::text || ' of ' || j.attempt::text
FROM recent j JOIN jobs_attempt a ON a.job_id = j.id WHERE NOT a.number BETWEEN 1 AND j.attempt
""",
        _TAMPERED,
        "constraint jobs_attempt_once; the row is written by the statement that ends the attempt",
    ),
    Invariant(
        "failures_recorded",
        "A job that was never retried by hand has one recorded attempt per failure and per crash.",
        f"""
WITH {_RECENT}, counted AS (
  SELECT job_id, count(*) FILTER (WHERE outcome IN ('failed', 'timeout')) AS failed,
    count(*) FILTER (WHERE outcome = 'crashed') AS crashed
  FROM jobs_attempt WHERE job_id IN (SELECT id FROM recent) GROUP BY job_id)
SELECT j.id::text, format('failures %%s, recorded %%s; crashes %%s, recorded %%s', j.failures,
  coalesce(c.failed, 0), j.crashes, coalesce(c.crashed, 0))
FROM recent j LEFT JOIN counted c ON c.job_id = j.id
WHERE j.history_dropped = 0
  AND (j.failures <> coalesce(c.failed, 0) OR j.crashes <> coalesce(c.crashed, 0))
  AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(j.history) AS h(move)
    WHERE h.move->>1 = ANY (%(finals)s::text[]))
""",
        _TAMPERED,
        "counter and attempt are written by one statement",
    ),
    Invariant(
        "attempts_apart",
        "Two attempts of a job never overlap in time.",
        f"""
WITH {_RECENT}
SELECT a.job_id::text, 'attempt ' || b.number::text || ' began before the end of attempt '
  || a.number::text
FROM jobs_attempt a JOIN jobs_attempt b ON b.job_id = a.job_id AND b.number > a.number
WHERE a.job_id IN (SELECT id FROM recent) AND b.started_at < a.ended_at
UNION ALL
SELECT j.id::text, 'the last attempt began before the end of attempt ' || a.number::text
FROM recent j JOIN jobs_attempt a ON a.job_id = j.id
WHERE a.number < j.attempt AND j.started_at < a.ended_at
""",
        "two executors have held the same job: check the clock of the database server for jumps",
        "the token: a claim needs a queued job, and only the end of an attempt makes it so",
    ),
    Invariant(
        "started_in_time",
        "No attempt starts before the job is due, after its expiry or after a cancel request.",
        f"""
WITH {_RECENT}
SELECT id::text, format('started %%s, run at %%s, expires %%s, cancel requested %%s', started_at,
  run_at, expires_at, cancel_requested_at) FROM recent
WHERE state IN ('running', 'succeeded', 'failed')
  AND (started_at < run_at OR started_at >= expires_at OR started_at > cancel_requested_at)
""",
        "check the clock of the database server for jumps",
        "the conditions of the claim statement",
    ),
    Invariant(
        "dead_letter_open_means_failed",
        "An open dead letter points at a failed job, and no job has two.",
        """
SELECT d.job_id::text, 'open dead letter ' || d.id::text || ', job is ' || j.state
FROM jobs_deadletter d JOIN jobs_job j ON j.id = d.job_id
WHERE d.state = 'open' AND j.state <> 'failed'
UNION ALL
SELECT job_id::text, count(*)::text || ' open dead letters' FROM jobs_deadletter
WHERE state = 'open' GROUP BY job_id HAVING count(*) > 1
""",
        "close the entry (discard it) and find what has moved the job without it",
        "constraint jobs_dl_one_open_per_job; entry and job move in one transaction",
    ),
    Invariant(
        "failed_has_dead_letter",
        "A failed job of a kind with dead letters has one, open or closed.",
        f"""
WITH {_RECENT}
SELECT j.id::text, 'failed (' || j.reason || ') without a dead letter' FROM recent j
WHERE j.state = 'failed' AND NOT j.kind = ANY (%(unburied)s::text[])
  AND NOT EXISTS (SELECT 1 FROM jobs_deadletter d WHERE d.job_id = j.id AND d.state <> 'retried')
""",
        "retry the job, or ignore it if its kind had no dead letters when it failed",
        "the statement that fails a job writes its dead letter",
    ),
    Invariant(
        "dead_letter_closed_has_time",
        "A dead letter has a closing time if and only if it is not open.",
        f"""
{_WITH_BOTH}
SELECT job_id::text, 'dead letter ' || id::text || ' is ' || state FROM letters
WHERE (state = 'open') <> (closed_at IS NULL)
""",
        _TAMPERED,
        "constraint jobs_dl_closed_has_time",
    ),
    Invariant(
        "history_legal",
        "Every recorded move is one that the table of edges allows.",
        f"{_WITH_BOTH} {_moves('job', 'recent', 'job_moves')} UNION ALL "
        f"{_moves('dead letter', _LETTERS, 'letter_moves')}",
        _TAMPERED,
        "triggers jobs_job_guard and jobs_deadletter_guard",
    ),
    Invariant(
        "history_chained",
        "Every recorded move begins where the one before it ended.",
        f"{_WITH_BOTH} {_chains('job', 'recent')} UNION ALL {_chains('dead letter', _LETTERS)}",
        _TAMPERED,
        "triggers jobs_job_guard and jobs_deadletter_guard",
    ),
    Invariant(
        "history_reaches_now",
        "The last recorded move leads to the current state; a row without moves is in its initial "
        "state.",
        f"{_WITH_BOTH} {_tails('job', 'recent', 'births')} UNION ALL "
        f"{_tails('dead letter', _LETTERS, 'letter_births')}",
        _TAMPERED,
        "triggers jobs_job_guard, jobs_job_birth, jobs_deadletter_guard, jobs_deadletter_birth",
    ),
    Invariant(
        "history_bounded",
        "No row keeps more than 64 moves.",
        f"""
{_WITH_BOTH}
SELECT id::text, 'job: ' || jsonb_array_length(history)::text || ' moves' FROM recent
WHERE jsonb_array_length(history) > 64
UNION ALL
SELECT id::text, 'dead letter: ' || jsonb_array_length(history)::text || ' moves' FROM letters
WHERE jsonb_array_length(history) > 64
""",
        _TAMPERED,
        "triggers jobs_job_guard and jobs_deadletter_guard",
    ),
    Invariant(
        "mover_consumed",
        "Who moved a row, and why, is recorded in its history and nowhere else.",
        f"""
{_WITH_BOTH}
SELECT id::text, 'job: ' || coalesce(moved_by, move_reason) FROM recent
WHERE moved_by IS NOT NULL OR move_reason IS NOT NULL
UNION ALL
SELECT id::text, 'dead letter: ' || coalesce(moved_by, move_reason) FROM letters
WHERE moved_by IS NOT NULL OR move_reason IS NOT NULL
""",
        _TAMPERED,
        "constraints jobs_job_mover_consumed and jobs_dl_mover_consumed",
    ),
    Invariant(
        "queued_is_taken",
        "While an executor of its queue has a free slot, and nothing is closed, no job stays "
        "queued for long.",
        f"""
WITH {_LIVE}, busy AS (SELECT owner, count(*) AS jobs FROM jobs_job WHERE state = 'running'
  GROUP BY owner),
free AS (SELECT q AS queue, sum(live.slots - coalesce(busy.jobs, 0)) AS slots
  FROM live LEFT JOIN busy USING (owner), unnest(live.queues) AS q GROUP BY q)
SELECT j.id::text, 'queued on ' || j.queue || ' since ' || j.queued_at::text
FROM jobs_job j JOIN free ON free.queue = j.queue AND free.slots > 0
WHERE j.state = 'queued' AND j.queued_at < jobs_clock() - %(stuck)s * interval '1 s'
  AND {_OPEN}
""",
        "start a dispatcher (manage.py jobs dispatch): it pushes lost ids again; look at the "
        "worker's log",
        "the reconciler, which pushes ids again that are missing in Redis",
    ),
    Invariant(
        "due_is_dispatched",
        "While an executor of its queue has a free slot, no job that is due and under no limit "
        "or closure stays pending for long.",
        f"""
WITH {_LIVE}, busy AS (SELECT owner, count(*) AS jobs FROM jobs_job WHERE state = 'running'
  GROUP BY owner),
free AS (SELECT q AS queue, sum(live.slots - coalesce(busy.jobs, 0)) AS slots
  FROM live LEFT JOIN busy USING (owner), unnest(live.queues) AS q GROUP BY q)
SELECT j.id::text, 'due on ' || j.queue || ' since ' || greatest(j.run_at, j.created_at)::text
FROM jobs_job j JOIN free ON free.queue = j.queue AND free.slots > 0
WHERE j.state = 'pending' AND j.wait < 2 AND {_OPEN} AND {_UNLIMITED}
  AND greatest(j.run_at, j.created_at) < jobs_clock() - %(stuck)s * interval '1 s'
""",
        "start a dispatcher (manage.py jobs dispatch) or look at its log",
        "the dispatcher",
    ),
    Invariant(
        "expired_is_closed",
        "While an executor is alive, no job is still waiting long after its expiry.",
        f"""
WITH {_LIVE}
SELECT id::text, state || ', expired at ' || expires_at::text FROM jobs_job
WHERE state IN ('blocked', 'pending', 'queued')
  AND expires_at < jobs_clock() - %(stuck)s * interval '1 s' AND EXISTS (SELECT 1 FROM live)
""",
        "start a dispatcher (manage.py jobs dispatch) or look at its log",
        "the reconciler",
    ),
)
