"""Admission: the limits that code declares are the rows under which dispatchers count.

A limit of a queue is declared by ``jobs.queue`` or in ``JOBS["QUEUES"]``, one of a kind or of its
keys at the handler. The rows belong to the database, so that every dispatcher of the fleet counts
under the same lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction

from jobs import queues, registry
from jobs.engine import meters, sql
from jobs.limits import Limit

SYNC_INTERVAL = 30.0
"""Seconds after which a dispatcher writes down again what code declares."""
IDLE_KEYS = 1000


@dataclass(frozen=True, slots=True)
class Closing:
    """A handler asks that nothing of a scope starts for this many seconds."""

    scope: str
    queue: str
    kind: str | None
    key: str | None
    seconds: float


def declared() -> dict[str, Limit]:
    """The limits that code declares, by scope; ``key:<kind>`` is the model for the kind's keys."""
    handlers = registry.handlers()  # first: their modules declare queues, too
    found = {f"queue:{name}": limit for name, limit in queues.limits().items()}
    for handler in handlers:
        if handler.limit is not None:
            found[f"kind:{handler.kind}"] = handler.limit
        if handler.per_key is not None:
            found[f"key:{handler.kind}"] = handler.per_key
    return found


# A bucket is born full. One whose rate has changed keeps its tokens, up to its new burst.
_UPSERT = """
INSERT INTO jobs_limiter AS m (scope, at_once, per_second, burst, tokens, refilled_at, is_declared)
SELECT scope, at_once, per_second, burst, burst, jobs_clock(), true
FROM unnest(%s::text[], %s::int[], %s::float8[], %s::float8[])
  AS t(scope, at_once, per_second, burst) ORDER BY scope
ON CONFLICT (scope) DO UPDATE SET at_once = excluded.at_once, per_second = excluded.per_second,
  burst = excluded.burst, tokens = CASE WHEN m.per_second IS NULL THEN excluded.burst
    ELSE least(m.tokens, excluded.burst) END,
  refilled_at = CASE WHEN m.per_second IS NULL THEN jobs_clock() ELSE m.refilled_at END
WHERE m.is_declared AND (m.at_once, m.per_second, m.burst)
  IS DISTINCT FROM (excluded.at_once, excluded.per_second, excluded.burst)
"""

# Keys that nobody has given numbers of their own follow their kind.
_KEYS = """
WITH l AS MATERIALIZED (SELECT k.scope, m.at_once, m.per_second, m.burst
  FROM jobs_limiter k JOIN jobs_limiter m ON m.scope = 'key:' || k.kind AND m.key IS NULL
  WHERE k.key IS NOT NULL AND k.is_declared AND (k.at_once, k.per_second, k.burst)
    IS DISTINCT FROM (m.at_once, m.per_second, m.burst)
  ORDER BY k.scope FOR UPDATE OF k)
UPDATE jobs_limiter k SET at_once = l.at_once, per_second = l.per_second, burst = l.burst,
  tokens = CASE WHEN k.per_second IS NULL THEN l.burst ELSE least(k.tokens, l.burst) END,
  refilled_at = CASE WHEN k.per_second IS NULL THEN jobs_clock() ELSE k.refilled_at END
FROM l WHERE k.scope = l.scope
"""

# A closure by a handler outlives the declaration of its limit.
_VANISHED = """
WITH l AS MATERIALIZED (SELECT scope FROM jobs_limiter
  WHERE is_declared AND (key IS NULL AND NOT scope = ANY (%s)
    OR key IS NOT NULL AND NOT 'key:' || kind = ANY (%s))
  ORDER BY scope FOR UPDATE),
kept AS (UPDATE jobs_limiter m SET at_once = NULL, per_second = NULL FROM l
  WHERE m.scope = l.scope AND m.closed_until > jobs_clock() RETURNING m.scope)
DELETE FROM jobs_limiter m USING l WHERE m.scope = l.scope
  AND (m.closed_until IS NULL OR m.closed_until <= jobs_clock())
"""

# The row of a key that nobody uses, and whose bucket is full again, tells nothing.
_IDLE = """
WITH idle AS MATERIALIZED (SELECT scope FROM jobs_limiter k
  WHERE key IS NOT NULL AND is_declared
    AND (closed_until IS NULL OR closed_until <= jobs_clock())
    AND (per_second IS NULL OR tokens
      + per_second * extract(epoch FROM jobs_clock() - refilled_at) >= burst)
    AND NOT EXISTS (SELECT 1 FROM jobs_job j WHERE j.limit_key = k.key AND j.kind = k.kind
      AND j.state IN ('pending', 'queued', 'running'))
  LIMIT %s FOR UPDATE SKIP LOCKED)
DELETE FROM jobs_limiter m USING idle WHERE m.scope = idle.scope
"""


