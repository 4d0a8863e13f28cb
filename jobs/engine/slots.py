"""Belt and braces for exclusive keys and limits per key: nothing free stays unused for long.

Whoever frees a key or a place passes it on in the same transaction. What slips through all the
same, because a row was locked at that moment or was changed by hand, is found here.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from jobs.engine import claims, sql

# A slot belongs to a job that is queued or running, or to the heir of a key that is ready to go.
_HELD = """EXISTS (SELECT 1 FROM jobs_job j WHERE j.id = s.job_id AND j.exclusive_key = s.key
  AND (j.state IN ('queued', 'running') OR j.state = 'pending' AND j.wait = 0))"""


def free_leaked(limit: int = 500) -> list[str]:
    """Keys whose slot nobody holds any more are free, and passed on; answers them."""
    suspects = sql.rows(f"SELECT s.key FROM jobs_slot s WHERE NOT {_HELD} LIMIT %s", [limit])  # noqa: S608 - constant text
    if not suspects:
        return []

    def write() -> list[str]:
        with transaction.atomic(using=sql.alias()):
            locked = sql.rows(
                "SELECT key FROM jobs_slot WHERE key = ANY (%s) ORDER BY key "
                "FOR UPDATE SKIP LOCKED",
                [[key for (key,) in suspects]],
            )
            # Looked at again under the lock: a slot may have been handed over since.
            freed = sql.rows(
                f"DELETE FROM jobs_slot s WHERE s.key = ANY (%s) AND NOT {_HELD} RETURNING s.key",  # noqa: S608
                [[key for (key,) in locked]],
            )
            keys = sorted(key for (key,) in freed)
            if keys:
                _wake(keys)
            return keys

    return sql.repeating(write)


# From key to key: one entry of the index each, however many wait for it.
_FORGOTTEN = """
WITH RECURSIVE keys AS (
  (SELECT exclusive_key AS key, 1 AS n FROM jobs_job
    WHERE state = 'pending' AND exclusive_key > %s ORDER BY exclusive_key LIMIT 1)
  UNION ALL
  SELECT (SELECT exclusive_key FROM jobs_job
    WHERE state = 'pending' AND exclusive_key > k.key ORDER BY exclusive_key LIMIT 1), n + 1
  FROM keys k WHERE k.key IS NOT NULL AND k.n < %s)
SELECT k.key, NOT EXISTS (SELECT 1 FROM jobs_slot s WHERE s.key = k.key)
  AND NOT EXISTS (SELECT 1 FROM jobs_closure c WHERE c.scope = 'key:' || k.key)
  AND EXISTS (SELECT 1 FROM jobs_job j WHERE j.exclusive_key = k.key AND j.state = 'pending'
    AND j.wait = 2
    AND NOT coalesce('limit_key:' || j.limit_key = ANY ((SELECT jobs_closed())::text[]), false))
  -- A ready one that may not start now is not on its way.
  AND NOT EXISTS (SELECT 1 FROM jobs_job j WHERE j.exclusive_key = k.key AND j.state = 'pending'
    AND j.wait = 0 AND NOT ARRAY['queue:' || j.queue, 'kind:' || j.kind, 'tenant:' || j.tenant]
      && (SELECT jobs_closed()))
FROM keys k WHERE k.key IS NOT NULL
"""


class Watch:
    """Walks over the keys that jobs wait for, some at a time, and round again."""

    def __init__(self) -> None:
        self._after = ""

    def wake_forgotten(self, limit: int = 200) -> int:
        """Of every free key among the next ones, the best waiter is ready; answers how many."""
        found = sql.rows(_FORGOTTEN, [self._after, limit])
        self._after = found[-1][0] if len(found) == limit else ""
        free = [key for key, is_free in found if is_free]
        if not free:
            return 0
        with transaction.atomic(using=sql.alias()):
            return _wake(free)


_PLACES = """
WITH waiting AS MATERIALIZED (SELECT DISTINCT kind, limit_key FROM (
    SELECT kind, limit_key FROM jobs_job WHERE state = 'pending' AND wait = 2
      AND limit_key IS NOT NULL AND exclusive_key IS NULL LIMIT %s) w
  WHERE NOT 'limit_key:' || limit_key = ANY (SELECT unnest(jobs_closed()))),
room AS MATERIALIZED (SELECT m.scope, w.kind, w.limit_key, m.at_once
  FROM waiting w JOIN jobs_limiter m ON m.scope = 'key:' || w.kind || '|' || w.limit_key
  ORDER BY m.scope FOR UPDATE OF m SKIP LOCKED)
SELECT r.kind, r.limit_key, coalesce(r.at_once, 1) - (SELECT count(*) FROM jobs_job j
    WHERE j.limit_key = r.limit_key AND j.kind = r.kind
      AND (j.state IN ('queued', 'running') OR j.state = 'pending' AND j.wait = 0))
FROM room r
"""

_WAKE_LIMITED = """
WITH best AS MATERIALIZED (SELECT j.id FROM jobs_job j
  WHERE j.limit_key = %s AND j.kind = %s AND j.state = 'pending' AND j.wait = 2
  ORDER BY j.rank, j.id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobs_job j SET wait = 0 FROM best WHERE j.id = best.id
"""


def wake_limited(limit: int = 5000) -> int:
    """Where a limit per key has room and nobody on the way, waiters are ready; answers how many."""
    if not sql.rows("SELECT 1 FROM jobs_limiter WHERE key IS NOT NULL LIMIT 1"):
        return 0
    with transaction.atomic(using=sql.alias()):
        woken = 0
        for kind, key, room in sql.rows(_PLACES, [limit]):
            if room > 0:
                woken += sql.run(_WAKE_LIMITED, [key, kind, room])
        if woken:
            claims.nudge()
        return woken


def _wake(keys: Sequence[str]) -> int:
    [(woken,)] = sql.rows("SELECT jobs_wake_keys(%s)", [list(keys)])
    if woken:
        claims.nudge()
    return int(woken)
