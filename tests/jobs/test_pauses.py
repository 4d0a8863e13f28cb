"""Pauses and blackouts: what is closed does not start, and starts as soon as it is open again."""

from __future__ import annotations

import getpass
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

import jobs
from jobs.engine import claims, closures, dispatch, reconcile, rq, slots, withdrawal
from jobs.engine.reconcile import Reconciler
from jobs.errors import InvalidOption
from jobs.ids import uuid7
from jobs.models import Blackout, Closure, Limiter, Pause, Slot
from jobs.operate import blackouts
from jobs.operate.blackouts import UnknownBlackout
from jobs.operate.pauses import pause, paused, resume
from tests.jobs.factories import WORKER, a_job, an_executor, move, row, sql, state
from tests.specimens.handlers import Echo, Noop
from tests.wait import wait_until

pytestmark = pytest.mark.django_db
SetClock = Callable[[datetime | None], None]
NOON = datetime(2040, 1, 2, 12, tzinfo=UTC)  # a Monday
WHO: dict[str, Any] = {"by": "ann", "reason": "maintenance"}


def admit(queue: str = "default", budget: int = 100) -> set[UUID]:
    dispatch.know_queues({queue})
    return {job_id for job_id, _ in dispatch.admit(queue, budget)}


def claim(*ids: UUID, queue: str = "default") -> set[UUID]:
    return {c.id for c in claims.claim(queue, ids, an_executor(queue), WORKER)}


def closed() -> dict[str, datetime | None]:
    return dict(Closure.objects.values_list("scope", "until"))


# ---- what a pause stops

SCOPES = ["queue:default", "kind:test.noop", "tenant:acme", "key:door"]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_paused_scope_is_not_dispatched_and_the_rest_is(scope: str) -> None:
    mine = a_job(tenant="acme", exclusive="door")
    others = {a_job(payload=Echo(text="x"), tenant="other"), a_job(payload=Echo(text="y"))}
    pause(scope, **WHO)
    assert admit() == (set() if scope == "queue:default" else others)
    assert state(mine) == "pending"
    resume(scope, **WHO)
    assert mine in admit()
    assert row(mine).attempt == 0


@pytest.mark.parametrize("scope", SCOPES)
def test_a_queued_job_of_a_paused_scope_is_refused_and_taken_back(scope: str) -> None:
    mine = a_job("queued", tenant="acme", exclusive="door")
    other = a_job("queued", Echo(text="x"), queue="elsewhere")
    Slot.objects.create(key="door", job_id=mine)
    pause(scope, **WHO)
    assert claim(mine) == set()
    assert withdrawal.withdraw(WORKER) == 1
    job = row(mine)
    assert (job.state, job.queued_at, job.attempt) == ("pending", None, 0)
    assert job.history[-1][1:] == ["queued", "pending", WORKER, "closed before it started"]
    assert not Slot.objects.exists()
    assert claim(other, queue="elsewhere") == {other}
    resume(scope, **WHO)
    assert admit() == {mine}
    assert claim(mine) == {mine}


def test_a_running_job_runs_on() -> None:
    mine = a_job("running")
    pause("queue:default", **WHO)
    withdrawal.withdraw(WORKER)
    assert state(mine) == "running"


def test_the_pause_of_jobs_without_a_tenant() -> None:
    mine, other = a_job(), a_job(tenant="acme")
    pause("tenant:", **WHO)
    assert admit() == {other}
    assert state(mine) == "pending"


def test_a_closed_backlog_does_not_starve_the_rest() -> None:
    for number in range(260):
        a_job(tenant=f"closed-{number:03}")
        Closure.objects.create(scope=f"tenant:closed-{number:03}", why="test")
    mine = a_job(tenant="open")
    found: set[UUID] = set()
    for _ in range(3):
        found |= admit(budget=1)
    assert found == {mine}


# ---- its end


