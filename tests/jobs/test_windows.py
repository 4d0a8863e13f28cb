"""Windows of the calendar: every answer agrees with looking at the clock on the wall."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.windows import NEVER, Window, covers, is_inside, next_change, spans

MINUTE = timedelta(minutes=1)
ROME = ZoneInfo("Europe/Rome")
SPRING, AUTUMN = date(2026, 3, 29), date(2026, 10, 25)
"""The nights on which Rome changes its clocks."""
ZONES = [
    "Europe/Rome",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour of summer time
    "Asia/Kathmandu",  # 5:45 ahead
    "Pacific/Apia",
    "America/Sao_Paulo",
    "UTC",
]


def shows(window: Window, moment: datetime) -> bool:
    """The oracle: is the time on the wall inside, counted from a day on which it may start?"""
    wall = moment.astimezone(window.zone)
    minute = wall.hour * 60 + wall.minute
    start = window.start.hour * 60 + window.start.minute
    end = window.end.hour * 60 + window.end.minute
    today = not window.days or wall.weekday() in window.days
    yesterday = not window.days or (wall.weekday() - 1) % 7 in window.days
    if start < end:
        return today and start <= minute < end
    return (today and minute >= start) or (yesterday and minute < end)


minutes = st.builds(time, st.integers(0, 23), st.integers(0, 59))
windows = st.builds(
    Window,
    start=minutes,
    end=minutes,
    zone=st.sampled_from([ZoneInfo(name) for name in ZONES]),
    days=st.frozensets(st.integers(0, 6)),
)
moments = st.one_of(
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 12, 31)),
    # Around changes of the clocks in Rome, New York and on Lord Howe Island.
    st.sampled_from([(2026, 3, 28), (2026, 10, 24), (2026, 11, 1), (2026, 3, 8), (2026, 4, 4)]).map(
        lambda day: datetime(*day)
    ),
).map(lambda naive: naive.replace(second=0, microsecond=0, tzinfo=UTC))


@settings(max_examples=120, deadline=None)
@given(windows, moments)
@example(Window(time(2), time(3), ROME), datetime(2026, 3, 29, tzinfo=UTC))
@example(Window(time(2), time(3), ROME), datetime(2026, 10, 25, tzinfo=UTC))
@example(Window(time(1), time(2, 30), ROME), datetime(2026, 10, 24, 23, tzinfo=UTC))
@example(Window(time(22), time(6), ROME, frozenset({4})), datetime(2026, 10, 23, 19, tzinfo=UTC))
def test_every_minute_agrees_with_the_wall_clock(window: Window, begin: datetime) -> None:
    length = 3 * 24 * 60
    looked = [shows(window, begin + n * MINUTE) for n in range(length)]
    told = [False] * length
    for start, end in spans(window, begin, begin + length * MINUTE):
        first, last = (start - begin) / MINUTE, (end - begin) / MINUTE
        assert first.is_integer() and last.is_integer() and first < last
        told[int(first) : int(last)] = [True] * int(last - first)
    assert told == looked


@settings(max_examples=60, deadline=None)
@given(windows, moments)
def test_the_end_is_the_first_minute_outside(window: Window, moment: datetime) -> None:
    end = is_inside(window, moment)
    assert (end is not None) == shows(window, moment) == covers(window, moment)
    limit = moment + timedelta(days=9)
    if end is None:
        return
    at = moment
    while shows(window, at) and at < limit:
        at += MINUTE
    assert end == at or (end is NEVER and at == limit)


@settings(max_examples=60, deadline=None)
@given(windows, moments)
def test_the_next_change_is_the_first_minute_that_differs(window: Window, begin: datetime) -> None:
    now = shows(window, begin)
    at = begin + MINUTE
    limit = begin + timedelta(days=16)
    while shows(window, at) == now and at < limit:
        at += MINUTE
    change = next_change(window, begin)
    if at < limit:
        assert change == at
    else:
        assert change is None and window.never_ends


def rome(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=ROME)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(("day", "lasts"), [(SPRING, 0), (AUTUMN, 120), (date(2026, 6, 1), 60)])
def test_the_hour_of_the_clocks_in_rome(day: date, lasts: int) -> None:
    window = Window(time(2), time(3), ROME)
    noon = datetime.combine(day, time(12), ROME)
    found = spans(window, noon - timedelta(hours=18), noon)
    assert sum((end - start for start, end in found), timedelta()) == lasts * MINUTE


def test_the_day_is_the_one_on_which_the_window_starts() -> None:
    friday_night = Window(time(22), time(6), ROME, frozenset({4}))
    assert is_inside(friday_night, rome(2026, 11, 20, 1)) is None  # Friday, from Thursday's night
    assert is_inside(friday_night, rome(2026, 11, 20, 22)) == rome(2026, 11, 21, 6)
    assert is_inside(friday_night, rome(2026, 11, 21, 2)) == rome(2026, 11, 21, 6)
    assert is_inside(friday_night, rome(2026, 11, 21, 6)) is None


def test_the_start_is_inside_and_the_end_is_not() -> None:
    lunch = Window(time(12), time(13), ROME)
    tick = timedelta(microseconds=1)
    assert is_inside(lunch, rome(2026, 11, 18, 12) - tick) is None
    assert is_inside(lunch, rome(2026, 11, 18, 12)) == rome(2026, 11, 18, 13)
    assert is_inside(lunch, rome(2026, 11, 18, 13) - tick) == rome(2026, 11, 18, 13)
    assert is_inside(lunch, rome(2026, 11, 18, 13)) is None


def test_equal_ends_are_a_whole_day() -> None:
    sundays = Window(time(0), time(0), ROME, frozenset({6}))
    assert is_inside(sundays, rome(2026, 10, 25, 0)) == rome(2026, 10, 26, 0)
    # It has 25 hours in autumn.
    assert spans(sundays, rome(2026, 10, 24), rome(2026, 10, 28)) == [
        (datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2026, 10, 25, 23, tzinfo=UTC))
    ]


def test_days_that_touch_are_one_span() -> None:
    weekend = Window(time(8), time(8), ROME, frozenset({5, 6}))
    assert is_inside(weekend, rome(2026, 11, 21, 9)) == rome(2026, 11, 23, 8)


def test_a_window_that_never_ends_says_so() -> None:
    for days in (frozenset[int](), frozenset(range(7))):
        always = Window(time(5), time(5), ROME, days)
        assert is_inside(always, rome(2026, 11, 18, 3)) is NEVER
        assert next_change(always, rome(2026, 11, 18, 3)) is None


def test_seconds_count() -> None:
    short = Window(time(12, 0, 30), time(12, 0, 45), ROME)
    assert is_inside(short, rome(2026, 11, 18, 12, 0, 29)) is None
    assert is_inside(short, rome(2026, 11, 18, 12, 0, 44)) == rome(2026, 11, 18, 12, 0, 45)
