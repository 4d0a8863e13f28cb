"""Blackout windows: times of the week in which nothing of a scope starts.

Running jobs run on; due ones wait until the window's end, behind nobody: they use no attempt and
hold up no other job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo, available_timezones

from django.db import transaction
from pydantic import Field

from jobs import registry, scopes
from jobs.clockwork import upcoming
from jobs.engine import closures, sql, timetables
from jobs.errors import InvalidOption, UnknownTarget
from jobs.models import Blackout
from jobs.operate import targets
from jobs.operate.acts import Act
from jobs.operate.pauses import ScopeName
from jobs.operate.permissions import MANAGE_BLACKOUT
from jobs.operate.targets import BLACKOUT, Place
from jobs.operate.verbs import acting, verb
from jobs.operate.words import checked_reason
from jobs.principals import By
from jobs.windows import Span, Window, spans

COUNT_LIMIT = 10_000
"""Counts stop here: more is "at least this many"."""
Days = Annotated[
    Sequence[int], Field(max_length=7, description="a day on which it starts, 0 is Monday")
]
Zone = Annotated[str, Field(max_length=64)]
LOOKED_AT = 30_000
"""This many jobs that wait for the same are looked at where no index shows which are concerned."""


class UnknownBlackout(UnknownTarget):
    """There is no blackout window of this id."""

    def __init__(self, number: object) -> None:
        self.number = number
        super().__init__("blackout", number)


@dataclass(frozen=True, slots=True)
class Impact:
    """How many waiting jobs a closed scope keeps from starting; ``more``: at least this many."""

    held: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """A week of the calendar: when the window covers it, and whom it holds back."""

    begin: datetime
    end: datetime
    spans: tuple[Span, ...]
    active_until: datetime | None
    impact: Impact


@verb("blackout.create", on=BLACKOUT, permission=MANAGE_BLACKOUT, group="administrator", new=True)
def create(
    scope: ScopeName,
    start: time,
    end: time,
    *,
    by: By,
    reason: str,
    days: Days = (),
    time_zone: Zone = "UTC",
    enabled: bool = True,
) -> Blackout:
    """Create a blackout window; where it is open now, it holds at once.

    ``days`` are those on which it starts (0 is Monday, none means every day). The start belongs
    to it, the end does not; an end at or before the start lies on the next day, so equal ends
    mean a whole day.
    """
    row = Blackout(
        scope=scope, start=start, end=end, days=days, time_zone=time_zone, enabled=enabled,
        reason=reason,
    )  # fmt: skip
    with acting(create, by=by, reason=reason, place=_place_of(scope)) as act:
        made = _saved(row)
        act.concerns(made.pk)
        act.changed({}, _shown(made))
        return made


def _place_of(scope: object) -> Place:
    """To whom a window of this scope belongs; a senseless one to everybody."""
    try:
        return targets.find("scope", scope)
    except InvalidOption:
        return targets.EVERYBODYS


def _shown(row: Blackout) -> dict[str, Any]:
    names = ("scope", "start", "end", "days", "time_zone", "enabled", "reason")
    return {name: getattr(row, name) for name in names}


@contextmanager
def _act(
    function: Callable[..., Any], number: int, by: By, reason: str
) -> Iterator[tuple[Act, Blackout]]:
    """Open an act on the window, locked; its place is that of the scope that it is about."""
    found = Blackout.objects.using(sql.alias()).filter(pk=number) if _is_id(number) else None
    row = found.first() if found is not None else None
    place = _place_of(row.scope) if row else targets.EVERYBODYS
    with acting(function, number, by=by, reason=reason, place=place) as act:
        yield act, _locked(number)


def _is_id(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 < number < 2**63


@verb("blackout.update", on=BLACKOUT, permission=MANAGE_BLACKOUT, group="administrator")
def update(
    number: int,
    *,
    by: By,
    reason: str | None = None,
    scope: ScopeName | None = None,
    start: time | None = None,
    end: time | None = None,
    days: Days | None = None,
    time_zone: Zone | None = None,
    enabled: bool | None = None,
) -> Blackout:
    """Change a window; what is not given stays.

    With ``reason`` it is closed for another one, which is why it is changed, too.
    """
    given: dict[str, Any] = {"scope": scope, "start": start, "end": end, "days": days}
    given |= {"time_zone": time_zone, "enabled": enabled}
    changes = {name: value for name, value in given.items() if value is not None}
    return _update(number, by, reason, changes, why=reason or "")


def _update(
    number: int, by: By, reason: str | None, changes: dict[str, Any], *, why: str
) -> Blackout:
    with _act(update, number, by, why) as (act, row):
        before = _shown(row)
        if row.open_since is not None and changes.get("scope", row.scope) != row.scope:
            closures.tell_over(row.pk, row.scope, row.reason)
            row.open_since = None
        for name, value in changes.items():
            setattr(row, name, value)
        if reason is not None:
            row.reason = reason
        made = _saved(row)
        if not act.principal.scope.covers(*_place_of(made.scope)):
            raise InvalidOption("scope", f"{made.scope!r} is not yours to close")
        act.changed(before, _shown(made))
        return made


def enable(number: int, enabled: bool = True, *, by: By, reason: str) -> Blackout:
    """Put the window in force, or keep it without effect; its own reason stays."""
    return _update(number, by, None, {"enabled": enabled}, why=checked_reason(reason))


@verb("blackout.delete", on=BLACKOUT, permission=MANAGE_BLACKOUT, group="administrator")
def delete(number: int, *, by: By, reason: str) -> None:
    """Delete a window; what it held may start."""
    with _act(delete, number, by, reason) as (act, row):
        act.changed(_shown(row), {})
        if row.open_since is not None:
            closures.tell_over(row.pk, row.scope, row.reason)
        row.delete()
        closures.refresh(wait=True)


def preview(
    scope: str,
    start: time,
    end: time,
    *,
    days: Sequence[int] = (),
    time_zone: str = "UTC",
    week_of: datetime | None = None,
) -> Preview:
    """What such a window would do in a week, from the Monday of its time zone; writes nothing."""
    row = Blackout(scope=scope, start=start, end=end, days=days, time_zone=time_zone, reason="-")
    _check(row)
    window = closures.window(row.start, row.end, row.time_zone, row.days)
    [(now,)] = sql.rows("SELECT jobs_clock()")
    begin, finish = _week(window, _aware(week_of) if week_of is not None else now)
    covered = tuple(spans(window, begin, finish))
    ahead = spans(window, now, now + timedelta(days=8))
    active = ahead[0][1] if ahead and ahead[0][0] <= now else None
    closed_until = ahead[0][1] if ahead else now
    return Preview(begin, finish, covered, active, impact(row.scope, closed_until))


def week(week_of: datetime | None = None) -> list[tuple[Blackout, Preview]]:
    """Every window with its week."""
    return [
        (
            row,
            preview(
                row.scope, row.start, row.end, days=row.days, time_zone=row.time_zone,
                week_of=week_of,
            ),
        )
        for row in Blackout.objects.using(sql.alias()).order_by("scope", "start", "id")
    ]  # fmt: skip


def impact(scope: str, until: datetime) -> Impact:
    """How many jobs of the scope wait and would be due before then."""
    what, name = scopes.split(scope)
    names = [scopes.split(spelling)[1] for spelling in scopes.spellings(scope)]
    if what == "key":
        [(held,)] = sql.rows(_OF_KEY, [name, until, COUNT_LIMIT + 1])
        return Impact(min(held, COUNT_LIMIT), held > COUNT_LIMIT)
    parts, parameters = _waiting(what, names, until)
    [(held, seen)] = sql.rows(f"{parts} {_ALL}", [*parameters, LOOKED_AT])
    return Impact(min(held, COUNT_LIMIT), held > COUNT_LIMIT or seen)


AHEAD = timedelta(days=7)
SLOT_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a window holds back in the next seven days."""

    spans: tuple[Span, ...]
    waiting: Impact
    """Jobs that wait already and fall due within."""
    slots: dict[str, int]
    """Slots of schedules within, by the schedule's name; at most a thousand are looked at."""


