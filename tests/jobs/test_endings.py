"""Who asked for it is told of jobs that end without success, whoever ended them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import jobs
from jobs import endings
from jobs.engine.endings import OVERLAP, ROUND, Teller
from jobs.ids import uuid7
from jobs.models import Effect
from jobs.testing import run_jobs
from tests.jobs.factories import a_job
from tests.specimens.handlers import Fail, Noop

pytestmark = pytest.mark.django_db
START = datetime(2040, 1, 1, tzinfo=UTC)
SetClock = Callable[[datetime | None], None]


@pytest.fixture
def told() -> Iterator[list[jobs.types.Ended]]:
    found: list[jobs.types.Ended] = []

    @jobs.ended(Noop)
    def listen(ended: jobs.types.Ended) -> None:
        found.append(ended)

    yield found
    endings.forget(Noop)


def test_every_end_without_success_is_told_once(told: list[jobs.types.Ended]) -> None:
    wanted = {a_job(end, Noop()): end for end in ("failed", "cancelled", "expired")}
    for other in ("succeeded", "pending", "queued", "running"):
        a_job(other, Noop())
    a_job("failed", Fail())
    teller = Teller()
    assert teller.run() == 3
    assert {one.id: one.state for one in told} == wanted
    assert not any(one.in_doubt for one in told)
    assert teller.run() == 0
    assert Teller().run() == 3, "whoever begins anew cannot know"


def test_a_job_that_ends_twice_is_told_twice(told: list[jobs.types.Ended]) -> None:
    job, teller = a_job("cancelled", Noop()), Teller()
    teller.run()
    jobs.retry(job, by="test")
    assert teller.run() == 0
    jobs.cancel(job, by="test")
    assert teller.run() == 1
    assert [one.id for one in told] == [job, job]


def test_a_doubt_is_told_of(told: list[jobs.types.Ended]) -> None:
    job = a_job("failed", Noop())
    Effect.objects.create(job_id=job, key="k", state="in_doubt", token=uuid7(), attempt=1)
    Teller().run()
    [one] = told
    assert (one.id, one.in_doubt, one.kind, one.tenant) == (job, True, Noop.kind, "")


def test_one_that_fails_is_told_again_and_writes_nothing(
    told: list[jobs.types.Ended], caplog: pytest.LogCaptureFixture
) -> None:
    endings.forget(Noop)
    left = [ValueError("broken")]

    @jobs.ended(Noop)
    def listen(ended: jobs.types.Ended) -> None:
        jobs.enqueue(Fail())
        if left:
            raise left.pop()

    job, teller = a_job("cancelled", Noop()), Teller()
    assert teller.run() == 0
    assert f"the end of job {job}" in caplog.text
    assert not jobs.Job.objects.filter(kind=Fail.kind).exists()
    assert teller.run() == 1
    assert jobs.Job.objects.filter(kind=Fail.kind).count() == 1


def test_what_is_committed_late_is_told_at_once(
    told: list[jobs.types.Ended], set_clock: SetClock
) -> None:
    teller = Teller()
    set_clock(START)
    a_job("cancelled", Noop())
    assert teller.run() == 1
    late = a_job("cancelled", Noop())
    set_clock(START + OVERLAP - timedelta(seconds=1))
    a_job("cancelled", Noop())
    assert teller.run() == 2
    assert late in {one.id for one in told}


def test_what_came_too_late_is_told_an_hour_later(
    told: list[jobs.types.Ended], set_clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: moment)
    teller = Teller()
    set_clock(START + timedelta(hours=1))
    assert teller.run() == 0
    set_clock(START)
    a_job("cancelled", Noop())
    set_clock(START + timedelta(hours=2))
    assert teller.run() == 0
    moment += ROUND
    assert teller.run() == 1


def test_many_are_told_in_portions(
    told: list[jobs.types.Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.engine.endings.PAGE", 2)
    monkeypatch.setattr("jobs.engine.endings.BUDGET", 0)
    wanted = {a_job("cancelled", Noop()) for _ in range(5)}
    teller = Teller()
    assert [teller.run() for _ in range(4)] == [2, 2, 1, 0]
    assert {one.id for one in told} == wanted


def test_run_jobs_tells_too(told: list[jobs.types.Ended]) -> None:
    made = jobs.enqueue(Noop(), expires=timedelta(seconds=1), delay=60)
    jobs.cancel(made.id, by="test")
    run_jobs()
    assert [one.id for one in told] == [made.id]


@pytest.mark.parametrize("wrong", [None, "noop", jobs.Payload, int])
def test_only_kinds_have_ends(wrong: Any) -> None:
    with pytest.raises(jobs.errors.HandlerError, match="ended: must be given"):
        jobs.ended(wrong)


def test_a_kind_tells_one(told: list[jobs.types.Ended]) -> None:
    with pytest.raises(jobs.errors.HandlerError, match=re.escape("handles the ends")):
        jobs.ended(Noop)(lambda ended: None)
