"""A database in which every screen has something to show."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection

import jobs
from jobs.engine import roll
from jobs.models import Audit, Batch, Bulk, DeadLetter, Job, Outbox, Schedule
from jobs.operate import blackouts, bulk, pauses, schedules
from jobs.testing import freeze_clock, run_jobs
from tests.jobs.factories import a_job, an_executor
from tests.specimens.handlers import Echo, Fail, Flaky, Noop


def fill() -> dict[str, Any]:
    """Ids of what the screens are about."""
    User.objects.create_superuser("root", password="let me in please")
    [(now,)] = _rows("SELECT jobs_clock()")
    with freeze_clock() as clock:
        for n in range(12):
            jobs.enqueue(Echo(text=f"letter {n}"), tenant=f"brand-{n % 3}", tags=["weekly"])
            jobs.enqueue(Flaky(failures=n % 2), tenant="brand-1")
        failing = [
            jobs.enqueue(Fail(message=f"no route to host 10.0.0.{n}"), tenant="brand-2").id
            for n in range(4)
        ]
        jobs.enqueue(Fail(message="the mailbox 'ada' is full and has been for a long, long time"))
        for _ in range(4):
            run_jobs()
            clock.tick(2)
    with jobs.batch("Newsletter of November", tenant="brand-1") as batch:
        for n in range(20):
            batch.add(Echo(text=str(n)))
    for member in Job.objects.filter(batch_id=batch.id).order_by("id")[:12]:
        drive(member.pk)
    open_batch = jobs.batch("Import of the price list, still being read")
    open_batch.add(Noop())
    scheduled = jobs.enqueue(Noop(), delay=3600, queue="reports", priority=5)
    running = a_job("running", Echo(text="at work"))
    Job.objects.filter(pk=running).update(
        progress={"done": 620, "total": 1000, "note": "rendering pages"}
    )
    a_job("cancelled", Noop())
    a_job("expired", Noop())
    an_executor("default", 8)
    roll.announce("w1", 4711, ["default", "reports"], 8)
    _rows("UPDATE jobs_worker SET version = '2026.11.1'")
    roll.announce("w2", 4712, ["default"], 8)
    pauses.pause("queue:reports", by="ada", reason="the printer is on fire")
    blackouts.create("kind:test.noop", time(22), time(6), days=[4, 5], time_zone="Europe/Rome",
                     by="ada", reason="their night")  # fmt: skip
    nightly = schedules.create("nightly", Echo(text="x"), cron="30 2 * * *",
                               time_zone="Europe/Rome", by="ada", reason="asked for")  # fmt: skip
    schedules.create("poll", Noop(), interval=90, by="ada", reason="asked for")
    jobs.emit("example.happened", {"text": "hello"}, key="example:1")
    started = bulk.start("retry", ids=[failing[0]], by="ada", reason="it is back")
    _minutes(now)
    return {
        "job": failing[1],
        "running": running,
        "scheduled": scheduled.id,
        "batch": batch.id,
        "letter": DeadLetter.objects.filter(state="open").latest("id").pk,
        "cause": DeadLetter.objects.filter(state="open").latest("id").fingerprint,
        "schedule": nightly.pk,
        "bulk": started.pk,
        "event": Outbox.objects.latest("id").pk,
        "audit": Audit.objects.latest("at").pk,
        "counts": (Batch.objects.count(), Bulk.objects.count(), Schedule.objects.count()),
    }


def drive(job_id: Any) -> None:
    """The member has succeeded, as a worker would say it."""
    from tests.jobs.factories import claim_again, succeed

    succeed(claim_again(job_id))


def _minutes(now: Any) -> None:
    """Three hours of statistics, so that charts have a curve."""
    for n in range(180):
        at = (now - timedelta(minutes=n)).replace(second=0, microsecond=0)
        for outcome, count in (("succeeded", 40 + n % 17), ("failed", n % 5), ("retried", n % 3)):
            _rows(
                "INSERT INTO jobs_minute (kind, queue, outcome, minute, count, seconds, longest, "
                "buckets) VALUES ('test.echo', 'default', %s, %s, %s, %s, 2, %s) "
                "ON CONFLICT DO NOTHING RETURNING 1",
                [outcome, at, count, count * 0.4, _buckets(count)],
            )


def _buckets(count: int) -> list[int]:
    from jobs import histograms

    return [count if n == 3 else 0 for n in range(histograms.SIZE)]


def _rows(statement: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []
