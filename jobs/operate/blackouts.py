"""Blackout windows: times of the week in which nothing of a scope starts.

Running jobs run on; due ones wait until the window's end, behind nobody: they use no attempt and
hold up no other job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.db import transaction

from jobs import scopes
from jobs.engine import closures, sql
from jobs.errors import InvalidOption, JobsError
from jobs.models import Blackout
from jobs.operate.words import checked_by, checked_reason
from jobs.windows import Span, Window, spans

COUNT_LIMIT = 10_000
"""Counts stop here: more is "at least so many"."""
LOOKED_AT = 100_000
"""So many waiting jobs are looked at where no index tells which are concerned."""


class UnknownBlackout(JobsError):
    """There is no blackout window of this id."""

    def __init__(self, number: object) -> None:
        self.number = number
        super().__init__(f"there is no blackout window {number!r}")


@dataclass(frozen=True, slots=True)
class Impact:
    """How many waiting jobs a closed scope keeps from starting; ``more``: at least so many."""

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


def create(
    scope: str,
    start: time,
    end: time,
    *,
    by: str,
    reason: str,
    days: Sequence[int] = (),
    time_zone: str = "UTC",
    enabled: bool = True,
) -> Blackout:
    """The window exists and, where it is open now, holds at once.

    ``days`` are those on which it starts (0 is Monday, none means every day). The start belongs
    to it, the end does not; an end at or before the start lies on the next day, so equal ends
    mean a whole day.
    """
    checked_by(by)
    row = Blackout(
        scope=scope, start=start, end=end, days=days, time_zone=time_zone, enabled=enabled,
        reason=reason,
    )  # fmt: skip
    return _saved(row)


def update(number: int, *, by: str, reason: str | None = None, **changes: Any) -> Blackout:
    """The window has these new values: scope, start, end, days, time_zone, enabled, reason."""
    checked_by(by)
    if unknown := sorted(set(changes) - _CHANGEABLE):
        raise InvalidOption(unknown[0], f"is none of {', '.join(sorted(_CHANGEABLE))}")
    with transaction.atomic(using=sql.alias()):
        row = _locked(number)
        for name, value in changes.items():
            setattr(row, name, value)
        if reason is not None:
            row.reason = reason
        return _saved(row)


_CHANGEABLE = frozenset({"scope", "start", "end", "days", "time_zone", "enabled"})


def enable(number: int, enabled: bool = True, *, by: str, reason: str) -> Blackout:
    """The window is in force, or is kept without effect; its own reason stays."""
    checked_reason(reason)
    return update(number, by=by, enabled=enabled)


def delete(number: int, *, by: str, reason: str) -> None:
    """The window is gone; what it held may start."""
    checked_by(by)
    checked_reason(reason)
    with transaction.atomic(using=sql.alias()):
        _locked(number).delete()
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
    column = {"queue": "queue", "kind": "kind", "tenant": "tenant", "key": "exclusive_key"}[what]
    if what == "key":
        statement = _INDEXED.format(column=column)
        parameters: list[Any] = [[name], until, COUNT_LIMIT + 1]
    else:
        statement = _SCANNED.format(column=column)
        parameters = [until, LOOKED_AT + 1, names, COUNT_LIMIT + 1]
    [(held, seen)] = sql.rows(statement, parameters)
    return Impact(min(held, COUNT_LIMIT), held > COUNT_LIMIT or seen > LOOKED_AT)


_INDEXED = """
SELECT count(*), 0 FROM (SELECT 1 FROM jobs_job WHERE state IN ('pending', 'queued')
  AND {column} = ANY (%s) AND run_at < %s LIMIT %s) w
"""
_SCANNED = """
WITH waiting AS MATERIALIZED (SELECT {column} AS it FROM jobs_job
  WHERE state IN ('pending', 'queued') AND run_at < %s LIMIT %s)
SELECT (SELECT count(*) FROM (SELECT 1 FROM waiting WHERE it = ANY (%s) LIMIT %s) w),
  (SELECT count(*) FROM waiting)
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
    found = rows.filter(pk=number).first() if _is_whole(number) else None
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
