"""Pause and resume: nothing more of a scope starts until somebody, or the clock, opens it again.

Running jobs run on; queued ones are taken back. A job that waits uses no attempt.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from jobs import scopes
from jobs.engine import closures, outbox, sql
from jobs.errors import InvalidOption
from jobs.models import Pause
from jobs.operate.words import checked_by, checked_reason


def pause(scope: str, *, reason: str, by: str, until: datetime | None = None) -> Pause:
    """Nothing of the scope starts from now on, until then or until it is resumed.

    Scopes are ``queue:<name>``, ``kind:<kind>``, ``tenant:<tenant>`` and ``key:<exclusive key>``.
    Pausing what is paused already replaces its reason and its end.
    """
    scope, reason, by = scopes.checked(scope), checked_reason(reason), checked_by(by)
    _check_until(until)
    with transaction.atomic(using=sql.alias()):
        sql.run(
            "INSERT INTO jobs_pause (scope, reason, by, until, created_at) "
            "VALUES (%s, %s, %s, %s, jobs_clock()) ON CONFLICT (scope) DO UPDATE "
            "SET reason = excluded.reason, by = excluded.by, until = excluded.until",
            [scope, reason, by, until],
        )
        payload = {"scope": scope, "by": by, "reason": reason, "until": until}
        outbox.tell("jobs.scope.paused", payload, key=f"scope:{scope}")
        closures.refresh(wait=True)
        return Pause.objects.using(sql.alias()).get(scope=scope)


def resume(scope: str, *, by: str, reason: str) -> bool:
    """The scope's pause is over; False where it had none. A blackout window stays in force."""
    scope = scopes.checked(scope)
    by, reason = checked_by(by), checked_reason(reason)
    with transaction.atomic(using=sql.alias()):
        gone = sql.run("DELETE FROM jobs_pause WHERE scope = %s", [scope])
        if gone:
            payload = {"scope": scope, "by": by, "reason": reason}
            outbox.tell("jobs.scope.resumed", payload, key=f"scope:{scope}")
        closures.refresh(wait=True)
    return gone > 0


def paused() -> list[Pause]:
    """The pauses in force, by scope."""
    now = sql.rows("SELECT jobs_clock()")[0][0]
    known = Pause.objects.using(sql.alias()).order_by("scope")
    return [pause for pause in known if pause.until is None or pause.until > now]


def _check_until(until: object) -> None:
    if until is None:
        return
    if not isinstance(until, datetime) or until.utcoffset() is None:
        raise InvalidOption("until", f"must be a datetime with a time zone, got {until!r}")
    if sql.rows("SELECT %s::timestamptz > jobs_clock()", [until]) == [(False,)]:
        raise InvalidOption("until", f"{until.isoformat()} has passed already")
