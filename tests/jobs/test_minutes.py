"""Statistics by the minute: what counts, what is lost, and what charts are told."""

from __future__ import annotations

import queue as queues
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from psycopg import errors

import jobs
from jobs import histograms
from jobs.engine import arrivals, minutes, retention, runner, settler, sql
from jobs.engine.claims import Success, settle_successes
from jobs.engine.minutes import TOTAL, Note
from jobs.errors import InvalidOption
from jobs.models import Minute, Quarter
from jobs.operate import stats
from tests.jobs.factories import WORKER, a_claim, claim_again, ended, settle, succeed
from tests.specimens.handlers import Fail
from tests.wait import wait_until

SetClock = Callable[[datetime | None], None]
NOON = datetime(2040, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def fresh_recorder(monkeypatch: pytest.MonkeyPatch) -> minutes.Recorder:
    """Nothing gathered by another test is written by this one."""
    made = minutes.Recorder()
    monkeypatch.setattr(minutes, "recorder", made)
    return made


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a commit does not wait for that of the test."""
    monkeypatch.setattr(transaction, "on_commit", lambda call, **_: call())


def rows() -> dict[tuple[str, datetime], Minute]:
    return {(row.outcome, row.minute): row for row in Minute.objects.all()}


def note(outcome: minutes.Outcome = "succeeded", seconds: float = 0.1, **more: Any) -> Note:
    return Note(more.pop("kind", "a.kind"), more.pop("queue", "q"), outcome, seconds, **more)


# ---- what counts


@pytest.mark.django_db
@pytest.mark.usefixtures("at_once")
def test_attempts_count_by_how_they_ended(set_clock: SetClock) -> None:
    set_clock(NOON)
    succeed(a_claim(), a_claim())
    failing = a_claim(Fail(), max_attempts=2)
    settle(ended(failing))
    settle(ended(claim_again(failing.id)))
    settle(ended(a_claim(), "lost"), ended(a_claim(), "released"), ended(a_claim(), "preempted"))
    settle(ended(a_claim(), "cancelled"))
    found = rows()
    by_kind = {(r.kind, r.outcome): r for (_, at), r in found.items() if at == NOON}
    for minute in (NOON, TOTAL):
        count: dict[str, int] = {}
        for row in Minute.objects.filter(minute=minute):
            count[row.outcome] = count.get(row.outcome, 0) + row.count
        assert count == {"succeeded": 2, "failed": 1, "retried": 2, "released": 2, "cancelled": 1}
    failed = by_kind[Fail.kind, "failed"]
    assert (failed.count, failed.letters, failed.stalls) == (1, 1, 0)
    assert sum(row.stalls for row in found.values() if row.minute == NOON) == 1


@pytest.mark.django_db
@pytest.mark.usefixtures("at_once")
def test_a_stale_ending_does_not_count() -> None:
    claim = a_claim()
    settle(ended(claim, "released"))
    assert succeed(claim) == set()
    settle(ended(claim))
    assert {outcome for outcome, _ in rows()} == {"released"}


@pytest.mark.django_db
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (jobs.RateLimited(5), "limited"),
        (jobs.effects.CircuitOpen("mail", 5), "held"),
        (jobs.Snooze(5), "snoozed"),
        (ValueError("no"), "retried"),
    ],
)
def test_waiting_counts_by_its_reason(error: Exception, outcome: str) -> None:
    claim = a_claim()
    settle(runner._raised(claim, jobs.registry.find(claim.kind), error))  # type: ignore[arg-type]
    assert {how for how, _ in rows()} == {outcome}


@pytest.mark.django_db
@pytest.mark.usefixtures("at_once")
def test_durations_are_in_their_buckets(set_clock: SetClock) -> None:
    set_clock(NOON)
    first, second = a_claim(), a_claim()
    settle_successes([Success(first, "null", (), 0.2), Success(second, "null", (), 4000.0)], WORKER)
    row = rows()["succeeded", NOON]
    assert (row.count, row.seconds, row.longest) == (2, 4000.2, 4000.0)
    assert row.buckets == [int(n in (5, histograms.SIZE - 1)) for n in range(histograms.SIZE)]
    settle_successes([Success(a_claim(), "null", (), 0.2)], WORKER)
    assert rows()["succeeded", NOON].buckets[5] == 2


@pytest.mark.django_db
def test_what_is_rolled_back_does_not_count(fresh_recorder: minutes.Recorder) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        succeed(a_claim())
        raise RuntimeError
    fresh_recorder.flush()
    assert rows() == {}


# ---- how it is written


@pytest.mark.django_db(transaction=True)
def test_an_executor_gathers_and_others_write_at_once(fresh_recorder: minutes.Recorder) -> None:
    fresh_recorder.note([note()])
    assert Minute.objects.get(minute=TOTAL).count == 1
    fresh_recorder.defer()
    fresh_recorder.note([note(), note()])
    assert Minute.objects.get(minute=TOTAL).count == 1
    wait = fresh_recorder.wait()
    assert wait is not None and 0 < wait <= minutes.INTERVAL
    fresh_recorder.flush()
    assert Minute.objects.get(minute=TOTAL).count == 3
    assert fresh_recorder.wait() is None


@pytest.mark.django_db(transaction=True)
def test_what_the_server_did_not_take_is_kept(
    fresh_recorder: minutes.Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_recorder.defer()
    fresh_recorder.note([note(seconds=0.2)])
    original = sql.bound_rows

    def locked(*_: object) -> None:
        raise OperationalError("lock timeout") from errors.LockNotAvailable()

    monkeypatch.setattr(sql, "bound_rows", locked)
    fresh_recorder.flush()
    monkeypatch.setattr(sql, "bound_rows", original)
    fresh_recorder.note([note(seconds=0.2)])
    fresh_recorder.flush()
    told = Minute.objects.get(minute=TOTAL)
    assert (told.count, told.seconds, sum(told.buckets)) == (2, 0.4, 2)


@pytest.mark.django_db(transaction=True)
def test_the_settler_writes_within_a_second_and_at_its_end() -> None:
    live = settler.Settler(WORKER, lambda: False)

    def run() -> None:
        live._live()
        connection.close()

    live._thread = threading.Thread(target=run)
    live.start()
    live.put(Success(a_claim(), "null"))
    wait_until(lambda: Minute.objects.filter(minute=TOTAL, count=1).exists(), timeout=10)
    live.put(Success(a_claim(), "null"))
    live.finish()
    assert Minute.objects.get(minute=TOTAL).count == 2


@pytest.mark.django_db(transaction=True)
def test_many_writers_lose_nothing() -> None:
    problems: queues.SimpleQueue[BaseException] = queues.SimpleQueue()

    def write(turn: int) -> None:
        try:
            mine = minutes.Recorder()
            kinds = [f"kind.{n}" for n in range(8)]
            for _ in range(10):
                mine.defer()
                mine.note([note(kind=kind) for kind in (kinds if turn % 2 else kinds[::-1])])
                mine.flush()
        except BaseException as error:
            problems.put(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems.empty()
    assert {row.count for row in Minute.objects.filter(minute=TOTAL)} == {60}


@pytest.mark.django_db(transaction=True)
def test_a_lost_database_costs_statistics_and_nothing_else(
    fresh_recorder: minutes.Recorder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any) -> Any:
        raise OperationalError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(sql, "bound_rows", fail)
        fresh_recorder.note([note(), note()])
    assert "the statistics of 2 attempts are lost: gone" in caplog.text
    fresh_recorder.note([note()])
    assert Minute.objects.get(minute=TOTAL).count == 1


# ---- what charts are told


@pytest.fixture
def an_hour(
    db: None, set_clock: SetClock, at_once: None, fresh_recorder: minutes.Recorder
) -> Iterator[None]:
    for minute, notes in {
        0: [note(seconds=0.2), note(seconds=0.3), note("failed", 0.2, buried=True)],
        1: [note("limited"), note(kind="other", queue="slow")],
        61: [note("retried", 2.0, stalled=True)],
    }.items():
        set_clock(NOON + timedelta(minutes=minute, seconds=30))
        fresh_recorder.note(notes)
    yield


@pytest.mark.usefixtures("an_hour")
def test_a_series_has_a_point_for_every_step() -> None:
    [points] = stats.series(NOON, NOON + timedelta(minutes=5)).values()
    assert [p.at for p in points] == [NOON + timedelta(minutes=n) for n in range(5)]
    assert [dict(p.counts) for p in points] == [
        {"succeeded": 2, "failed": 1},
        {"limited": 1, "succeeded": 1},
        {},
        {},
        {},
    ]
    first, second, third = points[:3]
    assert (first.ended, first.letters, first.throughput) == (3, 1, 2 / 60)
    assert first.failure_rate == pytest.approx(1 / 3)
    assert first.mean == pytest.approx(0.7 / 3)
    assert second.failure_rate == 0.0
    assert (third.failure_rate, third.mean, third.p50) == (None, None, None)


@pytest.mark.usefixtures("an_hour")
def test_series_by_kind_and_queue_and_of_one() -> None:
    until = NOON + timedelta(hours=2)
    by_kind = stats.series(NOON, until, by="kind", step=timedelta(hours=1))
    assert {name: [p.ended for p in points] for name, points in by_kind.items()} == {
        "a.kind": [3, 1],
        "other": [1, 0],
    }
    assert by_kind["a.kind"][1].stalls == 1
    assert list(stats.series(NOON, until, by="queue", kind="other")) == ["slow"]
    [slow] = stats.series(NOON, until, queue="slow", step=timedelta(hours=2)).values()
    assert [p.ended for p in slow] == [1]


@pytest.mark.usefixtures("an_hour")
def test_until_is_now_and_nothing_is_counted_since_ever() -> None:
    [points] = stats.series(NOON - timedelta(hours=1), step=timedelta(minutes=10)).values()
    assert sum(p.ended for p in points) == 5


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"since": datetime(2040, 1, 1)}, "since"),
        ({"since": NOON + timedelta(hours=2)}, "since"),
        ({"since": NOON - timedelta(days=400)}, "since"),
        ({"step": timedelta(seconds=90)}, "step"),
        ({"step": timedelta(0)}, "step"),
        ({"since": NOON - timedelta(days=300)}, "step"),
        ({"by": "tenant"}, "by"),
    ],
)
def test_a_series_that_cannot_be_had_is_refused(options: dict[str, Any], told: str) -> None:
    until = NOON + timedelta(hours=1)
    with pytest.raises(InvalidOption) as caught:
        stats.series(**({"since": NOON, "until": until} | options))
    assert caught.value.option == told


def test_quantiles_are_estimated_within_their_bucket() -> None:
    counts = [0] * histograms.SIZE
    assert histograms.quantile(counts, 0.5, 0.0) is None
    counts[histograms.bucket_of(0.2)] = 100
    assert histograms.quantile(counts, 0.5, 0.25) == pytest.approx(0.175)
    assert histograms.quantile(counts, 1.0, 0.21) == pytest.approx(0.21)
    counts[histograms.bucket_of(5000.0)] = 1
    assert histograms.quantile(counts, 1.0, 5000.0) == pytest.approx(5000.0)


def test_a_duration_on_a_bound_is_in_the_bucket_that_ends_there() -> None:
    for number, bound in enumerate(histograms.BOUNDS):
        assert histograms.bucket_of(bound) == number
        assert histograms.bucket_of(bound * 1.0001) == number + 1


# ---- how long they stay


@pytest.mark.django_db
@pytest.mark.usefixtures("at_once")
def test_old_minutes_go_and_totals_stay(
    set_clock: SetClock, fresh_recorder: minutes.Recorder
) -> None:
    set_clock(NOON)
    fresh_recorder.note([note()])
    set_clock(NOON + timedelta(days=1))
    fresh_recorder.note([note()])
    set_clock(NOON + timedelta(days=30, minutes=1))
    assert sum(part.rows.get("minutes", 0) for part in retention.sweep()) == 1
    assert [(row.minute, row.count) for row in Minute.objects.order_by("minute")] == [
        (NOON + timedelta(days=1), 1),
        (TOTAL, 2),
    ]


# ---- what is counted once a minute is over


def arrivals_by_minute() -> dict[datetime, int]:
    found = Minute.objects.filter(outcome=arrivals.OUTCOME, kind="", queue="")
    return dict(found.values_list("minute", "count"))


@pytest.mark.django_db
def test_arrivals_count_once_their_minute_is_over(set_clock: SetClock) -> None:
    for seconds in (0, 59, 60):
        set_clock(NOON + timedelta(seconds=seconds))
        jobs.enqueue(Fail())
    set_clock(NOON + timedelta(seconds=89))
    assert arrivals.tally()[0] == 0
    set_clock(NOON + timedelta(seconds=90))
    assert arrivals.tally()[0] == 1 and arrivals_by_minute() == {NOON: 2}
    assert arrivals.tally()[0] == 0
    set_clock(NOON + timedelta(minutes=30))
    assert arrivals.tally()[0] == 1
    assert arrivals_by_minute() == {NOON: 2, NOON + timedelta(minutes=1): 1}
    assert stats.series(NOON, by="queue") == {}


@pytest.mark.django_db
def test_arrivals_of_a_pause_are_made_up_for_in_portions(set_clock: SetClock) -> None:
    minutes_ = [NOON + timedelta(minutes=n) for n in (0, 10, 11, 12, 13, 14, 15, 20)]
    for minute in minutes_:
        set_clock(minute)
        jobs.enqueue(Fail())
    set_clock(NOON + timedelta(minutes=65))
    assert [arrivals.tally()[0] for _ in range(3)] == [5, 2, 0]
    assert list(arrivals_by_minute()) == minutes_[1:], "an hour ago is too long ago"


@pytest.mark.django_db(transaction=True)
def test_several_processes_count_arrivals_once() -> None:
    jobs.enqueue(Fail())
    sql.run("UPDATE jobs_job SET created_at = date_trunc('minute', created_at) - interval '3 min'")
    problems: queues.SimpleQueue[BaseException] = queues.SimpleQueue()
    barrier = threading.Barrier(4)

    def count() -> None:
        try:
            barrier.wait(10)
            for _ in range(5):
                arrivals.tally()
        except BaseException as error:
            problems.put(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems.empty() and list(arrivals_by_minute().values()) == [1]


@pytest.mark.django_db
def test_quarters_are_summed_up_once_they_are_over(set_clock: SetClock) -> None:
    for minute, count in ((0, 3), (14, 4), (15, 5)):
        Minute.objects.create(
            kind="k", queue="q", outcome="succeeded", minute=NOON + timedelta(minutes=minute),
            count=count,
        )  # fmt: skip
    set_clock(NOON + timedelta(minutes=17, seconds=29))
    assert arrivals.tally() == (0, 0)
    set_clock(NOON + timedelta(minutes=17, seconds=30))
    assert arrivals.tally() == (0, 1) and arrivals.tally() == (0, 0)
    [quarter] = Quarter.objects.all()
    assert (quarter.queue, quarter.at, quarter.count) == ("q", NOON, 7)
    set_clock(NOON + timedelta(days=31))
    for _ in retention.sweep():
        pass
    assert not Quarter.objects.exists()
