"""Limits that people set: instead of what code declares, for good or until a moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import transaction

from jobs import scopes
from jobs.engine import admission, rq, sql
from jobs.errors import HandlerError, InvalidOption
from jobs.limits import Limit
from jobs.models import Limiter
from jobs.operate import acts
from jobs.operate.pauses import check_until
from jobs.principals import By


def set_limit(
    scope: str,
    *,
    by: By,
    reason: str,
    at_once: int | None = None,
    rate: str | None = None,
    burst: float | None = None,
    until: datetime | None = None,
) -> Limiter:
    """The queue or kind (``queue:<name>``, ``kind:<kind>``) has this limit, whatever code says.

    With ``until`` it is an override: then what held before holds again. Without both ``at_once``
    and ``rate`` the scope has no limit.
    """
    with _act("set", scope, by, reason) as act:
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


def end_override(scope: str, *, by: By, reason: str) -> None:
    """What held before the override holds again, before its time; raises where there is none."""
    with _act("end_override", scope, by, reason) as act:
        scope = limitable(scope)
        before = _locked(scope)
        if before is None or before["override_until"] is None:
            raise InvalidOption("scope", f"{scope!r} has no override")
        sql.run("UPDATE jobs_limiter SET override_until = jobs_clock() WHERE scope = %s", [scope])
        admission.end_overrides()
        act.changed(_shown(before), _shown(_locked(scope)))
        _shut(scope)


def remove_limit(scope: str, *, by: By, reason: str) -> None:
    """What people have set is gone: the limit is what code declares, or none."""
    with _act("remove", scope, by, reason) as act:
        scope = limitable(scope)
        before = _locked(scope)
        if before is None or before["is_declared"]:
            raise InvalidOption("scope", f"nobody has set a limit of {scope!r}")
        admission.give_back(scope)
        act.changed(_shown(before), _shown(_locked(scope)))
        _shut(scope)


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


@contextmanager
def _act(verb: str, scope: str, by: By, reason: str) -> Iterator[acts.Act]:
    with acts.on(
        f"limit.{verb}", kind="scope", id=scope, permission="edit_queue", by=by, reason=reason,
        needs_reason=True,
    ) as act:  # fmt: skip
        yield act


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