def test_a_pause_ends_by_itself(set_clock: SetClock) -> None:
    set_clock(NOON)
    mine = a_job()
    pause("queue:default", until=NOON + timedelta(hours=1), **WHO)
    set_clock(NOON + timedelta(minutes=59))
    closures.refresh()
    assert admit() == set()
    set_clock(NOON + timedelta(hours=1))
    assert paused() == []
    assert admit() == {mine}, "also before anybody has tidied up"
    assert closures.refresh().opened == ("queue:default",)
    assert not Pause.objects.exists()
    assert not Closure.objects.exists()


def test_the_end_of_a_keys_pause_wakes_its_best_waiter(set_clock: SetClock) -> None:
    set_clock(NOON)
    pause("key:door", until=NOON + timedelta(hours=1), **WHO)
    late, early = a_job(exclusive="door"), a_job(exclusive="door", priority=50)
    assert admit() == set()
    assert [row(late).wait, row(early).wait] == [2, 2]
    set_clock(NOON + timedelta(hours=2))
    closures.refresh()
    assert [row(late).wait, row(early).wait] == [2, 0]
    assert admit() == {early}


def test_pausing_twice_replaces_reason_and_end(set_clock: SetClock) -> None:
    set_clock(NOON)
    pause("queue:default", by="ann", reason="one", until=NOON + timedelta(hours=1))
    again = pause("queue:default", by="bob", reason="two")
    assert (again.reason, again.by, again.until) == ("two", "bob", None)
    assert closed() == {"queue:default": None}
    assert [p.scope for p in paused()] == ["queue:default"]
    assert resume("queue:default", **WHO)
    assert not resume("queue:default", **WHO)
    assert closed() == {}


def test_a_pause_that_is_rolled_back_closes_nothing() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        pause("queue:default", **WHO)
        raise ZeroDivisionError
    assert closed() == {}
    assert not Pause.objects.exists()


@pytest.mark.parametrize(
    ("scope", "problem"),
    [
        ("default", "starts with none of"),
        ("queu:default", "did you mean 'queue:default'"),
        ("queue:", "may only have letters"),
        ("queue:a b", "may only have letters"),
        ("kind:test.nop", "did you mean 'test.noop'"),
        ("key:", "is empty"),
        ("tenant:a\x1fb", "control character"),
        (None, "must be text"),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused(scope: Any, problem: str) -> None:
    for act in (pause, resume):
        with pytest.raises(InvalidOption, match=f"^scope: .*{problem}"):
            act(scope, **WHO)
    assert not Pause.objects.exists()


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("until", datetime(2040, 1, 1), "time zone"),
        ("until", datetime(2020, 1, 1, tzinfo=UTC), "has passed"),
        ("until", 3600, "must be a datetime"),
        ("by", "", "is empty"),
        ("by", None, "must be text"),
        ("reason", " ", "is empty"),
        ("reason", "x" * 501, "longer than"),
    ],
)
def test_a_pause_says_who_why_and_until_when(option: str, value: Any, problem: str) -> None:
    with pytest.raises(InvalidOption, match=f"^{option}: .*{problem}"):
        pause("queue:default", **{**WHO, option: value})
    assert not Pause.objects.exists()


# ---- blackouts


def a_blackout(scope: str = "queue:default", **options: Any) -> Blackout:
    return blackouts.create(scope, time(12), time(13), **{**WHO, **options})


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
    with pytest.raises(InvalidOption, match=f"^{option}: .*{problem}"):
        blackouts.update(number, **{"by": "ann", option: value})
    assert Blackout.objects.get().scope == "queue:default"


def test_a_time_with_a_zone_and_an_unknown_window_are_refused() -> None:
    with pytest.raises(InvalidOption, match=r"^start: must be a time"):
        blackouts.create("queue:default", time(1, tzinfo=UTC), time(2), **WHO)
    with pytest.raises(UnknownBlackout, match="no blackout 404"):
        blackouts.delete(404, **WHO)
    number = blackouts.create("queue:default", time(1), time(2), **WHO).pk
    with pytest.raises(InvalidOption, match=r"^color: is none of"):
        blackouts.update(number, by="ann", color="red")


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


# ---- with a dispatcher


