"""Blackouts: windows in which a scope is closed."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from jobs.engine import closures
from jobs.errors import InvalidOption
from jobs.models import Blackout, Closure
from jobs.operate import blackouts
from jobs.operate.blackouts import UnknownBlackout
from jobs.operate.pauses import pause, resume
from tests.jobs.factories import a_job
from tests.jobs.pauses.closing import NOON, WHO, SetClock, a_blackout, admit, closed

pytestmark = pytest.mark.django_db


def test_a_window_holds_from_its_start_to_its_end(set_clock: SetClock) -> None:
    set_clock(NOON - timedelta(seconds=1))
    a_blackout()
    mine = a_job()
    assert closures.refresh().closed == ()
    set_clock(NOON)
    assert closures.refresh().closed == ("queue:default",)
    assert closed() == {"queue:default": NOON + timedelta(hours=1)}
    assert admit() == set()
    set_clock(NOON + timedelta(hours=1))
    assert admit() == {mine}
    assert closures.refresh().opened == ("queue:default",)


def test_a_new_window_that_is_open_holds_at_once(set_clock: SetClock) -> None:
    set_clock(NOON)
    number = a_blackout().pk
    assert list(closed()) == ["queue:default"]
    blackouts.enable(number, False, **WHO)
    assert closed() == {}
    blackouts.enable(number, **WHO)
    blackouts.update(number, by="ann", scope="kind:test.noop")
    assert list(closed()) == ["kind:test.noop"]
    blackouts.update(number, by="ann", start=time(14), end=time(15), days=[0, 0])
    assert closed() == {}
    assert Blackout.objects.get().days == [0]
    blackouts.update(number, by="ann", start=time(11))
    blackouts.delete(number, **WHO)
    assert closed() == {}


def test_a_scope_is_closed_until_its_last_reason_ends(set_clock: SetClock) -> None:
    set_clock(NOON)
    a_blackout()
    pause("queue:default", until=NOON + timedelta(hours=3), **WHO)
    assert closed() == {"queue:default": NOON + timedelta(hours=3)}
    pause("queue:default", until=NOON + timedelta(minutes=30), **WHO)
    assert closed() == {"queue:default": NOON + timedelta(hours=1)}
    assert "blackout" in Closure.objects.get().why and "ann" in Closure.objects.get().why
    resume("queue:default", **WHO)
    assert closed() == {"queue:default": NOON + timedelta(hours=1)}


def test_a_window_of_all_days_closes_without_end(set_clock: SetClock) -> None:
    set_clock(NOON)
    blackouts.create("queue:default", time(5), time(5), **WHO)
    assert closed() == {"queue:default": None}
    assert closures.refresh() == closures.Changes()


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("days", [7], "is no day"),
        ("days", [True], "is no day"),
        ("days", "mon", "list of days"),
        ("time_zone", "Europe/Roma", "no IANA time zone"),
        ("time_zone", "../etc/passwd", "no IANA time zone"),
        ("time_zone", None, "no IANA time zone"),
        ("scope", "all", "starts with none of"),
        ("reason", "", "is empty"),
        ("by", "", "is empty"),
        ("enabled", 1, "True or False"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused(option: str, value: Any, problem: str) -> None:
    with pytest.raises(InvalidOption, match=f"^{option}: .*{problem}"):
        a_blackout(**{option: value})
    assert not Blackout.objects.exists()
    number = a_blackout().pk
    if value is not None:  # which leaves it as it is
        with pytest.raises(InvalidOption, match=f"^{option}: .*{problem}"):
            blackouts.update(number, **{"by": "ann", option: value})
    assert Blackout.objects.get().scope == "queue:default"


def test_a_time_with_a_zone_and_an_unknown_window_are_refused() -> None:
    with pytest.raises(InvalidOption, match=r"^start: must be a time"):
        blackouts.create("queue:default", time(1, tzinfo=UTC), time(2), **WHO)
    with pytest.raises(UnknownBlackout, match="no blackout 404"):
        blackouts.delete(404, **WHO)


def test_a_preview_shows_the_week_and_whom_it_holds(set_clock: SetClock) -> None:
    set_clock(NOON + timedelta(minutes=5))
    a_job()
    a_job("queued")
    a_job(delay=600)
    a_job(delay=7200)
    a_job(queue="elsewhere")
    seen = blackouts.preview("queue:default", time(12), time(13), days=[0, 2])
    assert seen.begin == datetime(2040, 1, 2, tzinfo=UTC)
    assert seen.end - seen.begin == timedelta(days=7)
    hour = timedelta(hours=1)
    wednesday = NOON + timedelta(days=2)
    assert seen.spans == ((NOON, NOON + hour), (wednesday, wednesday + hour))
    assert seen.active_until == NOON + hour
    assert seen.impact == blackouts.Impact(held=3)
    assert not Blackout.objects.exists()
    later = blackouts.preview(
        "key:door", time(12), time(13), time_zone="Europe/Rome", week_of=NOON + timedelta(days=9)
    )
    assert later.spans[0] == (datetime(2040, 1, 9, 11, tzinfo=UTC), NOON + timedelta(days=7))
    assert (later.active_until, later.impact.held) == (None, 0)
    a_blackout()
    [(row_, shown)] = blackouts.week()
    assert (row_.scope, len(shown.spans)) == ("queue:default", 7)


def test_a_count_stops_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blackouts, "COUNT_LIMIT", 2)
    for _ in range(3):
        a_job(exclusive="door")
    soon = datetime.now(UTC) + timedelta(days=1)
    for scope in ("key:door", "queue:default", "kind:test.noop", "tenant:"):
        assert blackouts.impact(scope, soon) == blackouts.Impact(2, more=True)
