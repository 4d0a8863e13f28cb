"""What people do with schedules: make, pause, resume, run at once, look ahead, remove.

Every function here checks first and writes then, in one transaction; an InvalidOption names what
is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, cast
from uuid import UUID

from pydantic import Field

from jobs import registry, timetable
from jobs.backoff import Duration
from jobs.clockwork import (
    CRON_LIMIT,
    LEAST_INTERVAL,
    LONGEST_INTERVAL,
    aware,
    interval_seconds,
    upcoming,
)
from jobs.engine import schedules as engine
from jobs.engine import sql, timetables
from jobs.engine.timetables import Row, schedule_place
from jobs.errors import InvalidOption, UnknownTarget
from jobs.models import Schedule
from jobs.names import NAME_LIMIT, label_problem
from jobs.operate import internal
from jobs.operate.bulkplans import whole
from jobs.operate.parameters import Content, Priority, QueueName, Tenant, payload_of
from jobs.operate.permissions import MANAGE_SCHEDULE
from jobs.operate.targets import SCHEDULE, Place
from jobs.operate.verbs import acting, verb
from jobs.payloads import Payload
from jobs.principals import By, Principal, principal
from jobs.timetable import Missed, Overlap

PREVIEW_LIMIT = 100
_UNNAMEABLE = re.compile(r"^[.:-]|[^A-Za-z0-9_.:-]")
SHORTEST, LONGEST = timedelta(seconds=LEAST_INTERVAL), timedelta(seconds=LONGEST_INTERVAL)
Name = Annotated[str, Field(min_length=1, max_length=NAME_LIMIT)]
CronText = Annotated[
    str | None, Field(max_length=CRON_LIMIT, description="a cron rule, like 30 2 * * *")
]
Interval = Annotated[
    Duration | None, Field(ge=SHORTEST, le=LONGEST, description="instead of a cron rule")
]
Zone = Annotated[str | None, Field(max_length=64, description="of the cron rule, like Europe/Rome")]


@verb("schedule.create", on=SCHEDULE, permission=MANAGE_SCHEDULE, group="administrator", new=True)
def create(
    name: Name,
    payload: Payload,
    *,
    by: By,
    reason: str,
    cron: CronText = None,
    interval: Interval = None,
    time_zone: Zone = None,
    missed: Missed = "latest",
    overlap: Overlap = "allow",
    queue: QueueName = None,
    priority: Priority = None,
    tenant: Tenant = None,
    **options: Any,
) -> Schedule:
    """Create a schedule, which starts at its next slot.

    Options as for ``jobs.schedule``. All schedules share their names; those of a caller who sees
    only some tenants begin with the tenant: ``payroll`` becomes ``acme:payroll``.
    """
    name = _own_name(name, tenant, principal(by))
    chosen = {"queue": queue, "priority": priority, "tenant": tenant}
    options |= {option: value for option, value in chosen.items() if value is not None}
    with acting(create, name, by=by, reason=reason, place=place_of(payload, options)) as act:
        _check_outside(str(getattr(payload, "kind", "")), options, by)
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
        row = find(name)
        act.changed({}, shown(row))
        return row


def _check_outside(kind: str, options: Mapping[str, Any], by: By) -> None:
    """Check what only the project's code may schedule: internal kinds, and keys of other kinds."""
    internal.check_kind(kind, by)
    internal.check_key(kind, by, options.get("exclusive"))


def _own_name(name: str, tenant: str | None, who: Principal) -> str:
    """Return the name within those of the tenant, if that is all that the caller sees."""
    if who.scope.tenants is None or not isinstance(name, str) or not isinstance(tenant, str):
        return name
    own = f"{_UNNAMEABLE.sub('_', tenant)}:"
    return name if name.startswith(own) else own + name


def place_of(payload: object, options: Mapping[str, Any]) -> Place:
    """To whom a schedule with such jobs belongs."""
    handler = registry.find(payload.kind) if isinstance(payload, Payload) else None
    queue = options.get("queue") or (handler.queue if handler else "")
    return Place(str(options.get("tenant") or ""), str(queue))


def shown(row: Schedule) -> dict[str, Any]:
    """What the audit shows of a schedule: no payload."""
    names = ("kind", "cron", "interval", "time_zone", "missed", "overlap", "options", "enabled")
    return {name: getattr(row, name) for name in names}


@verb("schedule.remove", on=SCHEDULE, permission=MANAGE_SCHEDULE, group="administrator")
def remove(name: str, *, by: By, reason: str) -> None:
    """Remove a schedule; its jobs stay.

    One that the code declares can only be paused.
    """
    with acting(remove, name, by=by, reason=reason) as act:
        act.changed(shown(find(name)), {})
        row = _lock(name)
        if row.is_declared and row.enabled:
            raise InvalidOption("name", f"schedule {name!r} is declared in code; pause it instead")
        sql.run("DELETE FROM jobs_schedule WHERE id = %s", [row.id])


