"""Pause and resume: nothing more of a scope starts until somebody, or the clock, opens it again.

Running jobs run on; queued ones are taken back. A job that waits uses no attempt.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from jobs import scopes
from jobs.engine import closures, outbox, sql
from jobs.errors import InvalidOption
from jobs.models import Pause
from jobs.operate.permissions import PAUSE_QUEUE
from jobs.operate.targets import SCOPE
from jobs.operate.verbs import acting, verb
from jobs.principals import By

ScopeName = Annotated[
    str,
    Field(
        min_length=3,
        max_length=300,
        description="queue:NAME, kind:KIND, tenant:TENANT, key:KEY or limit_key:KEY",
    ),
]
STOPPED_BY_PEOPLE = UUID(int=0)
"""Stands where a preempted job names the one that it makes way for."""


@verb("scope.pause", on=SCOPE, permission=PAUSE_QUEUE)
def pause(
    scope: ScopeName,
    *,
    reason: str,
    by: By,
    until: Annotated[
        datetime | None,
        Field(description="resume automatically then, like 2030-01-31T18:00Z"),
    ] = None,
    running: Annotated[
        Literal["finish", "stop"], Field(description="let running jobs finish, or stop them")
    ] = "finish",
) -> Pause:
    """Start nothing more of a scope; running jobs continue.

    The pause lasts until ``until``, or until it is resumed. Scopes are ``queue:<name>``,
    ``kind:<kind>``, ``tenant:<tenant>``, ``key:<exclusive key>`` and ``limit_key:<limit key>``, of
    whatever kind. Pausing what is paused already replaces its reason and its end. With
    ``running="stop"`` those that run are asked to stop, and wait for the end of the pause like the
    others.
    """
    scope = scopes.checked(scope)
    with acting(pause, scope, by=by, reason=reason) as act:
        check_until(until)
        if running not in ("finish", "stop"):
            raise InvalidOption("running", f"must be 'finish' or 'stop', got {running!r}")
        reason, who = act.reason, act.name
        act.note(until=until, running=running)
        sql.run(
            "INSERT INTO jobs_pause (scope, reason, by, until, created_at) "
            "VALUES (%s, %s, %s, %s, jobs_clock()) ON CONFLICT (scope) DO UPDATE "
            "SET reason = excluded.reason, by = excluded.by, until = excluded.until",
            [scope, reason, who, until],
        )
        payload = {"scope": scope, "by": who, "reason": reason, "until": until}
        outbox.tell("jobs.scope.paused", payload, key=f"scope:{scope}")
        closures.refresh(wait=True)
        if running == "stop":
            act.note(asked_to_stop=_stop_running(scope))
        return Pause.objects.using(sql.alias()).get(scope=scope)


_STOP = """
WITH l AS MATERIALIZED (SELECT id FROM jobs_job WHERE state = 'running' AND {column} = ANY (%s)
  AND preempted_by IS NULL ORDER BY id FOR NO KEY UPDATE)
UPDATE jobs_job j SET preempted_by = %s, preempt_asked_at = jobs_clock() FROM l WHERE j.id = l.id
"""
_COLUMNS = {"queue": "queue", "kind": "kind", "tenant": "tenant", "key": "exclusive_key",
            "limit_key": "limit_key"}  # fmt: skip


def _stop_running(scope: str) -> int:
    """Running jobs of the scope are to stop and wait; answers how many."""
    names = [scopes.split(spelling)[1] for spelling in scopes.spellings(scope)]
    return sql.run(
        _STOP.format(column=_COLUMNS[scopes.split(scope)[0]]), [names, STOPPED_BY_PEOPLE]
    )


@verb("scope.resume", on=SCOPE, permission=PAUSE_QUEUE)
def resume(scope: ScopeName, *, by: By, reason: str) -> bool:
    """End the pause of a scope; a blackout window stays in force.

    Returns False where there was no pause.
    """
    scope = scopes.checked(scope)
    with acting(resume, scope, by=by, reason=reason) as act:
        reason, who = act.reason, act.name
        gone = sql.run("DELETE FROM jobs_pause WHERE scope = %s", [scope])
        if gone:
            payload = {"scope": scope, "by": who, "reason": reason}
            outbox.tell("jobs.scope.resumed", payload, key=f"scope:{scope}")
        closures.refresh(wait=True)
        act.count = gone
    return gone > 0


def paused() -> list[Pause]:
    """The pauses in force, by scope."""
    now = sql.rows("SELECT jobs_clock()")[0][0]
    known = Pause.objects.using(sql.alias()).order_by("scope")
    return [pause for pause in known if pause.until is None or pause.until > now]


def check_until(until: object) -> None:
    """The end of what people set lies ahead, where it has one."""
    if until is None:
        return
    if not isinstance(until, datetime) or until.utcoffset() is None:
        raise InvalidOption("until", f"must be a datetime with a time zone, got {until!r}")
    if sql.rows("SELECT %s::timestamptz > jobs_clock()", [until]) == [(False,)]:
        raise InvalidOption("until", f"{until.isoformat()} has passed already")