def impact_of(number: int) -> Ahead:
    """What the window of this id holds back in the next seven days; raises UnknownBlackout."""
    found = Blackout.objects.using(sql.alias()).filter(pk=number) if _is_id(number) else None
    row = found.first() if found is not None else None
    if row is None:
        raise UnknownBlackout(number)
    return ahead(row.scope, row.start, row.end, days=row.days, time_zone=row.time_zone)


def ahead(
    scope: str, start: time, end: time, *, days: Sequence[int] = (), time_zone: str = "UTC"
) -> Ahead:
    """What such a window would hold back in the next seven days; writes nothing."""
    row = Blackout(scope=scope, start=start, end=end, days=days, time_zone=time_zone, reason="-")
    _check(row)
    [(now,)] = sql.rows("SELECT jobs_clock()")
    window = closures.window(row.start, row.end, row.time_zone, row.days)
    found = tuple(spans(window, now, now + AHEAD))
    return Ahead(found, _due_within(row.scope, found, now), _slots_within(row.scope, found, now))


def _due_within(scope: str, found: Sequence[Span], now: datetime) -> Impact:
    what, _ = scopes.split(scope)
    names = [scopes.split(spelling)[1] for spelling in scopes.spellings(scope)]
    parts, parameters = _waiting(what, names, now + AHEAD)
    # What is due already counts as due now.
    [(held, seen)] = sql.rows(
        f"{parts} {_WITHIN}",
        [*parameters, now, [s[0] for s in found], [s[1] for s in found], LOOKED_AT],
    )
    return Impact(min(held, COUNT_LIMIT), held > COUNT_LIMIT or seen)


