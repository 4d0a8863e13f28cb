"""Retention: what was kept long enough goes with all that hangs on it, and nothing else does."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import override_settings

import jobs
from jobs import conf, keeping, registry
from jobs.engine import kept, retention
from jobs.engine.reconcile import Reconciler
from jobs.errors import ConfigError
from jobs.ids import uuid7
from jobs.models import Attempt, Batch, DeadLetter, Dependency, Effect, Job, JobKey, Lease
from tests.jobs.factories import (
    WORKER,
    a_claim,
    a_job,
    an_executor,
    claim_again,
    ended,
    settle,
    sql,
    state,
    succeed,
)
from tests.specimens.handlers import Fail, Noop

pytestmark = pytest.mark.django_db
SetClock = Callable[[datetime | None], None]
START = datetime(2040, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
KEEPS = {"succeeded": 7, "failed": 90, "cancelled": 30, "expired": 30}
"""Days, by the defaults."""


@pytest.fixture(autouse=True)
def clock(set_clock: SetClock) -> SetClock:
    set_clock(START)
    return set_clock


def sweep(**options: Any) -> Counter[str]:
    total: Counter[str] = Counter()
    for portion in retention.sweep(**options):
        total.update(portion.rows)
    return +total


def left() -> set[UUID]:
    return set(Job.objects.values_list("pk", flat=True))


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


# ---- by both


def test_a_kind_keeps_its_last_so_many_for_a_time(clock: SetClock) -> None:
    keep = jobs.Keep(timedelta(days=7), last=2)
    with a_kind("test.both", keep_failed=keep, dead_letter=False) as both:
        old = a_job("failed", both())
        clock(START + 6 * DAY)
        made = sorted(a_job("failed", both()) for _ in range(3))
        a_job("failed")
        assert sweep() == {"jobs": 2}, "by number"
        assert old not in left() and made[0] not in left()
        clock(START + 13 * DAY + timedelta(seconds=1))
        assert sweep() == {"jobs": 2}, "by time"
        assert not left() & set(made)


def letters(state: str = "open") -> set[UUID]:
    return set(DeadLetter.objects.filter(state=state).values_list("job_id", flat=True))


def buried(payload: jobs.Payload) -> UUID:
    claim = claim_again(a_job("queued", payload, max_attempts=1))
    settle(ended(claim))
    return claim.id


def test_dead_letters_of_a_kind_have_their_own_time_and_number(clock: SetClock) -> None:
    keep = jobs.Keep(timedelta(days=7), last=2)
    rules: dict[str, Any] = {"keep_failed": keep, "dead_letter_retention": keep, "max_attempts": 1}
    with a_kind("test.letters", **rules) as kind:
        made = []
        for second in range(4):
            clock(START + timedelta(seconds=second))
            made.append(buried(kind()))
        other = buried(Fail())
        stays = dict(DeadLetter.objects.values_list("job_id", "expires_at"))
        assert stays[made[0]] == START + 7 * DAY
        assert stays[other] == START + timedelta(days=30, seconds=3)
        assert sweep(dry_run=True)["deadletters expired"] == 2
        assert sweep()["deadletters expired"] == 2
        assert letters() == {*made[2:], other}
        assert left() == {*made[2:], other}, "their letters hold the jobs no longer"
        assert sweep() == {}
        clock(START + timedelta(days=7, seconds=4))
        assert sweep()["deadletters expired"] == 2
        assert letters() == left() == {other}


def test_a_number_alone_leaves_dead_letters_their_usual_time(clock: SetClock) -> None:
    with a_kind("test.letters", dead_letter_retention=1, max_attempts=1) as kind:
        first, second = buried(kind()), buried(kind())
        assert sweep() == {"deadletters expired": 1}
        assert (letters("expired"), letters()) == ({first}, {second})
        clock(START + timedelta(days=29))
        assert sweep() == {}
        clock(START + timedelta(days=30))
        assert sweep() == {"deadletters expired": 1}


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"keep_failed": -1}, "keep_failed must be a timedelta, a whole number"),
        ({"keep_completed": "a week"}, "keep_completed must be"),
        ({"dead_letter_retention": True}, "dead_letter_retention must be"),
        ({"dead_letter": False, "dead_letter_retention": 1}, "without dead letters"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(rules: dict[str, Any], told: str) -> None:
    with pytest.raises(jobs.HandlerError, match=told), a_kind("test.wrong", **rules):
        pass
    for wrong in ({}, {"time": 7}, {"last": -1}, {"last": 1.5}, {"time": timedelta(-1)}):
        with pytest.raises(jobs.HandlerError, match="must have a timedelta"):
            jobs.Keep(**wrong)


# ---- what apps have


@pytest.fixture
def swept() -> Iterator[list[tuple[bool, int]]]:
    """A sweeper of an app's own, and how it was called."""
    calls: list[tuple[bool, int]] = []

    @jobs.sweeper("test.rows")
    def clear(dry_run: bool, chunk: int) -> Iterator[dict[str, int]]:
        calls.append((dry_run, chunk))
        yield {"rows": 2}
        yield {"rows": 1}

    yield calls
    keeping.forget_sweeper("test.rows")


