"""Rules of the clock: which moments a schedule names. Pure; moments carry a time zone.

``Cron`` reads the wall clock of a time zone, ``Every`` counts from an anchor. Both answer the next
slot after a moment, the newest one up to a moment, and a few in a row; all of them bounded.
"""

from __future__ import annotations

import difflib
import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from jobs.backoff import Duration, seconds
from jobs.errors import InvalidOption

CRON_LIMIT = 200
"""Longest cron text, in characters."""
LEAST_INTERVAL = 5.0
"""Seconds: nothing comes more often than that."""
LONGEST_INTERVAL = timedelta(days=3660).total_seconds()

_CRON = re.compile(r"[A-Za-z0-9*,/#\- \t]+\Z")
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+\-/]{0,63}\Z")
_PROBE = datetime(2024, 1, 1)
_DAY = timedelta(days=1)
_NEAR = timedelta(days=2)
"""No change of a zone's clock reaches farther."""
_SECOND = timedelta(seconds=1)
_INSTANT = timedelta(microseconds=1)


class Rule(Protocol):
    """A rule of the clock."""

    def after(self, moment: datetime) -> datetime | None:
        """The first slot later than the moment, in UTC; none when there never is one."""
        ...

    def newest(self, first: datetime, until: datetime) -> datetime:
        """The newest slot that is not later than ``until``; ``first`` is a slot before it."""
        ...


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields of cron, read on the wall clock of a time zone.

    Where minute and hour are both named (``30 2 * * *``), a slot is an appointment: it comes once
    on each of its days. Skipped by the clock, it comes at the moment of the change; shown twice, it
    comes at the first time. Where minute or hour begins with ``*``, the rule is a rhythm: what
    the clock skips does not come, and what it shows twice comes twice.
    """

    text: str
    time_zone: str = "UTC"
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)
    _is_rhythm: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", " ".join(_checked(self.text).split()))
        object.__setattr__(self, "_zone", zone(self.time_zone))
        minute, hour = self.text.split()[:2]
        object.__setattr__(self, "_is_rhythm", "*" in (minute[0], hour[0]))

    def after(self, moment: datetime) -> datetime | None:
        moment = aware("moment", moment).astimezone(UTC)
        try:
            return self._next_beat(moment) if self._is_rhythm else self._next_appointment(moment)
        except (StopIteration, OverflowError):
            return None

    def newest(self, first: datetime, until: datetime) -> datetime:
        low, high = first, until
        while high - low > _SECOND:
            middle = low + (high - low) / 2
            found = self.after(middle)
            if found is not None and found <= until:
                low = found
            else:
                high = middle
        return low

    def _next_appointment(self, moment: datetime) -> datetime:
        for wall in CronSim(self.text, moment.astimezone(self._zone).replace(tzinfo=None)):
            slot = self._appointment(wall)
            if slot > moment:  # not so while the clock shows an hour for the second time
                return slot
        raise StopIteration

    def _appointment(self, wall: datetime) -> datetime:
        """When the wall clock shows this for the first time, or skips it."""
        slot = wall.replace(tzinfo=self._zone).astimezone(UTC)
        if self._wall(slot) == wall:
            return slot
        other = wall.replace(tzinfo=self._zone, fold=1).astimezone(UTC)
        return self._change(min(slot, other), max(slot, other))

    def _next_beat(self, moment: datetime) -> datetime:
        offset = self._offset(moment)
        while True:
            wall = next(CronSim(self.text, (moment + offset).replace(tzinfo=None)))
            slot = wall.replace(tzinfo=UTC) - offset
            horizon = min(slot, moment + _NEAR)
            change = self._first_change(moment, horizon, offset)
            if change is not None:
                moment, offset = change - _INSTANT, self._offset(change)
            elif slot == horizon:
                return slot
            else:  # no slot on the way; by then the clock may differ
                moment = slot - _NEAR
                offset = self._offset(moment)

    def _first_change(self, start: datetime, end: datetime, offset: timedelta) -> datetime | None:
        """The first moment in ``(start, end]`` at which the zone's offset is another."""
        while start < end:
            step = min(start + _DAY, end)
            if self._offset(step) != offset:
                return self._change(start, step)
            start = step
        return None

    def _change(self, before: datetime, after: datetime) -> datetime:
        """The moment in ``(before, after]`` from which the offset of ``after`` holds."""
        offset = self._offset(after)
        low, high = 0, -((before - after) // _SECOND)
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(after - middle * _SECOND) == offset:
                low = middle
            else:
                high = middle
        return after - low * _SECOND

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self._zone).utcoffset() or timedelta()

    def _wall(self, moment: datetime) -> datetime:
        return moment.astimezone(self._zone).replace(tzinfo=None, fold=0)


