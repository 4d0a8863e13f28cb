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
# retry (its generation tells); of no other.
_GROWING = """growing AS MATERIALIZED (SELECT * FROM (SELECT * FROM jobs_batch
    ORDER BY created_at DESC, id DESC LIMIT %(depth)s) b WHERE b.state <> 'done' LIMIT 100)"""
_ENDED = "b.succeeded + b.failed + b.cancelled + b.expired"

_BY_HAND = "find out who has written to these tables by hand; mend the row"

FLOW_INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "slot_has_holder",
        "An exclusive key belongs to nobody, or to one job of that key that is queued, running or "
        "the next to go.",
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
        "start a dispatcher (manage.py jobs dispatch): it frees keys that nobody holds",
        "whatever moves a job frees or passes on its key in the same transaction; the reconciler",
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
        "the dispatch function takes key and job together; constraint jobs_job_exclusive",
    ),
    Invariant(
        "free_key_is_taken",
        "No job waits on for an exclusive key that is free.",
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
        "start a dispatcher (manage.py jobs dispatch): it wakes those who wait for a free key",
        "the transaction that frees a key wakes the best that waits for it; the reconciler",
    ),
    Invariant(
        "limits_hold",
        "Under no limit are more jobs queued or running than it allows.",
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
        "wait, if the limit was made or lowered while jobs ran; otherwise find out who has moved "
        "jobs by hand",
        "the dispatch function counts and admits under the lock of the limit's row",
    ),
    Invariant(
        "open_parents_counted",
        "An unfinished job counts as many open parents as it has open edges, and a blocked one "
        "has at least one.",
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
        "each edge is turned once, by the transaction that counts it; constraint "
        "jobs_job_blocked_has_parents",
    ),
    Invariant(
        "ended_parents_let_go",
        "No blocked job waits for a parent that is gone, or whose end has released or doomed it.",
        """
SELECT c.id::text, 'waits (' || d.policy || ') for ' || d.parent_id::text || ', which is '
  || coalesce(p.state, 'gone')
FROM jobs_job c JOIN jobs_dependency d ON d.child_id = c.id AND NOT d.done
  LEFT JOIN jobs_job p ON p.id = d.parent_id
WHERE c.state = 'blocked' AND (p.id IS NULL OR p.state = 'succeeded'
  OR d.policy <> 'wait' AND p.state IN ('failed', 'cancelled', 'expired'))
""",
        "cancel the job and enqueue it anew; find out who has moved or deleted its parent by hand",
        "a parent's end resolves its edges in the same transaction; a child is linked under the "
        "lock of its parents",
    ),
    Invariant(
        "batch_counts_members",
        "The counters of a batch that is not done are those of its members' states.",
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
        "A sealed batch has as many members as its total says, and as many that have not ended "
        "as its counters leave.",
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
        "the seal waits for those who add, counts, and refuses everybody after; constraint "
        "jobs_batch_sealed_has_total",
    ),
    Invariant(
        "batch_ends_with_members",
        "A batch is done exactly when it is sealed and its last member has ended.",
        f"""
WITH recent AS (SELECT * FROM jobs_batch ORDER BY created_at DESC, id DESC LIMIT %(depth)s)
SELECT b.id::text, format('%%s, %%s of %%s ended, finished at %%s', b.state, {_ENDED}, b.total,
  coalesce(b.finished_at::text, '(never)'))
FROM recent b
WHERE (b.state = 'done') <> (b.finished_at IS NOT NULL)
  OR b.state <> 'open' AND (b.state = 'done') <> ({_ENDED} = b.total)
""",
        _BY_HAND,
        "seal and last end meet at the batch's row, and whoever comes second concludes it",
    ),
    Invariant(
        "one_unfinished_per_line",
        "Of a line of replays at most one job is unfinished.",
        f"""
SELECT min(id::text), 'line ' || lineage::text || ' has ' || count(*)::text || ' unfinished jobs'
FROM jobs_job WHERE lineage IS NOT NULL AND state IN {_UNFINISHED}
GROUP BY lineage HAVING count(*) > 1
""",
        "cancel all but one of them",
        "replay and retry look at the whole line under a lock before they begin another run",
    ),
    Invariant(
        "success_has_no_doubt",
        "No job has succeeded while one of its effects is in doubt.",
        """
SELECT e.job_id::text, 'succeeded, but effect ' || e.key || ' is in doubt'
FROM jobs_effect e JOIN jobs_job j ON j.id = e.job_id
WHERE e.state = 'in_doubt' AND j.state = 'succeeded'
""",
        "decide about the effect; let its handler not catch jobs.InDoubt",
        "jobs.InDoubt ends the attempt, and the job fails for a person",
    ),
)
