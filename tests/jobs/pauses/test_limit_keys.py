"""Pauses of limit keys: an account's jobs, of whatever kind, wait until it is open again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.test import Client

import jobs
from jobs.engine import claims, closures, slots, withdrawal
from jobs.engine.admission import sync_limits
from jobs.errors import InvalidOption
from jobs.limits import Limit
from jobs.models import Slot
from jobs.operate import blackouts
from jobs.operate.pauses import pause, paused, resume
from jobs.registry import unregister
from tests.jobs.factories import WORKER, a_job, an_executor, row, sql, state
from tests.jobs.pauses.closing import NOON, WHO, SetClock, admit, claim

pytestmark = pytest.mark.django_db
PAUSED = "limit_key:acme"


class Paced(jobs.Payload, kind="test.key_paced"):
    pass


class Narrow(jobs.Payload, kind="test.key_narrow"):
    pass


@pytest.fixture(autouse=True)
def kinds() -> Iterator[None]:
    """A kind whose keys have a rate, and one whose keys have one place."""

    @jobs.handler(Paced, per_key=Limit(rate="1000/s", burst=1000), preemptible=True)
    def paced(ctx: jobs.Context, payload: Paced) -> None: ...

    @jobs.handler(Narrow, per_key=Limit(at_once=1))
    def narrow(ctx: jobs.Context, payload: Narrow) -> None: ...

    yield
    unregister(Paced.kind)
    unregister(Narrow.kind)


def a_pair(key: str = "acme", **options: Any) -> set[UUID]:
    return {a_job(payload=payload, limit_key=key, **options) for payload in (Paced(), Narrow())}


def test_every_kind_of_a_paused_key_waits_and_the_rest_goes() -> None:
    mine, others = a_pair(), a_pair("other") | {a_job()}
    pause(PAUSED, **WHO)
    assert admit() == others
    assert admit() == set()
    assert {(row(job).state, row(job).wait, row(job).attempt) for job in mine} == {
        ("pending", 2, 0)
    }
    resume(PAUSED, **WHO)
    assert admit() == mine


def test_all_that_a_pause_has_put_aside_is_woken() -> None:
    paced = {a_job(payload=Paced(), limit_key="acme") for _ in range(20)}
    pause(PAUSED, **WHO)
    assert admit() == set()
    resume(PAUSED, **WHO)
    assert admit() == paced


def test_what_was_queued_is_refused_by_the_claim_and_taken_back() -> None:
    job = a_job("queued", Paced(), limit_key="acme")
    pause(PAUSED, **WHO)
    assert claim(job) == set()
    assert withdrawal.withdraw(WORKER) == 1
    assert state(job) == "pending"
    assert admit() == set()


def test_what_runs_is_asked_to_stop_where_somebody_says_so() -> None:
    running = a_job("running", Paced(), limit_key="acme")
    other = a_job("running", Paced(), limit_key="other")
    pause(PAUSED, running="stop", **WHO)
    assert [row(job).preempted_by is not None for job in (running, other)] == [True, False]


def test_a_paused_job_keeps_no_exclusive_key_from_others() -> None:
    mine = a_job(payload=Paced(), limit_key="acme", exclusive="door", priority=9)
    other = a_job(payload=Paced(), limit_key="other", exclusive="door")
    pause(PAUSED, **WHO)
    assert admit() | admit() == {other}
    assert [slot.job_id for slot in Slot.objects.all()] == [other]
    resume(PAUSED, **WHO)
    assert state(mine) == "pending"
    claims.claim("default", [other], an_executor(), WORKER)


def test_paused_jobs_of_one_exclusive_key_do_not_wake_each_other() -> None:
    mine = [a_job(payload=Paced(), limit_key="acme", exclusive="door") for _ in range(3)]
    pause(PAUSED, **WHO)
    admit()
    for _ in range(4):
        assert [row(job).wait for job in mine] == [2, 2, 2]
        assert not Slot.objects.exists()
        assert admit() == set()
    resume(PAUSED, **WHO)
    assert len(admit()) == 1


def test_repairs_wake_nobody_whose_key_is_paused() -> None:
    alone = a_job(payload=Paced(), limit_key="acme", exclusive="door")
    mine = a_pair()
    pause(PAUSED, **WHO)
    admit()
    for _ in range(2):
        slots.Watch().wake_forgotten()
        slots.wake_limited()
    assert {row(job).wait for job in {alone, *mine}} == {2}
    resume(PAUSED, **WHO)
    slots.Watch().wake_forgotten()
    assert alone in admit()


def test_a_pause_that_ends_by_itself_wakes_them(set_clock: SetClock) -> None:
    set_clock(NOON)
    mine = a_pair()
    pause(PAUSED, until=NOON + timedelta(hours=1), **WHO)
    assert admit() == set()
    set_clock(NOON + timedelta(hours=1))
    assert closures.refresh().opened == (PAUSED,)
    assert admit() == mine


def test_a_window_closes_a_key_and_says_how_much_it_holds(set_clock: SetClock) -> None:
    set_clock(NOON)
    a_pair()
    blackouts.create(PAUSED, time(11), time(13), **WHO)
    assert admit() == set()
    assert blackouts.impact(PAUSED, NOON + timedelta(hours=1)).held == 2


def test_the_explanation_names_the_pause() -> None:
    job = a_job(payload=Paced(), limit_key="acme")
    pause(PAUSED, by="ann", reason="they refuse our key")
    [reason] = [r for r in jobs.explain(job).reasons if r.code == "paused"]
    assert reason.text.startswith("limit_key:acme is closed")
    assert reason.told.startswith("limit key “acme” is closed")
    assert "they refuse our key" in reason.text


@pytest.mark.parametrize(("scope", "problem"), [("limit_key:", "is empty"), ("limitkey:a", "mean")])
def test_a_wrong_scope_is_refused(scope: str, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        pause(scope, **WHO)


# ---- rates that hold jobs back


def told() -> list[str]:
    return [
        scope
        for (scope,) in sql(
            "SELECT payload->>'scope' FROM jobs_outbox WHERE topic = 'jobs.limit.rate_reached' "
            "ORDER BY id"
        )
    ]


def test_a_rate_that_holds_jobs_back_is_published_once(set_clock: SetClock) -> None:
    class Slow(jobs.Payload, kind="test.slow_rate"):
        pass

    @jobs.handler(Slow, rate="1/s", per_key=Limit(rate="1/m"))
    def slow(ctx: jobs.Context, payload: Slow) -> None: ...

    begin = datetime(2040, 5, 6, tzinfo=UTC)
    try:
        set_clock(begin)
        sync_limits()
        a_job(payload=Slow())
        assert len(admit()) == 1
        assert told() == [], "nobody had to wait"
        for _ in range(90):
            a_job(payload=Slow())
        for second in range(70):
            set_clock(begin + timedelta(seconds=second * 1.01))
            admit()
            admit()
        assert told() == ["kind:test.slow_rate"]
        for second in range(70, 100):
            set_clock(begin + timedelta(seconds=second * 1.01))
            admit()
        set_clock(begin + timedelta(seconds=200))
        for key in ("one", "one", "two"):
            a_job(payload=Slow(), limit_key=key)
        for second in range(3):
            set_clock(begin + timedelta(seconds=210 + second * 1.01))
            admit()
        assert "key:test.slow_rate|one" in told()
        assert "key:test.slow_rate|two" not in told()
    finally:
        unregister(Slow.kind)


# ---- every face


def test_the_command_line_pauses_a_limit_key() -> None:
    call_command("jobs", "pauses", "pause", PAUSED, "--reason=they refuse our key")
    assert [p.scope for p in paused()] == [PAUSED]
    call_command("jobs", "pauses", "resume", PAUSED, "--reason=mended")
    assert paused() == []


def test_the_admin_pauses_a_limit_key(admin_client: Client) -> None:
    told = {"scope": PAUSED, "reason": "they refuse our key"}
    admin_client.post("/admin/jobs/queue/do/pause/", told)
    assert [p.scope for p in paused()] == [PAUSED]
