"""How long jobs are kept, and how many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

import jobs
from jobs import conf, registry
from jobs.engine import kept
from jobs.errors import ConfigError
from tests.jobs.factories import (
    a_job,
    sql,
)
from tests.jobs.retention.sweeping import DAY, KEEPS, START, SetClock, left, sweep

pytestmark = pytest.mark.django_db


@contextmanager
def a_kind(name: str, **rules: Any) -> Iterator[type[jobs.Payload]]:
    """A kind with these rules and an old name."""
    made = type(
        "Ruled",
        (jobs.Payload,),
        {"__module__": __name__},
        kind=name,
        aliases=[f"{name}.old"],
    )

    @jobs.handler(made, **rules)
    def run(ctx: jobs.Context, payload: Any) -> None: ...

    try:
        yield made
    finally:
        registry.unregister(name)


# ---- by age


@pytest.mark.parametrize(("end", "days"), KEEPS.items())
def test_each_final_state_is_kept_its_own_time(end: str, days: int, clock: SetClock) -> None:
    mine = a_job(end)
    clock(START + days * DAY)
    sweep()
    assert left() == {mine}
    clock(START + days * DAY + timedelta(seconds=1))
    assert sweep() == {"jobs": 1}
    assert left() == set()


def test_what_has_not_ended_stays(clock: SetClock) -> None:
    for unfinished in ("blocked", "pending", "queued", "running"):
        a_job(unfinished)
    before = left()
    clock(START + 1000 * DAY)
    sweep()
    assert left() == before and len(before) > 3


def test_a_kind_has_its_own_time(clock: SetClock) -> None:
    with ExitStack() as kinds:
        quick = kinds.enter_context(a_kind("test.quick", keep_completed=timedelta(hours=1)))
        slow = kinds.enter_context(
            a_kind("test.slow", keep_completed=365 * DAY, keep_failed=timedelta(0))
        )
        gone = {a_job("succeeded", quick()), a_job("failed", slow())}
        kept = {a_job("failed", quick()), a_job("succeeded", slow())}
        renamed = a_job("succeeded", quick())
        sql("UPDATE jobs_job SET kind = 'test.quick.old' WHERE id = %s", [renamed])
        default = a_job("succeeded")
        clock(START + 2 * DAY)
        assert sweep() == {"jobs": 3}
        assert left() == kept | {default}
        assert not left() & gone
        clock(START + 8 * DAY)
        sweep()
        assert left() == kept


def test_settings_say_how_long(clock: SetClock) -> None:
    a_job("succeeded")
    a_job("cancelled")
    clock(START + timedelta(seconds=61))
    with override_settings(JOBS={"KEEP_COMPLETED": 60, "KEEP_CANCELLED": timedelta(minutes=2)}):
        assert sweep() == {"jobs": 1}


KEEP_SETTINGS = sorted(
    n for n in conf.Settings.__slots__ if n.startswith("KEEP_") and n != "KEEP_FEED"
)


@pytest.mark.parametrize("name", KEEP_SETTINGS)
def test_a_time_below_zero_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}.* must not be negative"):
        conf.parse({name: timedelta(seconds=-1)})
    with pytest.raises(ConfigError, match=f"{name}.* must be a timedelta"):
        conf.parse({name: "a week"})


# ---- by number


def test_a_kind_keeps_its_last_so_many(clock: SetClock) -> None:
    with a_kind("test.last", keep_completed=3, keep_failed=0) as last:
        made = []
        for second in range(6):
            clock(START + timedelta(seconds=second))
            made.append(a_job("succeeded", last()))
        sql("UPDATE jobs_job SET kind = 'test.last.old' WHERE id = %s", [made[4]])
        a_job("failed", last())
        other = a_job("succeeded")
        clock(START + timedelta(seconds=10))
        assert sweep() == {"jobs": 4}
        assert left() == {*made[3:], other}
        assert sweep() == {}
        clock(START + 100 * DAY)
        sweep()
        assert left() == set(made[3:]), "however old"


def test_of_jobs_that_ended_together_exactly_so_many_are_kept() -> None:
    with a_kind("test.last", keep_completed=2) as last:
        made = sorted(a_job("succeeded", last()) for _ in range(5))
        sweep()
        assert left() == set(made[3:])


def test_a_kind_with_fewer_keeps_them_all(monkeypatch: pytest.MonkeyPatch, clock: SetClock) -> None:
    monkeypatch.setattr(kept, "COUNTED", 2)
    with a_kind("test.rare", keep_completed=2) as rare:
        for _ in range(3):
            a_job("succeeded", rare())
        for _ in range(5):
            a_job("succeeded")
        assert sweep() == {"jobs": 1}
    with a_kind("test.rare", keep_completed=9) as rare:
        clock(START + 6 * DAY)
        assert sweep() == {}
