"""Leases: who falls silent loses his jobs, who is proved dead at once, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import jobs
from jobs import registry
from jobs.engine import leases
from jobs.models import Attempt, DeadLetter, Lease
from jobs.outcomes import DEFAULT_CRASH_LIMIT, RELEASE_LIMIT, Fault
from jobs.states import JobState
from tests.jobs.factories import WORKER, a_claim, an_executor, claim_again, row, sql, state, succeed

pytestmark = pytest.mark.django_db
START = datetime(2040, 1, 1, tzinfo=UTC)
Wait = Callable[[float], None]


@pytest.fixture
def wait(set_clock: Callable[[datetime | None], None]) -> Wait:
    """Lets so many seconds pass."""
    moment = START
    set_clock(moment)

    def passes(seconds: float) -> None:
        nonlocal moment
        moment += timedelta(seconds=seconds)
        set_clock(moment)

    return passes


@contextmanager
def a_kind(**rules: Any) -> Iterator[type[jobs.Payload]]:
    """A kind with these rules."""

    class Ruled(jobs.Payload, kind="test.ruled"):
        pass

    @jobs.handler(Ruled, **rules)
    def run(ctx: jobs.Context, payload: Ruled) -> None: ...

    yield Ruled
    registry.unregister("test.ruled")


CRASH = Fault("Crash", "its process was killed by SIGKILL")


def bury(owner: Any, endings: Any = None) -> dict[Any, JobState]:
    return leases.bury(owner, WORKER, endings or {}, "its executor is gone")


# ---- The lease itself


def test_a_renewal_lasts_one_lease_from_now(wait: Wait, lease_seconds: float) -> None:
    owner = an_executor()
    wait(10)
    assert leases.renew([owner]) == {owner}
    until = Lease.objects.get().until
    assert until == START + timedelta(seconds=10 + lease_seconds)


def test_a_late_renewal_is_in_time_while_nobody_has_declared_him_dead(wait: Wait) -> None:
    owner = an_executor()
    claim = a_claim(owner=owner)
    wait(3600)
    assert leases.renew([owner]) == {owner}
    assert leases.mark_lapsed() == []
    assert leases.reap(WORKER) == {}
    assert succeed(claim) == {claim.id}


def test_the_dead_are_not_revived(wait: Wait, lease_seconds: float) -> None:
    owner, other = an_executor(), an_executor()
    wait(lease_seconds - 1)
    leases.renew([other])
    wait(2)
    assert leases.mark_lapsed() == [owner]
    assert leases.mark_lapsed() == []
    assert leases.renew([owner, other]) == {other}
    leases.open_lease(owner, WORKER, ["default"], 1)
    assert Lease.objects.get(owner=owner).dead_at is not None


def test_live_queues_count_the_slots_of_those_who_take_jobs(wait: Wait) -> None:
    leases.open_lease(an := jobs.Job().id, WORKER, ["a", "b"], 8)
    an_executor("b", slots=4)
    assert leases.live_queues() == {"a": 8, "b": 12}
    leases.drain([an])
    assert leases.live_queues() == {"b": 4}
    wait(60)
    assert leases.live_queues() == {}


def test_the_long_dead_are_forgotten_unless_they_hold_a_job(wait: Wait) -> None:
    idle, holder = an_executor(), an_executor()
    a_claim(owner=holder)
    wait(60)
    assert sorted(leases.mark_lapsed()) == sorted([idle, holder])
    assert leases.forget_dead() == 0
    wait(3700)
    assert leases.forget_dead() == 1
    assert Lease.objects.get().owner == holder


# ---- Silence


def test_a_silent_executors_jobs_are_released(wait: Wait, lease_seconds: float) -> None:
    silent, alive = an_executor(), an_executor()
    lost, kept = a_claim(owner=silent), a_claim(owner=alive)
    wait(lease_seconds)
    leases.renew([alive])
    assert leases.mark_lapsed() == []
    wait(0.001)
    assert leases.reap(WORKER) == {}, "only the dead are reaped"
    leases.mark_lapsed()
    assert leases.reap(WORKER) == {lost.id: JobState.PENDING}
    job = row(lost.id)
    assert (job.releases, job.crashes, job.failures) == (1, 0, 0)
    assert job.history[-1][4] == "its executor fell silent"
    assert Attempt.objects.get().outcome == "lost"
    assert succeed(lost) == set()
    assert state(kept.id) == "running"


def test_a_job_without_any_lease_is_reaped() -> None:
    claim = a_claim()
    Lease.objects.all().delete()
    assert leases.reap(WORKER) == {claim.id: JobState.PENDING}


def test_a_kind_may_ask_for_a_longer_lease(wait: Wait, lease_seconds: float) -> None:
    owner = an_executor()
    with a_kind(lease=lease_seconds + 60) as ruled:
        patient, normal = a_claim(ruled(), owner), a_claim(owner=owner)
        wait(lease_seconds + 1)
        leases.mark_lapsed()
        assert leases.reap(WORKER) == {normal.id: JobState.PENDING}
        wait(58)
        assert leases.reap(WORKER) == {}
        wait(2)
        assert leases.reap(WORKER) == {patient.id: JobState.PENDING}


def test_the_reaper_takes_portions(wait: Wait) -> None:
    owner = an_executor()
    held = {a_claim(owner=owner).id for _ in range(5)}
    wait(60)
    leases.mark_lapsed()
    portions = [set(leases.reap(WORKER, limit=2)) for _ in range(4)]
    assert [len(portion) for portion in portions] == [2, 2, 1, 0]
    assert set().union(*portions) == held


def test_a_job_that_is_silently_lost_for_ever_is_given_up(wait: Wait) -> None:
    claim = a_claim()
    sql("UPDATE jobs_job SET releases = %s", [RELEASE_LIMIT - 1])
    wait(60)
    leases.mark_lapsed()
    assert leases.reap(WORKER) == {claim.id: JobState.FAILED}
    assert DeadLetter.objects.get().reason == "released_too_often"


def test_a_hand_made_retry_cannot_stop_the_reaper(wait: Wait) -> None:
    owner = an_executor()
    with a_kind(on_lost="fail") as ruled:
        claim, other = a_claim(ruled(), owner), a_claim(owner=owner)
        wait(60)
        leases.mark_lapsed()
        leases.reap(WORKER)
        sql(
            "UPDATE jobs_job SET state = 'pending', finished_at = NULL WHERE id = %s",
            [claim.id],
        )
        owner = an_executor()
        claim_again(claim.id, owner), claim_again(other.id, owner)
        wait(60)
        leases.mark_lapsed()
        assert leases.reap(WORKER) == {claim.id: JobState.FAILED, other.id: JobState.PENDING}


# ---- Proved death


def test_the_buried_loses_what_he_held_at_once() -> None:
    owner = an_executor()
    began, unbegun = a_claim(owner=owner), a_claim(owner=owner)
    other = a_claim()
    moved = bury(owner, {began.id: ("crashed", CRASH)})
    assert moved == {began.id: JobState.PENDING, unbegun.id: JobState.PENDING}
    crashed, released = row(began.id), row(unbegun.id)
    assert (crashed.crashes, crashed.releases, crashed.failures) == (1, 0, 0)
    assert (released.crashes, released.releases, released.failures) == (0, 1, 0)
    assert crashed.error == "Crash: its process was killed by SIGKILL"
    assert Attempt.objects.get().outcome == "crashed"
    assert leases.renew([owner]) == set()
    assert state(other.id) == "running"


def test_a_burial_twice_changes_nothing_more() -> None:
    owner = an_executor()
    claim = a_claim(owner=owner)
    bury(owner, {claim.id: ("crashed", CRASH)})
    dead_at = Lease.objects.get().dead_at
    assert bury(owner, {claim.id: ("crashed", CRASH)}) == {}
    assert (row(claim.id).crashes, Lease.objects.get().dead_at) == (1, dead_at)


def test_a_result_that_was_written_before_the_death_stands() -> None:
    owner = an_executor()
    claim = a_claim(owner=owner)
    succeed(claim)
    assert bury(owner, {claim.id: ("crashed", CRASH)}) == {}
    assert state(claim.id) == "succeeded"


def test_a_job_that_kills_its_process_again_and_again_is_parked() -> None:
    claim = a_claim()
    for crash in range(1, DEFAULT_CRASH_LIMIT + 1):
        owner = row(claim.id).owner
        bury(owner, {claim.id: ("crashed", CRASH)})
        job = row(claim.id)
        assert (job.crashes, job.failures) == (crash, 0)
        if crash < DEFAULT_CRASH_LIMIT:
            claim_again(claim.id)
    assert (job.state, job.reason) == ("failed", "crash_loop")
    assert DeadLetter.objects.get().reason == "crash_loop"


@pytest.mark.parametrize(
    ("on_lost", "target", "reason"),
    [("rerun", "pending", ""), ("fail", "failed", "lost"), ("in_doubt", "failed", "in_doubt")],
)
@pytest.mark.parametrize("ending", ["crashed", "lost"])
def test_what_follows_a_loss_is_the_kinds_choice(
    on_lost: str, target: str, reason: str, ending: str
) -> None:
    with a_kind(on_lost=on_lost) as ruled:
        claim = a_claim(ruled())
        bury(row(claim.id).owner, {claim.id: (ending, CRASH)})
    job = row(claim.id)
    assert (job.state, job.reason) == (target, reason)
    assert [letter.reason for letter in DeadLetter.objects.all()] == [reason] * bool(reason)


@pytest.mark.parametrize("on_lost", ["fail", "in_doubt"])
def test_what_was_not_begun_is_never_in_doubt(on_lost: str) -> None:
    with a_kind(on_lost=on_lost) as ruled:
        claim = a_claim(ruled())
        bury(row(claim.id).owner)
    assert state(claim.id) == "pending"


def test_a_killed_timeout_counts_as_a_failure() -> None:
    claim = a_claim(max_attempts=1)
    bury(row(claim.id).owner, {claim.id: ("timeout", Fault("Timeout", "too long"))})
    job = row(claim.id)
    assert (job.state, job.reason, job.failures) == ("failed", "timeout", 1)
    assert Attempt.objects.get().outcome == "timeout"