@verb("schedule.edit", on=SCHEDULE, permission=MANAGE_SCHEDULE, group="administrator")
def edit(
    name: str,
    *,
    by: By,
    reason: str,
    payload: Content = None,
    cron: CronText = None,
    interval: Interval = None,
    time_zone: Zone = None,
    missed: Missed | None = None,
    overlap: Overlap | None = None,
    options: Mapping[str, Any] | None = None,
) -> Schedule:
    """Change a schedule from its next slot on; what is not given stays.

    ``options`` replaces all of them. One that the code declares is changed there.
    """
    with acting(edit, name, by=by, reason=reason) as act:
        row = _lock(name)
        if row.is_declared:
            raise InvalidOption("name", f"schedule {name!r} is declared in code; change it there")
        before = find(name)
        if cron is None and interval is None:
            cron, interval = row.cron or None, row.interval
            zone = time_zone or (row.time_zone if cron else None)
        else:
            zone = time_zone or (row.time_zone if cron and row.cron else None)
        kept = timetable.revived(before.options) if options is None else options
        for kind in {row.kind, getattr(payload, "kind", row.kind)}:
            _check_outside(kind, options or {}, by)
        if payload is None:
            model = registry.get(row.kind).payload
            payload = model.from_text(row.payload, row.payload_version, schedule_place(name))
        elif isinstance(payload, Mapping):
            payload = payload_of(row.kind, payload)
        made = timetable.timetable(
            name,
            payload,
            cron=cron,
            interval=interval,
            time_zone=zone,
            missed=missed or cast("Missed", before.missed),
            overlap=overlap or cast("Overlap", before.overlap),
            options=kept,
        )
        if not act.principal.scope.covers(*place_of(payload, made.options)):
            raise InvalidOption("options", "put its jobs where you may not act")
        timetables.adapt(row, made)
        changed = find(name)
        act.changed(shown(before), shown(changed))
        if payload.kind != row.kind or changed.payload != before.payload:
            act.note(payload="edited")
        return changed


BACKFILL_LIMIT = 1000


@verb("schedule.backfill", on=SCHEDULE, permission=MANAGE_SCHEDULE, group="administrator")
def backfill(name: str, start: datetime, end: datetime, *, by: By, reason: str) -> list[UUID]:
    """Make a job for each past slot in a period that has none.

    Returns their ids. The past only, and at most a thousand slots; jobs may overlap.
    ``backfill_preview`` shows which slots that concerns.
    """
    with acting(backfill, name, by=by, reason=reason) as act:
        row = _lock(name)
        slots = _gaps(row, start, end)
        made = [job for slot in slots if (job := engine.make_job(row, slot)) is not None]
        act.count = len(made)
        act.note(start=start, end=end)
        return made


def backfill_preview(name: str, start: datetime, end: datetime) -> list[datetime]:
    """The slots from ``start`` to ``end`` that have no job."""
    return _gaps(_known(timetables.read("name = %s", [_text(name)]), name), start, end)


def _gaps(row: Row, start: datetime, end: datetime) -> list[datetime]:
    begin, until = aware("start", start), aware("end", end)
    if until > row.now:
        raise InvalidOption("end", "lies ahead: only what has passed can be made up for")
    if begin > until:
        raise InvalidOption("start", "is later than the end")
    slots = upcoming(row.rule(), begin - timedelta(microseconds=1), BACKFILL_LIMIT + 1)
    slots = [slot for slot in slots if slot <= until]
    if len(slots) > BACKFILL_LIMIT:
        raise InvalidOption("end", f"makes more than {BACKFILL_LIMIT} slots; take a shorter time")
    have = sql.rows(
        "SELECT slot_at FROM jobs_job WHERE schedule_id = %s AND slot_at = ANY (%s)",
        [row.id, slots],
    )
    taken = {slot for (slot,) in have}
    return [slot for slot in slots if slot not in taken]


_PAUSE = """
UPDATE jobs_schedule SET paused_at = jobs_clock(), paused_by = %s, paused_reason = %s,
  paused_until = %s WHERE id = %s
"""