def _waiting(what: str, names: list[str], until: datetime) -> tuple[str, list[Any]]:
    """The jobs that wait and fall due before then, as a table ``waiting``, along their indexes."""
    column, of_lane = _COLUMNS[what]
    parts, given = [], list[Any]()
    for it, where, is_by_queue in _PARTS:
        found, values = it.format(column=column, of_lane=of_lane), list[Any]()
        if what == "queue" and is_by_queue:
            where, values = f"{where} AND queue = ANY (%s)", [names]
        elif "%s" in where:
            values = [until]
        given += [*values, LOOKED_AT + 1]
        parts.append(f"(SELECT {found} FROM jobs_job WHERE {where} LIMIT %s)")  # noqa: S608
    statement = f"WITH parts AS MATERIALIZED ({' UNION ALL '.join(parts)}), {_OF_THE_SCOPE}"
    return statement, [*given, names]


def _slots_within(scope: str, found: Sequence[Span], now: datetime) -> dict[str, int]:
    what, name = scopes.split(scope)
    counts: dict[str, int] = {}
    for row in timetables.read("enabled AND paused_at IS NULL", []):
        options = json.loads(row.options)
        handler = registry.find(row.kind)
        is_of = {
            "queue": options.get("queue") or (handler.queue if handler else ""),
            "kind": handler.kind if handler else row.kind,
            "tenant": options.get("tenant") or "",
            "key": options.get("exclusive") or "",
            "limit_key": options.get("limit_key") or "",
        }
        if is_of[what] != name:
            continue
        slots = [slot for slot in upcoming(row.rule(), now, SLOT_LIMIT) if slot <= now + AHEAD]
        if inside := sum(any(a <= slot < b for a, b in found) for slot in slots):
            counts[row.name] = inside
    return counts