def test_rows_of_apps_go_in_the_same_sweep(swept: list[tuple[bool, int]]) -> None:
    assert sweep(dry_run=True) == {"rows": 3}
    assert sweep(chunk=7) == {"rows": 3}
    assert swept == [(True, retention.CHUNK), (False, 7)]
    with pytest.raises(jobs.HandlerError, match="test_retention"):
        jobs.sweeper("test.rows")(lambda dry_run, chunk: [])
    with pytest.raises(jobs.HandlerError, match="sweeper: name"):
        jobs.sweeper("no such name")


def test_a_sweeper_that_fails_keeps_no_other_from_going_on(
    swept: list[tuple[bool, int]], caplog: pytest.LogCaptureFixture, clock: SetClock
) -> None:
    @jobs.sweeper("test.broken")
    def broken(dry_run: bool, chunk: int) -> Iterator[dict[str, int]]:
        raise ValueError("broken")

    try:
        a_job("succeeded")
        clock(START + 8 * DAY)
        assert sweep() == {"jobs": 1, "rows": 3}
    finally:
        keeping.forget_sweeper("test.broken")
    assert "sweeper test.broken failed" in caplog.text


# ---- what goes along, and what holds


def test_what_hangs_on_a_job_goes_with_it(clock: SetClock) -> None:
    claim = claim_again(a_job("queued", Fail(), max_attempts=1))
    settle(ended(claim))
    DeadLetter.objects.update(state="discarded", closed_at=START)
    Effect.objects.create(job_id=claim.id, key="k", state="done", token=uuid7(), attempt=1)
    child = a_job("cancelled")
    Dependency.objects.create(parent_id=claim.id, child_id=child, done=True)
    clock(START + 91 * DAY)
    assert sweep() == {
        "jobs": 2, "attempts": 1, "deadletters": 1, "effects": 1, "dependencies": 1,
        "causes": 1, "causes seen": 1,
    }  # fmt: skip
    for model in (Job, Attempt, DeadLetter, Effect, Dependency):
        assert not model._default_manager.exists()


def an_open_letter(mine: UUID) -> None:
    DeadLetter.objects.create(
        job_id=mine, kind="k", queue="q", attempt=1, reason="r", fingerprint="f",
        opened_at=START, expires_at=START + 2000 * DAY,
    )  # fmt: skip


def a_doubt(mine: UUID) -> None:
    Effect.objects.create(job_id=mine, key="k", state="in_doubt", token=uuid7(), attempt=1)


def an_intent(mine: UUID) -> None:
    Effect.objects.create(job_id=mine, key="k", state="intent", token=uuid7(), attempt=1)


def an_open_batch(mine: UUID) -> None:
    batch = Batch.objects.create()
    sql("UPDATE jobs_job SET batch_id = %s WHERE id = %s", [batch.pk, mine])


def a_sealed_batch(mine: UUID) -> None:
    batch = Batch.objects.create(state="sealed", total=2, sealed_at=START)
    sql("UPDATE jobs_job SET batch_id = %s WHERE id = %s", [batch.pk, mine])


def a_blocked_child(mine: UUID) -> None:
    Dependency.objects.create(parent_id=mine, child_id=a_job("blocked"), policy="wait")


def a_running_child(mine: UUID) -> None:
    Dependency.objects.create(parent_id=mine, child_id=a_job("running"), done=True)


def release(mine: UUID) -> None:
    sql("UPDATE jobs_deadletter SET state = 'discarded', closed_at = jobs_clock()")
    sql("UPDATE jobs_effect SET state = 'done'")
    sql("UPDATE jobs_batch SET state = 'done', total = 1, sealed_at = jobs_clock()")
    sql("DELETE FROM jobs_dependency")