@dataclass(frozen=True, slots=True)
class Every:
    """One slot after each interval, counted from the anchor; no time zone changes that."""

    interval: float
    anchor: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "interval", interval_seconds(self.interval))
        object.__setattr__(self, "anchor", aware("anchor", self.anchor).astimezone(UTC))

    def after(self, moment: datetime) -> datetime | None:
        step = timedelta(seconds=self.interval)
        count = max(0, (aware("moment", moment) - self.anchor) // step)
        try:
            return self.anchor + (count + 1) * step
        except OverflowError:
            return None

    def newest(self, first: datetime, until: datetime) -> datetime:
        step = timedelta(seconds=self.interval)
        return max(first, self.anchor + ((until - self.anchor) // step) * step)


def upcoming(rule: Rule, moment: datetime, count: int) -> list[datetime]:
    """The next slots after the moment, at most ``count``."""
    found: list[datetime] = []
    for slot in _slots(rule, moment):
        found.append(slot)
        if len(found) >= count:
            break
    return found


def _slots(rule: Rule, moment: datetime) -> Iterator[datetime]:
    slot = rule.after(moment)
    while slot is not None:
        yield slot
        slot = rule.after(slot)


def zone(name: object, option: str = "time_zone") -> ZoneInfo:
    """The IANA time zone of this name."""
    if not isinstance(name, str):
        raise InvalidOption(option, f"must be the name of a time zone, got {type(name).__name__}")
    try:
        if _ZONE.match(name) and name != "localtime":
            return ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        pass
    near = difflib.get_close_matches(name[:64], zoneinfo.available_timezones(), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidOption(option, f"there is no time zone {name[:64]!r}{hint}")


def aware(option: str, moment: object) -> datetime:
    """The moment, which has a time zone."""
    if not isinstance(moment, datetime):
        raise InvalidOption(option, f"must be a datetime, got {type(moment).__name__}")
    if moment.utcoffset() is None:
        raise InvalidOption(option, "is a naive datetime; give it a time zone")
    return moment


def interval_seconds(value: Duration) -> float:
    """The interval in seconds, to the microsecond."""
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise InvalidOption("interval", f"must be seconds or a timedelta, got {value!r}")
    try:
        length = seconds(value)
    except OverflowError:
        length = float("inf")
    if not length >= LEAST_INTERVAL:
        raise InvalidOption("interval", f"must be at least {LEAST_INTERVAL:g} s, got {length:g}")
    if length > LONGEST_INTERVAL:
        raise InvalidOption("interval", "is longer than ten years")
    return round(length, 6)


def _checked(text: object) -> str:
    """The cron text, which names at least one moment."""
    if not isinstance(text, str):
        raise InvalidOption("cron", f"must be text, got {type(text).__name__}")
    if len(text) > CRON_LIMIT:
        raise InvalidOption("cron", f"is longer than {CRON_LIMIT} characters")
    fields = text.split()
    if len(fields) == 6:
        raise InvalidOption("cron", f"{text!r} has six fields; there are no seconds")
    if len(fields) != 5 or not _CRON.match(text):
        raise InvalidOption(
            "cron", f"{text!r} is not made of minute, hour, day, month and day of the week"
        )
    try:
        next(CronSim(text, _PROBE))
    except (CronSimError, AssertionError, ValueError) as error:
        raise InvalidOption("cron", f"{text!r}: {_in_words(error)}") from None
    except StopIteration:
        raise InvalidOption("cron", f"{text!r} names a date that never comes") from None
    return text


def _in_words(error: Exception) -> str:
    name = str(error).removeprefix("Bad ")
    return f"its {name} is wrong or never comes" if name else "it cannot be read"