def test_the_reconciler_closes_withdraws_and_opens(set_clock: SetClock) -> None:
    set_clock(NOON - timedelta(seconds=1))
    a_blackout()
    mine = a_job("queued")
    Reconciler(WORKER).round([])
    assert state(mine) == "queued"
    set_clock(NOON)
    Reconciler(WORKER).round([])
    assert state(mine) == "pending"
    set_clock(NOON + timedelta(hours=1))
    Reconciler(WORKER).round([])
    assert closed() == {}


def test_what_is_withdrawn_is_not_pushed_again(queue: str) -> None:
    a_job("queued", queue=queue)
    sql("UPDATE jobs_job SET queued_at = queued_at - interval '1 min'")
    pause(f"queue:{queue}", **WHO)
    Reconciler(WORKER).round([queue])
    assert rq.listed(queue) == set()


def test_an_admission_at_a_rate_goes_stale_and_is_not_made_younger(
    queue: str, set_clock: SetClock
) -> None:
    set_clock(NOON)
    paced, plain = a_job("queued", queue=queue), a_job("queued", queue=queue)
    sql("UPDATE jobs_job SET flow = 4 WHERE id = %s", [paced])
    Limiter.objects.create(scope="kind:test.noop", per_second=1, burst=1, tokens=0)
    set_clock(NOON + timedelta(seconds=1.9))
    assert withdrawal.withdraw(WORKER) == 0
    missing = reconcile.find_missing(queue, 0)
    assert {job_id for job_id, _ in missing} == {paced, plain}
    reconcile._touch(missing)
    set_clock(NOON + timedelta(seconds=2))
    assert {job_id for job_id, _ in reconcile.find_missing(queue, 0)} == {plain}
    assert withdrawal.withdraw(WORKER) == 1
    assert (state(paced), state(plain)) == ("pending", "queued")
    assert row(paced).history[-1][4] == "its admission went stale"
    assert Limiter.objects.get().tokens == 0


def test_a_queue_is_open_for_jobs_born_queued_only_where_nothing_concerns_it() -> None:
    assert closures.lets_be_born_queued("default")
    for scope, free in [("queue:x", True), ("queue:default", False), ("tenant:acme", False)]:
        pause(scope, **WHO)
        assert closures.lets_be_born_queued("default") is free
        resume(scope, **WHO)
    limiter = Limiter.objects.create(scope="queue:default", at_once=3)
    assert not closures.lets_be_born_queued("default")
    assert closures.lets_be_born_queued("elsewhere")
    limiter.delete()
    Limiter.objects.create(scope="kind:test.noop", is_declared=False, closed_until=NOON)
    assert not closures.lets_be_born_queued("default")
    Limiter.objects.update(closed_until=datetime(2020, 1, 1, tzinfo=UTC))
    assert closures.lets_be_born_queued("default")


@pytest.mark.django_db(transaction=True)
def test_a_pause_ends_the_birth_of_queued_jobs_at_once(queue: str) -> None:
    dispatch.know_queues({queue})
    for scope in (f"queue:{queue}", "tenant:acme"):
        rq.set_open(queue, 60)
        pause(scope, **WHO)
        assert not rq.is_open(queue)
        resume(scope, **WHO)


def test_an_old_name_of_a_kind_is_closed_with_it() -> None:
    class Renamed(jobs.Payload, kind="test.renamed", aliases=["test.old_name"]):
        pass

    @jobs.handler(Renamed)
    def run(ctx: jobs.Context, payload: Renamed) -> None: ...

    try:
        assert pause("kind:test.old_name", **WHO).scope == "kind:test.renamed"
        assert set(closed()) == {"kind:test.renamed", "kind:test.old_name"}
    finally:
        jobs.registry.unregister("test.renamed")


def test_without_redis_a_pause_holds_all_the_same(no_redis: None) -> None:
    mine = a_job()
    pause("queue:default", **WHO)
    assert admit() == set()
    resume("queue:default", **WHO)
    assert admit() == {mine}


# ---- nothing free stays unused