HOLDS = [
    an_open_letter,
    a_doubt,
    an_intent,
    an_open_batch,
    a_sealed_batch,
    a_blocked_child,
    a_running_child,
]


@pytest.mark.parametrize("hold", HOLDS)
def test_a_job_that_is_still_needed_stays(hold: Callable[[UUID], None], clock: SetClock) -> None:
    mine, other = a_job("failed"), a_job("failed")
    hold(mine)
    clock(START + 1000 * DAY)
    assert sweep(dry_run=True)["jobs"] == 1
    assert sweep()["jobs"] == 1
    assert mine in left() and other not in left()
    release(mine)
    assert sweep()["jobs"] == 1
    assert mine not in left()


def test_held_jobs_at_the_head_do_not_hide_the_rest(
    clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PAGE", 3)
    held = {a_job("failed") for _ in range(7)}
    for mine in held:
        an_open_letter(mine)
    for _ in range(7):
        a_job("failed")
    clock(START + 100 * DAY)
    assert sweep(chunk=2)["jobs"] == 7
    assert left() == held


# ---- dead letters, batches, keys, leases


def test_an_open_dead_letter_expires_and_its_job_can_go(clock: SetClock) -> None:
    claim = claim_again(a_job("queued", Fail(), max_attempts=1))
    settle(ended(claim))
    clock(START + 31 * DAY)
    assert sweep(dry_run=True) == {"deadletters expired": 1}
    assert sweep() == {"deadletters expired": 1}
    letter = DeadLetter.objects.get()
    assert (letter.state, letter.closed_at) == ("expired", START + 31 * DAY)
    assert letter.history[-1][1:] == ["open", "expired", "retention", "nobody decided in time"]
    clock(START + 91 * DAY)
    sweep()
    assert left() == set()


def test_closed_dead_letters_go_before_a_job_that_stays(
    clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PAGE", 2)
    mine = a_job("failed")
    for number in range(5):
        an_open_letter(mine)
        if number < 4:
            DeadLetter.objects.filter(state="open").update(state="discarded", closed_at=START)
    clock(START + 91 * DAY)
    assert sweep() == {"deadletters": 4}
    assert DeadLetter.objects.get().state == "open"


def test_a_batch_goes_when_it_is_done_and_its_members_are_gone(clock: SetClock) -> None:
    done = {"state": "done", "total": 1, "sealed_at": START, "finished_at": START}
    empty, full = Batch.objects.create(**done), Batch.objects.create(**done)
    Batch.objects.create()
    Batch.objects.create(state="sealed", total=1, sealed_at=START)
    sql("UPDATE jobs_job SET batch_id = %s WHERE id = %s", [full.pk, a_job("failed")])
    clock(START + 30 * DAY)
    assert sweep() == {}
    clock(START + 31 * DAY)
    assert sweep() == {"batches": 1}
    assert not Batch.objects.filter(pk=empty.pk).exists()
    clock(START + 91 * DAY)
    assert sweep() == {"jobs": 1, "batches": 1}


def test_keys_go_after_their_time_and_those_for_ever_stay(clock: SetClock) -> None:
    for name, end in {"past": START, "future": START + 9000 * DAY, "ever": None}.items():
        JobKey.objects.create(kind="k", key=name, job_id=uuid7(), expires_at=end)
    JobKey.objects.create(kind="k", key="waiting", job_id=a_job(), expires_at=START)
    clock(START + DAY)
    assert sweep() == {"keys": 1}
    assert set(JobKey.objects.values_list("key", flat=True)) == {"future", "ever", "waiting"}


def test_a_key_for_ever_outlives_its_job(clock: SetClock) -> None:
    ever = jobs.Unique("once", for_="ever")
    mine = jobs.enqueue(Noop(), unique=ever).id
    succeed(claim_again(mine))
    clock(START + 8 * DAY)
    assert sweep() == {"jobs": 1}
    again = jobs.enqueue(Noop(), unique=ever)
    assert (again.id, again.deduplicated) == (mine, True)
    assert left() == set()


def test_dead_leases_go(clock: SetClock) -> None:
    owner = an_executor()
    Lease.objects.update(dead_at=START)
    clock(START + DAY)
    assert sweep() == {"leases": 1}
    assert not Lease.objects.filter(owner=owner).exists()


# ---- a little at a time


def test_no_transaction_deletes_more_than_a_chunk(clock: SetClock) -> None:
    for _ in range(10):
        a_job("succeeded")
    clock(START + 8 * DAY)
    portions = [p.rows["jobs"] for p in retention.sweep(chunk=3) if "jobs" in p.rows]
    assert portions == [3, 3, 3, 1]


def test_a_dry_run_deletes_nothing(clock: SetClock) -> None:
    for end in KEEPS:
        a_job(end)
    clock(START + 100 * DAY)
    assert sweep(dry_run=True) == {"jobs": 4}
    assert len(left()) == 4


def test_the_sweeper_stops_in_time_and_goes_on_where_it_was(
    clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention.Sweeper, "BUDGET", 0.0)
    monkeypatch.setattr(retention.Sweeper, "CHUNK", 2)
    for _ in range(7):
        a_job("succeeded")
    clock(START + 8 * DAY)
    sweeper = retention.Sweeper()
    counts, intervals = [], []
    for _ in range(17):
        counts.append(sweeper.run()["jobs"])
        intervals.append(sweeper.interval)
    assert max(counts) == 2 and sum(counts) == 7
    assert min(intervals) < sweeper.USUAL, "it hurries while rows go"
    monkeypatch.setattr(retention.Sweeper, "BUDGET", 60.0)
    for _ in range(10):
        sweeper.run()
    assert sweeper.interval == sweeper.IDLEST, "and rests when there is nothing to do"
    assert left() == set()


def test_the_sweeper_begins_anew_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeper = retention.Sweeper()
    with monkeypatch.context() as patch:
        patch.setattr(retention, "_remove", lambda *_: 1 / 0)
        with override_settings(JOBS={"KEEP_COMPLETED": 0}):
            a_job("succeeded")
            sql("UPDATE jobs_job SET finished_at = finished_at - interval '1 s'")
            with pytest.raises(ZeroDivisionError):
                sweeper.run()
            patch.undo()
            assert sweeper.run()["jobs"] == 1


def test_the_reconciler_sweeps(clock: SetClock) -> None:
    a_job("succeeded")
    clock(START + 8 * DAY)
    Reconciler(WORKER).round([])
    assert left() == set()


def test_the_command_says_what_went(clock: SetClock, capsys: pytest.CaptureFixture[str]) -> None:
    a_job("succeeded")
    call_command("jobs", "retention")
    assert capsys.readouterr().out == "Nothing has been kept long enough.\n"
    clock(START + 8 * DAY)
    call_command("jobs", "retention", "--dry-run", "--json")
    assert json.loads(capsys.readouterr().out) == {"jobs": 1}
    call_command("jobs", "retention", "--dry-run")
    assert capsys.readouterr().out == "TABLE  WOULD GO\njobs   1\n"
    call_command("jobs", "retention")
    assert capsys.readouterr().out == "TABLE  GONE\njobs   1\n"


# ---- beside others


def in_thread(act: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.django_db(transaction=True)
def test_a_job_that_somebody_retries_is_left_alone(clock: SetClock) -> None:
    clock(None)
    mine, other = a_job("failed"), a_job("failed")
    sql("UPDATE jobs_job SET finished_at = jobs_clock() - interval '1000 days'")
    swept: list[Counter[str]] = []
    with transaction.atomic():
        jobs.retry(mine, by="ann", reason="again")
        in_thread(lambda: swept.append(sweep())).join(10)
    assert [found["jobs"] for found in swept] == [1]
    assert (state(mine), left()) == ("pending", {mine})
    assert other not in left()


def test_the_walk_uses_the_index(clock: SetClock) -> None:
    sql(
        "INSERT INTO jobs_job (id, kind, queue, state, payload, lane, rank, max_attempts, timeout, "
        "lease) SELECT gen_random_uuid(), 'k', 'q', 'pending', '{}', 'l', 0, 1, 1, 15 "
        "FROM generate_series(1, 3000)"
    )
    sql(
        "UPDATE jobs_job SET state = 'cancelled', finished_at = jobs_clock() + random() * "
        "interval '1 day'"
    )
    sql("ANALYZE jobs_job")
    page = [
        "cancelled", START, kept.NOBODY, START + DAY, 100
    ]  # fmt: skip
    plan = "\n".join(line for (line,) in sql("EXPLAIN " + retention._PAGE, page))
    assert "jobs_job_finished" in plan and "Seq Scan" not in plan
    back = ["cancelled", START + 2 * DAY, kept.NOBODY, 100]
    plan = "\n".join(line for (line,) in sql("EXPLAIN " + retention._NEWEST, back))
    assert "Backward using jobs_job_finished" in plan
    assert a_claim().attempt == 1