def sync_limits() -> None:
    """The declared limits have their rows and no other has one; rows of operators stay."""
    limits = declared()
    scopes = sorted(limits)
    values = [columns(limits[scope]) for scope in scopes]

    def write() -> None:
        with transaction.atomic(using=sql.alias()):
            columns = [list(column) for column in zip(*values, strict=True)] or [[], [], []]
            sql.run(_UPSERT, [scopes, *columns])
            sql.run(_KEYS)
            sql.run(_VANISHED, [scopes, scopes])
        sql.run(_IDLE, [IDLE_KEYS])
        meters.forget_idle()

    sql.repeating(write)


def columns(limit: Limit) -> tuple[int | None, float | None, float]:
    """The limit as its columns: how many at once, how many per second, how many in a burst."""
    if limit.rate is None:
        return limit.at_once, None, 1.0
    return limit.at_once, float(limit.rate.per_second), float(limit.rate.burst)


# The code's own row follows with the next statement.
_END_OVERRIDES = """
WITH l AS MATERIALIZED (SELECT scope FROM jobs_limiter WHERE override_until <= jobs_clock()
  ORDER BY scope FOR UPDATE)
UPDATE jobs_limiter m SET override_until = NULL, standing = NULL,
  is_declared = m.standing IS NULL,
  set_by = CASE WHEN m.standing IS NULL THEN '' ELSE m.set_by END,
  set_reason = CASE WHEN m.standing IS NULL THEN '' ELSE m.set_reason END,
  at_once = (m.standing->>'at_once')::int, per_second = (m.standing->>'per_second')::float8,
  burst = coalesce((m.standing->>'burst')::float8, 1)
FROM l WHERE m.scope = l.scope RETURNING m.scope, m.is_declared
"""


def end_overrides() -> list[str]:
    """Limits that people have set until a moment that has passed are what they were before."""

    def write() -> list[str]:
        with transaction.atomic(using=sql.alias()):
            ended = sql.bound_rows(_END_OVERRIDES, [])
            for scope, is_declared in ended:
                if is_declared:
                    give_back(scope)
            return [scope for scope, _ in ended]

    return sql.repeating(write)


def give_back(scope: str) -> None:
    """The scope's limit is what code declares; without one, the row stays only while closed."""
    sql.run(
        "UPDATE jobs_limiter SET is_declared = true, override_until = NULL, standing = NULL, "
        "set_by = '', set_reason = '', at_once = NULL, per_second = NULL WHERE scope = %s",
        [scope],
    )
    if limit := declared().get(scope):
        sql.run(_UPSERT, [[scope], *([value] for value in columns(limit))])
    else:
        sql.run(
            "DELETE FROM jobs_limiter WHERE scope = %s "
            "AND (closed_until IS NULL OR closed_until <= jobs_clock())",
            [scope],
        )


_CLOSE = """
INSERT INTO jobs_limiter AS m (scope, kind, key, closed_until, at_once, per_second, burst, tokens,
  refilled_at, is_declared)
SELECT t.scope, t.kind, t.key, jobs_clock() + t.seconds * interval '1 s', k.at_once, k.per_second,
  coalesce(k.burst, 1), coalesce(k.burst, 0), jobs_clock(), true
FROM unnest(%s::text[], %s::text[], %s::text[], %s::float8[]) AS t(scope, kind, key, seconds)
  LEFT JOIN jobs_limiter k ON k.scope = 'key:' || t.kind
ORDER BY t.scope
ON CONFLICT (scope) DO UPDATE SET closed_until = greatest(m.closed_until, excluded.closed_until)
"""


def close(closings: Iterable[Closing]) -> None:
    """Nothing of the scopes is admitted until then, or until what they were closed to before."""
    longest: dict[str, Closing] = {}
    for closing in closings:
        known = longest.get(closing.scope)
        if known is None or closing.seconds > known.seconds:
            longest[closing.scope] = closing
    if longest:
        rows = [(c.scope, c.kind, c.key, c.seconds) for c in longest.values()]
        sql.run(_CLOSE, [list(column) for column in zip(*rows, strict=True)])