def test_a_leaked_slot_is_freed_and_its_best_waiter_woken() -> None:
    waiter = a_job(exclusive="a")
    sql("UPDATE jobs_job SET wait = 2 WHERE id = %s", [waiter])
    holder, heir, later = (a_job(exclusive=key) for key in "bcd")
    move(holder, "queued")
    sql("UPDATE jobs_job SET wait = 1 WHERE id = %s", [later])
    held_by = {"a": uuid7(), "b": holder, "c": heir, "d": later, "e": a_job("succeeded")}
    for key, job_id in held_by.items():
        Slot.objects.create(key=key, job_id=job_id)
    assert slots.free_leaked() == ["a", "d", "e"]
    assert set(Slot.objects.values_list("key", flat=True)) == {"b", "c"}
    assert row(waiter).wait == 0
    assert slots.free_leaked() == []


def test_the_waiter_of_a_free_key_is_woken_once() -> None:
    best, second = a_job(exclusive="free", priority=1), a_job(exclusive="free")
    held, shut = a_job(exclusive="held"), a_job(exclusive="shut")
    sql("UPDATE jobs_job SET wait = 2")
    Slot.objects.create(key="held", job_id=uuid4())
    Closure.objects.create(scope="key:shut", why="test")
    watch = slots.Watch()
    assert [watch.wake_forgotten(limit=1) for _ in range(3)] == [1, 0, 0]
    assert [row(job_id).wait for job_id in (best, second, held, shut)] == [0, 2, 2, 2]
    assert [watch.wake_forgotten(limit=1) for _ in range(4)] == [0, 0, 0, 0]


def test_the_waiters_for_a_place_are_woken_as_far_as_there_is_room() -> None:
    ids = [a_job() for _ in range(5)]
    sql("UPDATE jobs_job SET limit_key = 'k', wait = 2")
    move(ids[0], "queued")
    Limiter.objects.create(scope="key:test.noop|k", kind="test.noop", key="k", at_once=3)
    assert slots.wake_limited() == 2
    assert [row(job_id).wait for job_id in ids[1:]] == [0, 0, 2, 2]
    assert slots.wake_limited() == 0


def test_a_waiter_in_a_paused_scope_does_not_hold_up_the_others() -> None:
    holder = a_job(exclusive="door", priority=100)
    assert admit() == {holder}
    best = a_job(exclusive="door", priority=50, tenant="acme")
    other = a_job(exclusive="door")
    assert admit() == set()
    pause("tenant:acme", **WHO)
    jobs.cancel(holder, **WHO)
    assert [row(best).wait, row(other).wait] == [2, 0]
    assert admit() == {other}
    jobs.cancel(other, **WHO)
    assert row(best).wait == 0, "it goes as soon as it may"
    assert admit() == set()
    resume("tenant:acme", **WHO)
    assert admit() == {best}


def test_a_ready_waiter_that_is_paused_later_does_not_hold_up_the_others() -> None:
    best, other = a_job(exclusive="door", tenant="acme"), a_job(exclusive="door")
    sql("UPDATE jobs_job SET wait = 2 WHERE id = %s", [other])
    watch = slots.Watch()
    assert watch.wake_forgotten() == 0
    pause("tenant:acme", **WHO)
    assert watch.wake_forgotten() == 1
    assert watch.wake_forgotten() == 0
    assert admit() == {other}
    assert state(best) == "pending"


@pytest.mark.parametrize("scope", SCOPES)
def test_a_paused_job_pushes_nobody_aside(scope: str) -> None:
    holder = a_job(payload=Echo(text="x"), exclusive="door", queue="elsewhere")
    assert admit("elsewhere") == {holder}
    assert claim(holder, queue="elsewhere") == {holder}
    sql("UPDATE jobs_job SET preemptible = true")
    rival = a_job(exclusive="door", tenant="acme", priority=50)
    sql("UPDATE jobs_job SET preempts = true, wait = 2 WHERE id = %s", [rival])
    pause(scope, **WHO)
    assert reconcile.preempt() == 0
    resume(scope, **WHO)
    assert admit() == set()
    assert reconcile.preempt() == 1
    # And one that was paused after it has asked does not get the key.
    pause(scope, **WHO)
    move(holder, "pending")
    sql("SELECT jobs_follow(%s)", [[holder]])
    assert not Slot.objects.filter(job_id=rival).exists()
    resume(scope, **WHO)
    assert admit() == {rival}


