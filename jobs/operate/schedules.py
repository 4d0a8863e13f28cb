"""What people do with schedules: make, pause, resume, run at once, look ahead, remove.

Every function here checks first and writes then, in one transaction; an InvalidOption names what
is wrong.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import timetable
from jobs.backoff import Duration
from jobs.clockwork import aware, upcoming
from jobs.engine import schedules as engine
from jobs.engine import sql, timetables
from jobs.engine.timetables import Row
from jobs.errors import InvalidOption
from jobs.models import Schedule
from jobs.names import label_problem
from jobs.operate.words import checked_by, checked_reason
from jobs.payloads import Payload
from jobs.timetable import Missed, Overlap

log = logging.getLogger("jobs.schedules")

PREVIEW_LIMIT = 100


def create(
    name: str,
    payload: Payload,
    *,
    by: str,
    reason: str,
    cron: str | None = None,
    interval: Duration | None = None,
    time_zone: str | None = None,
    missed: Missed = "latest",
    overlap: Overlap = "allow",
    **options: Any,
) -> Schedule:
    """The schedule exists and makes its jobs from now on. Options as for ``jobs.schedule``."""
    by, reason = checked_by(by), checked_reason(reason)
    made = timetable.timetable(
        name,
        payload,
        cron=cron,
        interval=interval,
        time_zone=time_zone,
        missed=missed,
        overlap=overlap,
        options=options,
    )
    if not timetables.insert(made, is_declared=False):
        raise InvalidOption("name", f"there is a schedule {name!r} already")
    log.info("schedule %s made by %s: %s", name, by, reason)
    return find(name)


def remove(name: str, *, by: str, reason: str) -> None:
    """The schedule is gone; its jobs stay. One that the code declares can only be paused."""
    by, reason = checked_by(by), checked_reason(reason)
    with transaction.atomic(using=sql.alias()):
        row = _lock(name)
        if row.is_declared and row.enabled:
            raise InvalidOption("name", f"schedule {name!r} is declared in code; pause it instead")
        sql.run("DELETE FROM jobs_schedule WHERE id = %s", [row.id])
    log.info("schedule %s removed by %s: %s", name, by, reason)


_PAUSE = """
UPDATE jobs_schedule SET paused_at = jobs_clock(), paused_by = %s, paused_reason = %s,
  paused_until = %s WHERE id = %s
"""


def pause(name: str, *, by: str, reason: str, until: datetime | None = None) -> Schedule:
    """The schedule makes no jobs until somebody resumes it, or by itself from ``until`` on."""
    by, reason = checked_by(by), checked_reason(reason)
    if until is not None:
        aware("until", until)
    with transaction.atomic(using=sql.alias()):
        row = _lock(name)
        if until is not None and until <= row.now:
            raise InvalidOption("until", f"{until} has passed already")
        sql.run(_PAUSE, [by, reason, until, row.id])
    log.info("schedule %s paused by %s: %s", name, by, reason)
    return find(name)


_RESUME = """
UPDATE jobs_schedule SET paused_at = NULL, paused_by = '', paused_reason = '',
  paused_until = NULL, next_slot = %s WHERE id = %s
"""


def resume(name: str, *, by: str, reason: str) -> Schedule:
    """The schedule goes on with the next slot from now; those of the pause are not made up."""
    by, reason = checked_by(by), checked_reason(reason)
    with transaction.atomic(using=sql.alias()):
        row = _lock(name)
        if row.paused_at is None:
            raise InvalidOption("name", f"schedule {name!r} is not paused")
        sql.run(_RESUME, [row.resumed_after(row.now), row.id])
    log.info("schedule %s resumed by %s: %s", name, by, reason)
    return find(name)


def run_now(name: str, *, by: str, reason: str) -> UUID:
    """A job of the schedule beside its slots, also while it is paused; answers the job's id.

    With ``overlap="skip"`` it is refused while an earlier job is unfinished.
    """
    by, reason = checked_by(by), checked_reason(reason)
    with transaction.atomic(using=sql.alias()):
        row = _lock(name)
        if row.overlap == "skip" and (busy := engine.unfinished(row.id)):
            raise InvalidOption("overlap", f"job {busy} of schedule {name!r} is unfinished")
        made = engine.make_job(row, None)
        if made is None:
            raise InvalidOption("unique", "an earlier job has the unique key of this schedule")
    log.info("schedule %s run by %s: %s", name, by, reason)
    return made


def preview(name: str, count: int = 5, start: datetime | None = None) -> list[datetime]:
    """The next slots from now, or after ``start``, as if nothing were paused."""
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= PREVIEW_LIMIT:
        raise InvalidOption("count", f"must lie between 1 and {PREVIEW_LIMIT}, got {count!r}")
    row = _known(timetables.read("name = %s", [_text(name)]), name)
    return upcoming(row.rule(), row.now if start is None else aware("start", start), count)


def find(name: str) -> Schedule:
    """The schedule of this name; raises InvalidOption."""
    found = Schedule.objects.using(sql.alias()).filter(name=_text(name)).first()
    if found is None:
        raise InvalidOption("name", f"there is no schedule {name!r}")
    return found


def every() -> list[Schedule]:
    """Every schedule, by name."""
    return list(Schedule.objects.using(sql.alias()).order_by("name"))


def _lock(name: str) -> Row:
    return _known(timetables.lock("name = %s", [_text(name)]), name)


def _known(rows: list[Row], name: str) -> Row:
    if not rows:
        raise InvalidOption("name", f"there is no schedule {name!r}")
    return rows[0]


def _text(name: object) -> str:
    if problem := label_problem(name):
        raise InvalidOption("name", problem)
    return str(name)
