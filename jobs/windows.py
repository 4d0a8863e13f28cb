"""Windows of the calendar: on these days, from this time to that, by the clock of one time zone.

A window covers the moments at which the wall clock of its zone shows a time inside it. So on the
night in spring that skips the hour from 02:00 to 03:00 a window of that hour lasts 0 minutes, and
in autumn, when the hour comes twice, 120. No database here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

NEVER = datetime.max.replace(tzinfo=UTC)
"""The end of a window that does not end."""
_DAY = timedelta(days=1)
_STEP = timedelta(hours=12)
"""No zone changes its offset twice within this time."""
_LOOK_AHEAD = timedelta(days=30)
"""Within this time every window begins and ends, or it never does."""
EVERY_DAY = frozenset(range(7))

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Window:
    """``days`` are those on which it starts, 0 is Monday, none means all of them.

    The start belongs to it, the end does not. An end at or before the start lies on the next
    day, so equal ends mean a whole day.
    """

    start: time
    end: time
    zone: ZoneInfo
    days: frozenset[int] = EVERY_DAY

    @property
    def never_ends(self) -> bool:
        return self.start == self.end and (self.days or EVERY_DAY) >= EVERY_DAY

    def starts_on(self, day: date) -> bool:
        return not self.days or day.weekday() in self.days

    def span_on(self, day: date) -> tuple[datetime, datetime]:
        """Start and end of the window of that day, as its wall clock shows them."""
        last = day if self.end > self.start else day + _DAY
        return datetime.combine(day, self.start), datetime.combine(last, self.end)


def covers(window: Window, moment: datetime) -> bool:
    """Whether the moment is inside."""
    shown = moment.astimezone(window.zone).replace(tzinfo=None)
    for day in (shown.date() - _DAY, shown.date()):
        start, end = window.span_on(day)
        if window.starts_on(day) and start <= shown < end:
            return True
    return False


def is_inside(window: Window, moment: datetime) -> datetime | None:
    """The end of the window that the moment is in, or None outside; ``NEVER`` where none ends."""
    if not covers(window, moment):
        return None
    if window.never_ends:
        return NEVER
    return spans(window, moment, moment + _LOOK_AHEAD)[0][1]


def next_change(window: Window, moment: datetime) -> datetime | None:
    """The next moment at which it begins or ends; None for a window that does neither."""
    if window.never_ends:
        return None
    end = is_inside(window, moment)
    if end is not None:
        return end
    found = spans(window, moment, moment + _LOOK_AHEAD)
    return found[0][0] if found else None


def spans(window: Window, begin: datetime, end: datetime) -> list[Span]:
    """The parts of the time from ``begin`` to ``end`` that it covers, in their order, in UTC."""
    begin, end = begin.astimezone(UTC), end.astimezone(UTC)
    return merged(
        span for piece in _pieces(window.zone, begin, end) for span in _covered(window, *piece)
    )


def merged(found: Iterable[Span]) -> list[Span]:
    """The same time in as few spans as possible."""
    united: list[Span] = []
    for start, end in sorted(found):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united


def _covered(window: Window, begin: datetime, end: datetime, offset: timedelta) -> Iterator[Span]:
    """What it covers of a time during which the zone keeps its offset."""
    day = (begin + offset).date() - _DAY
    last = (end + offset).date()
    while day <= last:
        if window.starts_on(day):
            first, until = (shown.replace(tzinfo=UTC) - offset for shown in window.span_on(day))
            first, until = max(first, begin), min(until, end)
            if first < until:
                yield first, until
        day += _DAY


def _pieces(
    zone: ZoneInfo, begin: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime, timedelta]]:
    """The time cut where the zone changes its offset, with the offset of each piece."""
    start, offset = begin, _offset(zone, begin)
    low = begin
    while low < end:
        high = min(low + _STEP, end)
        if _offset(zone, high) != offset:
            high = _change(zone, low, high)
            yield start, high, offset
            start, offset = high, _offset(zone, high)
        low = high
    if start < end:
        yield start, end, offset


def _change(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The first moment of the offset that holds at ``high``; another one holds at ``low``."""
    before = _offset(zone, low)
    # Changes happen at whole seconds.
    first, last = int(low.timestamp()), int(high.timestamp()) + 1
    while last - first > 1:
        middle = (first + last) // 2
        if _offset(zone, datetime.fromtimestamp(middle, UTC)) == before:
            first = middle
        else:
            last = middle
    return max(low, datetime.fromtimestamp(last, UTC))


def _offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None  # noqa: S101 - a ZoneInfo always answers
    return offset