def test_an_expired_holder_passes_its_key_on() -> None:
    holder, waiter = a_job(exclusive="door", expires=60), a_job(exclusive="door")
    assert admit() == {holder}
    assert row(waiter).wait == 2
    sql("UPDATE jobs_job SET expires_at = jobs_clock() WHERE id = %s", [holder])
    assert reconcile.expire(WORKER) == 1
    assert admit() == {waiter}


# ---- races


def in_thread(act: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def waits_for_a_lock() -> bool:
    sql("SELECT pg_stat_clear_snapshot()")  # a transaction sees the same activity otherwise
    return bool(
        sql(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND datname = current_database()"
        )
    )


@pytest.mark.django_db(transaction=True)
def test_opening_a_key_waits_for_a_dispatcher_that_puts_a_job_aside() -> None:
    pause("key:door", **WHO)
    mine = a_job(exclusive="door")
    with transaction.atomic():
        assert admit() == set()
        opener = in_thread(lambda: resume("key:door", **WHO))
        wait_until(waits_for_a_lock)
        assert row(mine).wait == 2
    opener.join(10)
    assert admit() == {mine}


@pytest.mark.django_db(transaction=True)
def test_a_dispatcher_that_saw_a_key_closed_does_not_put_aside_what_was_opened_since() -> None:
    pause("key:door", **WHO)
    pause("key:gate", **WHO)
    mine, other = a_job(exclusive="door"), a_job(exclusive="gate")
    dispatch.know_queues({"default"})
    with transaction.atomic():
        resume("key:door", **WHO)
        dispatcher = in_thread(admit)
        wait_until(waits_for_a_lock)
    dispatcher.join(10)
    assert (state(mine), state(other)) == ("queued", "pending")


@pytest.mark.django_db(transaction=True)
def test_a_tick_passes_by_while_somebody_pauses() -> None:
    done = threading.Event()

    def tick() -> None:
        closures.refresh()
        done.set()

    with transaction.atomic():
        pause("queue:default", **WHO)
        ticker = in_thread(tick)
        assert done.wait(10)
    ticker.join(10)
    assert list(closed()) == ["queue:default"]


@pytest.mark.django_db(transaction=True)
def test_pauses_from_many_threads_all_hold() -> None:
    a_job(payload=Noop())
    names = [f"tenant:{n}" for n in range(8)]
    threads = [in_thread(partial(pause, name, **WHO)) for name in names]
    for thread in threads:
        thread.join(20)
    assert sorted(closed()) == names
    threads = [in_thread(partial(resume, name, **WHO)) for name in names]
    for thread in threads:
        thread.join(20)
    assert closed() == {}


# ---- on the command line


def test_the_command_pauses_lists_and_resumes(
    set_clock: SetClock, capsys: pytest.CaptureFixture[str]
) -> None:
    set_clock(NOON)
    call_command("jobs", "pauses", "list")
    assert capsys.readouterr().out == "All is open.\n"
    a_blackout("kind:test.noop")
    capsys.readouterr()
    until = "--until=2040-01-02T14:00+00:00"
    call_command("jobs", "pauses", "pause", "queue:default", "--reason=moving", until)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["CLOSED", "UNTIL", "WHY"]
    assert lines[1].startswith("kind:test.noop  2040-01-02T13:00:00+00:00  blackout window")
    assert lines[2].startswith("queue:default   2040-01-02T14:00:00+00:00  paused by ")
    assert lines[2].endswith(f"paused by {getpass.getuser()}: moving")
    call_command("jobs", "pauses", "resume", "queue:default", "--reason=moved", "--json")
    [left] = json.loads(capsys.readouterr().out)
    assert left == {
        "scope": "kind:test.noop",
        "what": "blackout",
        "until": "2040-01-02T13:00:00+00:00",
        "reason": "maintenance",
        "by": None,
    }
    with pytest.raises(CommandError, match=r"scope: .*did you mean 'queue:default'"):
        call_command("jobs", "pauses", "pause", "queu:default", "--reason=x")
