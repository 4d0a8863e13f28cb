"""When jobs run, for apps: pauses, blackout windows, breakers, meters, schedules, batches.

::

    from jobs import flow

    flow.pause("limit_key:broker-7", by="ada", reason="they refuse our key")
    if until := flow.closed(["kind:shop.publish", "tenant:acme"], post.publish_at):
        ...                                     # nothing of it starts before then
    flow.reschedule(job_id, tomorrow, by=request.user, reason="the customer asked for it")

Every function that changes something asks for a permission, keeps to the caller's scope and leaves
a row in the audit, like the same act in the admin, the API or the command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from jobs import scopes as spelling
from jobs.breakers import Breaker, breaker, is_outage, together
from jobs.engine import closures
from jobs.engine.closures import Cover, Stop, stops
from jobs.errors import InvalidOption
from jobs.meters import Meter, meter
from jobs.operate.batchacts import cancel_rest as cancel_batch
from jobs.operate.batchacts import retry_failed as retry_batch
from jobs.operate.batches import progress as batch_progress
from jobs.operate.blackouts import create as create_blackout
from jobs.operate.blackouts import delete as delete_blackout
from jobs.operate.blackouts import preview as preview_blackout
from jobs.operate.blackouts import update as update_blackout
from jobs.operate.breakers import force_open as open_breaker
from jobs.operate.breakers import reset as close_breaker
from jobs.operate.edit import edit, run_now
from jobs.operate.meters import reopen as reopen_meter
from jobs.operate.pauses import pause, paused, resume
from jobs.operate.queues import end_override, remove_limit, set_limit
from jobs.operate.queues import reopen as reopen_limit
from jobs.operate.schedules import create as create_schedule
from jobs.operate.schedules import edit as edit_schedule
from jobs.operate.schedules import pause as pause_schedule
from jobs.operate.schedules import preview as preview_schedule
from jobs.operate.schedules import remove as remove_schedule
from jobs.operate.schedules import resume as resume_schedule
from jobs.operate.schedules import run_now as run_schedule
from jobs.outcomes import CircuitOpen, MeterFull
from jobs.principals import By
from jobs.windows import NEVER

__all__ = [
    "NEVER",
    "Breaker",
    "CircuitOpen",
    "Cover",
    "Meter",
    "MeterFull",
    "Stop",
    "batch_progress",
    "blackouts",
    "breaker",
    "cancel_batch",
    "close_breaker",
    "closed",
    "create_blackout",
    "create_schedule",
    "delete_blackout",
    "edit",
    "edit_schedule",
    "end_override",
    "is_outage",
    "meter",
    "open_breaker",
    "pause",
    "pause_schedule",
    "paused",
    "preview_blackout",
    "preview_schedule",
    "remove_limit",
    "remove_schedule",
    "reopen_limit",
    "reopen_meter",
    "reschedule",
    "resume",
    "resume_schedule",
    "retry_batch",
    "run_now",
    "run_schedule",
    "set_limit",
    "stops",
    "together",
    "update_blackout",
]


def closed(scopes: str | Iterable[str], moment: datetime | None = None) -> datetime | None:
    """Return until when any of the scopes is closed; None if all are open at the moment.

    The moment is now unless given, and may lie ahead: then windows are looked up in the calendar,
    and pauses are taken to stay as they are. What begins before the first of them ends is counted,
    so that everything is open at the moment returned. It is ``NEVER`` where a pause has no end.
    """
    names = [scopes] if isinstance(scopes, str) else list(scopes)
    if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
        raise InvalidOption("moment", f"must be a datetime with a time zone, got {moment!r}")
    return closures.closed_until([spelling.checked(name) for name in names], moment)


def blackouts(scopes: str | Iterable[str], begin: datetime, end: datetime) -> list[Cover]:
    """Return when blackout windows close any of the scopes between two moments, in order."""
    names = [scopes] if isinstance(scopes, str) else list(scopes)
    for name, moment in (("begin", begin), ("end", end)):
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            raise InvalidOption(name, f"must be a datetime with a time zone, got {moment!r}")
    return closures.covers([spelling.checked(name) for name in names], begin, end)


def reschedule(
    job_id: UUID, run_at: datetime, *, by: By, reason: str = "", version: str | None = None
) -> str:
    """Let a job that has not begun run at another time; return its version from now on.

    With ``version`` it raises ``Changed`` where somebody has changed the job since. It raises
    ``NotAllowed`` where the job has begun or ended.
    """
    return edit(job_id, by=by, reason=reason, version=version, run_at=run_at)
