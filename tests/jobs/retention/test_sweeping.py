"""What else goes, a little at a time, beside others."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import override_settings

import jobs
from jobs.engine import kept, retention
from jobs.engine.reconcile import Reconciler
from jobs.ids import uuid7
from jobs.models import Batch, DeadLetter, JobKey, Lease
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
from tests.jobs.retention.sweeping import DAY, KEEPS, START, SetClock, an_open_letter, left, sweep
from tests.specimens.handlers import Fail, Noop

pytestmark = pytest.mark.django_db


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
    monkeypatch.setattr(retention.Sweeper, "BUDGET", 60.0)
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
