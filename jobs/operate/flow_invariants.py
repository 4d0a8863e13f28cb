"""The invariants of flow control: keys, limits, parents, batches, replays and effects.

They follow the rules of ``jobs.operate.invariants``: ``(subject, detail)`` rows, one statement,
one snapshot, no lock. What repairs itself within seconds is called broken only once it is old.
"""

# Every piece of SQL here is put together from constants of this file.
# ruff: noqa: S608

from __future__ import annotations

from jobs.operate.invariants import Invariant

_RECENT = """recent AS (SELECT * FROM jobs_job ORDER BY created_at DESC, id DESC
  LIMIT %(depth)s)"""
_UNFINISHED = "('blocked', 'pending', 'queued', 'running')"
# Retention may have deleted members of a batch that is done, or was and has been opened again by a
# retry (its generation shows it); of no other.
_GROWING = """growing AS MATERIALIZED (SELECT * FROM (SELECT * FROM jobs_batch
    ORDER BY created_at DESC, id DESC LIMIT %(depth)s) b WHERE b.state <> 'done' LIMIT 100)"""
_ENDED = "b.succeeded + b.failed + b.cancelled + b.expired"

_BY_HAND = "find what has written to these tables directly and repair the row"

FLOW_INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "slot_has_holder",
        "An exclusive key is free, or held by one job with that key that is queued, running or "
        "next in line.",
        """
SELECT s.job_id::text, 'holds the key ' || s.key || ' and is '
  || CASE WHEN j.id IS NULL THEN 'gone' WHEN j.exclusive_key IS DISTINCT FROM s.key
    THEN 'a job of another key' ELSE j.state || ', waiting' END
FROM jobs_slot s LEFT JOIN jobs_job j ON j.id = s.job_id
WHERE (j.id IS NULL OR j.exclusive_key IS DISTINCT FROM s.key
    OR NOT (j.state IN ('queued', 'running') OR j.state = 'pending' AND j.wait = 0))
  -- The heir of a key that was paused meanwhile gives it back within seconds.
  AND NOT EXISTS (SELECT 1 FROM jobs_closure c WHERE c.scope = 'key:' || s.key)
""",
        "start a dispatcher (manage.py jobs dispatch): it frees keys that no job holds",
        "every move of a job frees or passes on its key in the same transaction; the reconciler",
    ),
    Invariant(
        "exclusive_has_slot",
        "A queued or running job with an exclusive key holds it.",
        """
SELECT j.id::text, j.state || ' without its key ' || j.exclusive_key FROM jobs_job j
WHERE j.state IN ('queued', 'running') AND j.exclusive_key IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM jobs_slot s WHERE s.key = j.exclusive_key AND s.job_id = j.id)
""",
        _BY_HAND,
        "the dispatch function takes the key and the job together; constraint jobs_job_exclusive",
    ),
    Invariant(
        "free_key_is_taken",
        "No job keeps waiting for an exclusive key that is free.",
        """
SELECT j.id::text, 'waits for the key ' || j.exclusive_key || ', which nobody holds'
FROM jobs_job j
WHERE j.state = 'pending' AND j.wait = 2 AND j.exclusive_key IS NOT NULL AND j.limit_key IS NULL
  AND j.run_at < jobs_clock() - %(stuck)s * interval '1 s'
  AND NOT EXISTS (SELECT 1 FROM jobs_slot s WHERE s.key = j.exclusive_key)
  AND NOT EXISTS (SELECT 1 FROM jobs_closure c WHERE c.scope = 'key:' || j.exclusive_key)
  AND NOT EXISTS (SELECT 1 FROM jobs_job w WHERE w.exclusive_key = j.exclusive_key
    AND w.state = 'pending' AND w.wait = 0)
""",
        "start a dispatcher (manage.py jobs dispatch): it wakes the jobs that wait for a free key",
        "the transaction that frees a key wakes the first job that waits for it; the reconciler",
    ),
    Invariant(
        "limits_hold",
        "No limit has more jobs queued or running than it allows.",
        """
WITH live AS MATERIALIZED (SELECT queue, kind, limit_key FROM jobs_job
  WHERE state IN ('queued', 'running')),
counted AS (
  SELECT 'queue:' || queue AS scope, count(*) AS jobs FROM live GROUP BY 1
  UNION ALL SELECT 'kind:' || kind, count(*) FROM live GROUP BY 1
  UNION ALL SELECT 'key:' || kind || '|' || limit_key, count(*) FROM live
    WHERE limit_key IS NOT NULL GROUP BY 1)
SELECT m.scope, counted.jobs::text || ' at once, ' || m.at_once::text || ' allowed'
FROM jobs_limiter m JOIN counted USING (scope) WHERE counted.jobs > m.at_once
""",
        "wait, if the limit was set or lowered while jobs were running; otherwise find what has "
        "moved jobs directly",
        "the dispatch function counts and admits under the lock of the limit's row",
    ),
    Invariant(
        "meters_hold",
        "No more is taken from a meter in its span than its rate allows.",
        """
SELECT name, taken::text || ' taken in ' || span || ' s, ' || amount || ' allowed'
FROM jobs_meter CROSS JOIN LATERAL (SELECT sum(s) AS taken FROM unnest(spent) AS s) AS t
WHERE taken > amount
""",
        "find what has written to the table directly; it corrects itself within the meter's span",
        "the function that takes counts under the lock of the meter's row",
    ),
    Invariant(
        "open_parents_counted",
        "The number of open parents of an unfinished job is the number of its open edges, and a "
        "blocked job has at least one.",
        f"""
WITH {_RECENT}, open AS (SELECT child_id, count(*) AS edges FROM jobs_dependency
  WHERE NOT done AND child_id IN (SELECT id FROM recent) GROUP BY child_id)
SELECT j.id::text, format('%%s, open parents %%s, open edges %%s', j.state, j.open_parents,
  coalesce(open.edges, 0))
FROM recent j LEFT JOIN open ON open.child_id = j.id
WHERE j.state IN {_UNFINISHED} AND (j.open_parents <> coalesce(open.edges, 0)
  OR j.state = 'blocked' AND open.edges IS NULL)
""",
        _BY_HAND,
        "each edge is resolved once, by the transaction that counts it; constraint "
        "jobs_job_blocked_has_parents",
    ),
    Invariant(
        "ended_parents_let_go",
        "No blocked job waits for a parent that no longer exists, or whose end has already "
        "released or cancelled it.",
        """
SELECT c.id::text, 'waits (' || d.policy || ') for ' || d.parent_id::text || ', which is '
  || coalesce(p.state, 'gone')
FROM jobs_job c JOIN jobs_dependency d ON d.child_id = c.id AND NOT d.done
  LEFT JOIN jobs_job p ON p.id = d.parent_id
WHERE c.state = 'blocked' AND (p.id IS NULL OR p.state = 'succeeded'
  OR d.policy <> 'wait' AND p.state IN ('failed', 'cancelled', 'expired'))
""",
        "cancel the job and enqueue it again; find what has moved or deleted its parent directly",
        "a parent's end resolves its edges in the same transaction; a child is linked under the "
        "lock of its parents",
    ),
    Invariant(
        "batch_counts_members",
        "The counters of a batch that is not done match the states of its members.",
        f"""
WITH {_GROWING}, counted AS (
  SELECT batch_id, count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE state = 'expired') AS expired
  FROM jobs_job WHERE batch_id IN (SELECT id FROM growing) GROUP BY batch_id)
SELECT b.id::text, format('counts %%s, %%s, %%s, %%s; has %%s, %%s, %%s, %%s', b.succeeded,
  b.failed, b.cancelled, b.expired, coalesce(c.succeeded, 0), coalesce(c.failed, 0),
  coalesce(c.cancelled, 0), coalesce(c.expired, 0))
FROM growing b LEFT JOIN counted c ON c.batch_id = b.id
WHERE least(b.succeeded - coalesce(c.succeeded, 0), b.failed - coalesce(c.failed, 0),
    b.cancelled - coalesce(c.cancelled, 0), b.expired - coalesce(c.expired, 0)) < 0
  OR b.generation = 1 AND {_ENDED} <> coalesce(c.succeeded + c.failed + c.cancelled + c.expired, 0)
""",
        _BY_HAND,
        "a member's end and retry change the counters in the same transaction; constraint "
        "jobs_batch_counters",
    ),
    Invariant(
        "batch_total_is_members",
        "The total of a sealed batch is the number of its members, and its total less its "
        "counters is the number that have not ended.",
        f"""
WITH {_GROWING}, counted AS (SELECT batch_id, count(*) AS members,
    count(*) FILTER (WHERE state IN {_UNFINISHED}) AS unfinished
  FROM jobs_job WHERE batch_id IN (SELECT id FROM growing) GROUP BY batch_id)
SELECT b.id::text, format('total %%s, members %%s; left %%s, unfinished %%s', b.total,
  coalesce(c.members, 0), b.total - ({_ENDED}), coalesce(c.unfinished, 0))
FROM growing b LEFT JOIN counted c ON c.batch_id = b.id
WHERE b.state = 'sealed' AND (b.total - ({_ENDED}) <> coalesce(c.unfinished, 0)
  OR b.generation = 1 AND b.total <> coalesce(c.members, 0))
""",
        _BY_HAND,
        "sealing waits for transactions that add members, counts them, and refuses later ones; "
        "constraint jobs_batch_sealed_has_total",
    ),
    Invariant(
        "batch_ends_with_members",
        "A batch is done if and only if it is sealed and its last member has ended.",
        f"""
WITH recent AS (SELECT * FROM jobs_batch ORDER BY created_at DESC, id DESC LIMIT %(depth)s)
SELECT b.id::text, format('%%s, %%s of %%s ended, finished at %%s', b.state, {_ENDED}, b.total,
  coalesce(b.finished_at::text, '(never)'))
FROM recent b
WHERE (b.state = 'done') <> (b.finished_at IS NOT NULL)
  OR b.state <> 'open' AND (b.state = 'done') <> ({_ENDED} = b.total)
""",
        _BY_HAND,
        "the seal and the end of the last member lock the batch's row, and the second of them "
        "concludes it",
    ),
    Invariant(
        "one_unfinished_per_line",
        "In a lineage of replays, at most one job is unfinished.",
        f"""
SELECT min(id::text), 'line ' || lineage::text || ' has ' || count(*)::text || ' unfinished jobs'
FROM jobs_job WHERE lineage IS NOT NULL AND state IN {_UNFINISHED}
GROUP BY lineage HAVING count(*) > 1
""",
        "cancel all but one of them",
        "replay and retry check the whole lineage under a lock before they start another run",
    ),
    Invariant(
        "success_has_no_doubt",
        "No job has succeeded while one of its effects is in doubt.",
        """
SELECT e.job_id::text, 'succeeded, but effect ' || e.key || ' is in doubt'
FROM jobs_effect e JOIN jobs_job j ON j.id = e.job_id
WHERE e.state = 'in_doubt' AND j.state = 'succeeded'
""",
        "resolve the effect, and do not catch jobs.effects.InDoubt in its handler",
        "jobs.effects.InDoubt ends the attempt, and the job fails until a person decides",
    ),
)
