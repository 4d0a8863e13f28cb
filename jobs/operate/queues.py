"""Limits that people set: instead of what code declares, for good or until a moment."""

from __future__ import annotations

import json
from typing import Annotated, Any

from django.db import transaction
from pydantic import Field

from jobs import scopes
from jobs.engine import admission, rq, sql
from jobs.engine.flow import PRIORITY_STEP_MS
from jobs.engine.pushes import after_commit
from jobs.errors import HandlerError, InvalidOption
from jobs.limits import Limit
from jobs.models import Limiter
from jobs.operate.parameters import Until
from jobs.operate.pauses import check_until
from jobs.operate.permissions import EDIT_QUEUE
from jobs.operate.targets import SCOPE
from jobs.operate.verbs import acting, verb
from jobs.principals import By

Limited = Annotated[str, Field(min_length=3, max_length=300, description="queue:NAME or kind:KIND")]


@verb("limit.set", on=SCOPE, permission=EDIT_QUEUE, group="administrator")
def set_limit(
    scope: Limited,
    *,
    by: By,
    reason: str,
    at_once: Annotated[int | None, Field(ge=1, le=1_000_000, description="jobs at a time")] = None,
    rate: Annotated[str | None, Field(max_length=40, description="like 100/s")] = None,
    burst: Annotated[float | None, Field(gt=0, le=1e9)] = None,
    until: Until = None,
) -> Limiter:
    """Limit a queue or a kind, overriding what code declares.

    The scope is ``queue:<name>`` or ``kind:<kind>``. With ``until`` it is an override: then what
    held before holds again. Without both ``at_once`` and ``rate`` the scope has no limit.
    """
    with acting(set_limit, scope, by=by, reason=reason) as act:
        scope = limitable(scope)
        check_until(until)
        limit = _limit(at_once, rate, burst)
        before = _locked(scope)
        standing = None
        if until is not None and before is not None:
            standing = before["standing"] if before["override_until"] else _standing(before)
        values = admission.columns(limit) if limit else (None, None, 1.0)
        sql.run(
            _SET,
            [scope, *values, until, json.dumps(standing) if standing else None, act.name,
             act.reason],
        )  # fmt: skip
        act.changed(_shown(before), _shown(_locked(scope)))
        _shut(scope)
        return Limiter.objects.using(sql.alias()).get(scope=scope)


@verb("limit.end_override", on=SCOPE, permission=EDIT_QUEUE, group="administrator")
def end_override(scope: Limited, *, by: By, reason: str) -> None:
    """End an override before its time; what held before holds again."""
    with acting(end_override, scope, by=by, reason=reason) as act:
        scope = limitable(scope)
        before = _locked(scope)
        if before is None or before["override_until"] is None:
            raise InvalidOption("scope", f"{scope!r} has no override")
        sql.run("UPDATE jobs_limiter SET override_until = jobs_clock() WHERE scope = %s", [scope])
        admission.end_overrides()
        act.changed(_shown(before), _shown(_locked(scope)))
        _shut(scope)


@verb("limit.remove", on=SCOPE, permission=EDIT_QUEUE, group="administrator")
def remove_limit(scope: Limited, *, by: By, reason: str) -> None:
    """Remove a limit that was set by hand; that of the code holds again, or none."""
    with acting(remove_limit, scope, by=by, reason=reason) as act:
        scope = limitable(scope)
        before = _locked(scope)
        if before is None or before["is_declared"]:
            raise InvalidOption("scope", f"nobody has set a limit of {scope!r}")
        admission.give_back(scope)
        act.changed(_shown(before), _shown(_locked(scope)))
        _shut(scope)


@verb("limit.reopen", on=SCOPE, permission=EDIT_QUEUE, group="administrator")
def reopen(
    scope: Annotated[str, Field(min_length=3, max_length=300)], *, by: By, reason: str
) -> None:
    """Reopen what a handler has closed by jobs.RateLimited; raises where nothing is closed.

    The scope is that of the limit: ``queue:<name>``, ``kind:<kind>`` or ``key:<kind>|<limit key>``.
    """
    with acting(reopen, scope, by=by, reason=reason) as act:
        found = sql.rows(_REOPEN, [scope])
        if not found:
            raise InvalidOption("scope", f"nothing has closed {scope!r} for a time")
        [(until, queues, kind, key)] = found
        act.changed({"closed_until": until}, {"closed_until": None})
        act.note(released=len(sql.rows(_RELEASE, [queues, kind, kind, key, key, PRIORITY_STEP_MS])))
        after_commit(None)