@verb("schedule.pause", on=SCHEDULE, permission=MANAGE_SCHEDULE, group="administrator")
def pause(
    name: str,
    *,
    by: By,
    reason: str,
    until: Annotated[
        datetime | None,
        Field(description="resume automatically then, like 2030-01-31T18:00Z"),
    ] = None,
) -> Schedule:
    """Pause a schedule until a given time, or until it is resumed."""
    with acting(pause, name, by=by, reason=reason) as act:
        if until is not None:
            aware("until", until)
        row = _lock(name)
        act.note(until=until)
        if until is not None and until <= row.now:
            raise InvalidOption("until", f"{until} has passed already")
        sql.run(_PAUSE, [act.name, act.reason, until, row.id])
    return find(name)


_RESUME = """
UPDATE jobs_schedule SET paused_at = NULL, paused_by = '', paused_reason = '',
  paused_until = NULL, next_slot = %s WHERE id = %s
"""


@verb("schedule.resume", on=SCHEDULE, permission=MANAGE_SCHEDULE, group="administrator")
def resume(name: str, *, by: By, reason: str) -> Schedule:
    """Resume a schedule with its next slot; slots during the pause are skipped."""
    with acting(resume, name, by=by, reason=reason):
        row = _lock(name)
        if row.paused_at is None:
            raise InvalidOption("name", f"schedule {name!r} is not paused")
        sql.run(_RESUME, [row.resumed_after(row.now), row.id])
    return find(name)


@verb("schedule.run_now", on=SCHEDULE, permission=MANAGE_SCHEDULE, group="administrator")
def run_now(name: str, *, by: By, reason: str) -> UUID:
    """Make one job of a schedule now, even while it is paused.

    Returns the job's id. With ``overlap="skip"`` it is refused while an earlier job is unfinished.
    """
    with acting(run_now, name, by=by, reason=reason) as act:
        row = _lock(name)
        if row.overlap == "skip" and (busy := engine.unfinished(row.id)):
            raise InvalidOption("overlap", f"job {busy} of schedule {name!r} is unfinished")
        made = engine.make_job(row, None)
        if made is None:
            raise InvalidOption("unique", "an earlier job has the unique key of this schedule")
        act.note(job=made)
    return made


def preview(name: str, count: int = 5, start: datetime | None = None) -> list[datetime]:
    """The next slots from now, or after ``start``, that are to have a job.

    A schedule that is paused has those after its end alone, and none where nobody knows its end.
    """
    whole("count", count, 1, PREVIEW_LIMIT)
    row = _known(timetables.read("name = %s", [_text(name)]), name)
    begin = row.now if start is None else aware("start", start)
    if not _goes_on(row):
        return []
    if row.paused_until is not None:
        begin = max(begin, row.paused_until - engine.JUST_BEFORE)
    return upcoming(row.rule(), begin, count)


def coming(row: Schedule) -> datetime | None:
    """The next slot that is to have a job; none of those that a pause leaves out."""
    if not _goes_on(row):
        return None
    if row.paused_until is None:
        return row.next_slot
    rule = timetable.rule(row.cron, row.interval, row.time_zone, row.created_at)
    resumed = rule.after(row.paused_until - engine.JUST_BEFORE)
    return max(resumed, row.next_slot) if resumed and row.next_slot else resumed


def _goes_on(row: Row | Schedule) -> bool:
    return row.enabled and (row.paused_at is None or row.paused_until is not None)


def foresee(
    *,
    cron: str | None = None,
    interval: Duration | None = None,
    time_zone: str | None = None,
    count: int = 5,
    start: datetime | None = None,
) -> list[datetime]:
    """The next slots that a schedule of this rule would have; nothing is made."""
    whole("count", count, 1, PREVIEW_LIMIT)
    if (cron is None) == (interval is None):
        raise InvalidOption("cron", "give either cron or interval, and not both")
    if interval is not None and time_zone is not None:
        raise InvalidOption("time_zone", "means nothing to an interval")
    [(now,)] = sql.rows("SELECT jobs_clock()")
    every = None if interval is None else interval_seconds(interval)
    rule = timetable.rule(cron or "", every, time_zone or "UTC", now)
    return upcoming(rule, now if start is None else aware("start", start), count)


def find(name: str) -> Schedule:
    """The schedule of this name; raises InvalidOption."""
    found = Schedule.objects.using(sql.alias()).filter(name=_text(name)).first()
    if found is None:
        raise UnknownTarget("schedule", name)
    return found


def every() -> list[Schedule]:
    """Every schedule, by name."""
    return list(Schedule.objects.using(sql.alias()).order_by("name"))


def _lock(name: str) -> Row:
    return _known(timetables.lock("name = %s", [_text(name)]), name)


def _known(rows: list[Row], name: str) -> Row:
    if not rows:
        raise UnknownTarget("schedule", name)
    return rows[0]


def _text(name: object) -> str:
    if problem := label_problem(name):
        raise InvalidOption("name", problem)
    return str(name)