_COLUMNS = {
    "queue": ("queue", "queue"),
    "kind": ("kind", r"split_part(lane, E'\x1f', 2)"),
    "tenant": ("tenant", r"split_part(lane, E'\x1f', 1)"),
    "key": ("exclusive_key", "exclusive_key"),
    "limit_key": ("limit_key", "limit_key"),
}
"""By what is closed: the job's column, and the same as the index of ready jobs has it."""
_PARTS = (
    ("{of_lane} AS it, NULL::timestamptz AS run_at", "state = 'pending' AND wait = 0", True),
    ("{column}, NULL", "state = 'queued' AND state IN ('queued', 'running')", True),
    ("{column}, run_at", "state = 'pending' AND wait = 1 AND run_at < %s", False),
    ("{column}, run_at", "state = 'pending' AND wait = 2 AND exclusive_key IS NOT NULL", False),
    ("{column}, run_at", "state = 'pending' AND wait = 2 AND exclusive_key IS NULL "
     "AND limit_key IS NOT NULL", False),
)  # fmt: skip
"""Everything that waits, in parts of which each has an index, and whether that one begins with
the queue; without a time it is due."""
_OF_THE_SCOPE = "waiting AS (SELECT run_at FROM parts WHERE it = ANY (%s))"
_ALL = "SELECT (SELECT count(*) FROM waiting), (SELECT count(*) FROM parts) > %s"
_WITHIN = """
SELECT (SELECT count(*) FROM waiting w, (SELECT %s::timestamptz AS now) n WHERE EXISTS (
    SELECT 1 FROM unnest(%s::timestamptz[], %s::timestamptz[]) AS s(a, b)
    WHERE greatest(w.run_at, n.now) >= s.a AND greatest(w.run_at, n.now) < s.b)),
  (SELECT count(*) FROM parts) > %s
"""
_OF_KEY = """
SELECT count(*) FROM (SELECT 1 FROM jobs_job WHERE state IN ('pending', 'queued')
  AND exclusive_key = %s AND run_at < %s LIMIT %s) w
"""


def _week(window: Window, moment: datetime) -> Span:
    local = moment.astimezone(window.zone)
    monday = local.date() - timedelta(days=local.weekday())
    return (
        datetime.combine(monday, time(), window.zone).astimezone(UTC),
        datetime.combine(monday + timedelta(days=7), time(), window.zone).astimezone(UTC),
    )


def _aware(moment: object) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidOption("week_of", f"must be a datetime with a time zone, got {moment!r}")
    return moment


def _locked(number: int) -> Blackout:
    rows = Blackout.objects.using(sql.alias()).select_for_update()
    found = rows.filter(pk=number).first() if _is_id(number) else None
    if found is None:
        raise UnknownBlackout(number)
    return found


def _saved(row: Blackout) -> Blackout:
    _check(row)
    with transaction.atomic(using=sql.alias()):
        row.save(using=sql.alias())
        closures.refresh(wait=True)
    return row


def _check(row: Blackout) -> None:
    """The row's values make sense, in their one spelling."""
    row.scope = scopes.checked(row.scope)
    row.reason = checked_reason(row.reason)
    for name in ("start", "end"):
        moment = getattr(row, name)
        if not isinstance(moment, time) or moment.tzinfo is not None:
            raise InvalidOption(name, f"must be a time without a time zone, got {moment!r}")
    if not isinstance(row.enabled, bool):
        raise InvalidOption("enabled", f"must be True or False, got {row.enabled!r}")
    row.days = _checked_days(row.days)
    _check_zone(row.time_zone)


def _checked_days(days: object) -> list[int]:
    if not isinstance(days, list | tuple | set | frozenset):
        raise InvalidOption("days", f"must be a list of days, 0 for Monday, got {days!r}")
    for day in days:
        if not _is_whole(day) or not 0 <= day <= 6:
            raise InvalidOption("days", f"{day!r} is no day: 0 is Monday, 6 is Sunday")
    return sorted(set(days))


def _check_zone(name: object) -> None:
    # Asked of the list first: ZoneInfo would look for a file of that name.
    known = isinstance(name, str) and name in available_timezones()
    try:
        if not known:
            raise ValueError
        ZoneInfo(str(name))
    except (ValueError, OSError):
        raise InvalidOption("time_zone", f"{name!r} is no IANA time zone") from None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