_REOPEN = """
WITH before AS MATERIALIZED (SELECT scope, closed_until, kind, key FROM jobs_limiter
  WHERE scope = %s AND closed_until > jobs_clock() FOR UPDATE)
UPDATE jobs_limiter m SET closed_until = NULL FROM before b WHERE m.scope = b.scope
RETURNING b.closed_until,
  CASE WHEN m.scope LIKE 'queue:%%' THEN substr(m.scope, 7) END,
  coalesce(b.kind, CASE WHEN m.scope LIKE 'kind:%%' THEN substr(m.scope, 6) END), b.key
"""

# The jobs that were refused wait for themselves, besides the closure.
_RELEASE = """
WITH l AS MATERIALIZED (SELECT id FROM jobs_job WHERE state = 'pending' AND wait = 1
    AND run_at > jobs_clock() AND queue = coalesce(%s, queue)
    AND (%s::text IS NULL OR kind = %s) AND (%s::text IS NULL OR limit_key = %s)
    AND starts_with(history->-1->>4, 'rate limited for ')
  ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobs_job j SET run_at = jobs_clock(), wait = 0,
  rank = (extract(epoch FROM jobs_clock()) * 1000)::bigint - j.priority * %s
FROM l WHERE j.id = l.id AND j.state = 'pending' RETURNING 1
"""


def limitable(scope: str) -> str:
    """The scope in its one spelling, which can have a limit of people."""
    found = scopes.checked(scope)
    if scopes.split(found)[0] not in ("queue", "kind"):
        raise InvalidOption("scope", f"{scope!r} has no limit: it must start with queue: or kind:")
    return found


_NAMES = ("at_once", "per_second", "burst", "is_declared", "override_until", "standing")
_SET = """
INSERT INTO jobs_limiter AS m (scope, at_once, per_second, burst, tokens, refilled_at, is_declared,
  override_until, standing, set_by, set_reason)
SELECT t.scope, t.at_once, t.per_second, t.burst, t.burst, jobs_clock(), false, t.until,
  t.standing, t.by, t.reason
FROM (SELECT %s::text AS scope, %s::int AS at_once, %s::float8 AS per_second, %s::float8 AS burst,
  %s::timestamptz AS until, %s::jsonb AS standing, %s::text AS by, %s::text AS reason) t
ON CONFLICT (scope) DO UPDATE SET at_once = excluded.at_once, per_second = excluded.per_second,
  burst = excluded.burst, is_declared = false, override_until = excluded.override_until,
  standing = excluded.standing, set_by = excluded.set_by, set_reason = excluded.set_reason,
  tokens = CASE WHEN m.per_second IS NULL THEN excluded.burst
    ELSE least(m.tokens, excluded.burst) END,
  refilled_at = CASE WHEN m.per_second IS NULL THEN jobs_clock() ELSE m.refilled_at END
"""


def _limit(at_once: int | None, rate: str | None, burst: float | None) -> Limit | None:
    if at_once is None and rate is None:
        if burst is not None:
            raise InvalidOption("burst", "means nothing without a rate")
        return None
    if at_once is not None and isinstance(at_once, int) and at_once > 1_000_000:
        raise InvalidOption("at_once", "is more than a million")
    try:
        return Limit(at_once, rate, burst)
    except HandlerError as error:
        option = "at_once" if "at_once" in str(error) else "rate"
        raise InvalidOption(option, str(error)) from None


def _locked(scope: str) -> dict[str, Any] | None:
    found = sql.rows(
        f"SELECT {', '.join(_NAMES)} FROM jobs_limiter WHERE scope = %s FOR UPDATE",  # noqa: S608
        [scope],
    )
    if not found:
        return None
    row = dict(zip(_NAMES, found[0], strict=True))
    if isinstance(row["standing"], str):
        row["standing"] = json.loads(row["standing"])
    return row


def _standing(row: dict[str, Any]) -> dict[str, Any] | None:
    """What an override covers: somebody's limit, or None for that of the code."""
    return None if row["is_declared"] else {name: row[name] for name in _NAMES[:3]}


def _shown(row: dict[str, Any] | None) -> dict[str, Any]:
    return {} if row is None else {name: row[name] for name in _NAMES[:5]}


def _shut(scope: str) -> None:
    """Nobody believes any more that jobs of the queue may skip the dispatcher."""
    what, name = scopes.split(scope)
    if what == "queue":
        transaction.on_commit(lambda: rq.try_shut([name]), using=sql.alias(), robust=True)
