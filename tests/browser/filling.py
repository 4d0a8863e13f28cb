"""A database in which every screen has something to show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import time, timedelta
from math import sin
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.http import HttpRequest
from django.test import override_settings
from django.utils.html import format_html
from django.utils.safestring import SafeString

import jobs
from jobs.admin import components, panels, register_panel
from jobs.admin.bulks import SURE
from jobs.engine import roll
from jobs.engine.arrivals import OUTCOME
from jobs.ids import uuid7
from jobs.models import (
    Audit,
    Batch,
    Blackout,
    Breaker,
    Bulk,
    DeadLetter,
    Effect,
    Job,
    Limiter,
    Meter,
    Outbox,
    Schedule,
    Slot,
    Webhook,
    WebhookDelivery,
)
from jobs.operate import apikeys, blackouts, bulk, pauses, people, schedules, views
from jobs.testing import freeze_clock, run_jobs
from tests.jobs.factories import a_job, an_executor
from tests.privacy import vault
from tests.specimens.handlers import Echo, Fail, Flaky, Noop

LONG = "a-very-long-name-" * 6
UNBROKEN = "x" * 400


@contextmanager
def furnished() -> Iterator[None]:
    """Keys for what is sealed, webhooks, and a panel of another app."""
    given = {**settings.JOBS, **vault.KEYS, "WEBHOOKS": True}
    with override_settings(JOBS=given):
        register_panel("test.fail", title="E-mail")(_panel)
        try:
            yield
        finally:
            panels._panels.pop("test.fail")


def _panel(request: HttpRequest, job: Job) -> SafeString:
    return format_html(
        "<p>{} <a href='mailto:ada@example.com'>ada@example.com</a></p>",
        components.badge("published"),
    )


def fill() -> dict[str, Any]:
    """Ids of what the screens are about."""
    root = User.objects.create_superuser("root", password="let me in please")
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.set(
        Permission.objects.filter(codename__in=["view_job", "view_batch", "view_deadletter"])
    )
    [(now,)] = _rows("SELECT jobs_clock()")
    _called_off()
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
    _rows("UPDATE jobs_worker SET version = '2026.11.1', memory = 212.4")
    roll.announce("w2", 4712, ["default"], 8)
    pauses.pause("queue:reports", by="ada", reason="the printer is on fire")
    window = blackouts.create("kind:test.noop", time(23), time(6), days=[4, 5], by="ada",
                              time_zone="Europe/Rome", reason="their night")  # fmt: skip
    blackouts.update(window.pk, by="ada", start=time(22))
    change = Audit.objects.latest("at")
    effect = _flow(running)
    nightly = schedules.create("nightly", Echo(text="x"), cron="30 2 * * *",
                               time_zone="Europe/Rome", by="ada", reason="asked for")  # fmt: skip
    schedules.create("poll", Noop(), interval=90, by="ada", reason="asked for")
    jobs.emit("example.happened", {"text": "hello"}, key="example:1")
    done = bulk.start("replay", ids=[failing[1]], by="ada", reason="once more")
    aborted = bulk.start("cancel", ids=[failing[2]], by="ada", reason="a mistake")
    bulk.abort(aborted.pk, by="ada", reason="of somebody else")
    _rows("UPDATE jobs_bulkitem SET state = 'done', decided_at = jobs_clock() WHERE bulk_id = %s",
          [done.pk])  # fmt: skip
    _rows("UPDATE jobs_bulk SET state = 'done', done = total, started_at = created_at, "
          "finished_at = jobs_clock() WHERE id = %s", [done.pk])  # fmt: skip
    long = a_job("failed", Fail(message=UNBROKEN), tenant=LONG, tags=[LONG[:60]])
    Job.objects.filter(pk=long).update(error=f"ValueError: {UNBROKEN}", reason="unrecoverable")
    whole = jobs.batch("Price list of last week")
    for n in range(4):
        whole.add(Echo(text=str(n)))
    whole.seal()
    for member in Job.objects.filter(batch_id=whole.id).order_by("id"):
        drive(member.pk)
    who = people.of_user(root, via="admin")
    view = views.save("Failing mail", "kind:test.fail", by=who, tab="dead", shared=True)
    views.save("Mine of this week", "created>-7d tag:weekly", by=who)
    views.save(LONG[:80], f"tag:{LONG[:60]}", by=who)
    key = apikeys.create("shop", ["view_job", "enqueue_job"], queues=["default"], by="ada",
                         reason="for the shop").key  # fmt: skip
    apikeys.revoke(
        apikeys.create(LONG[:80], ["view_job"], by="ada", reason="a try").key.pk,
        by="ada", reason="not needed",
    )  # fmt: skip
    hook, delivery = _webhooks()
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
        "bulk_done": done.pk,
        "bulk_aborted": aborted.pk,
        "long": long,
        "batch_done": whole.id,
        "view": view.pk,
        "key": key.pk,
        "webhook": hook.pk,
        "delivery": delivery.pk,
        "window": Blackout.objects.latest("id").pk,
        "event": Outbox.objects.latest("id").pk,
        "audit": Audit.objects.latest("at").pk,
        "audit_change": change.pk,
        "webhook_stopped": Webhook.objects.get(state="disabled").pk,
        "effect": effect.pk,
        "counts": (Batch.objects.count(), Bulk.objects.count(), Schedule.objects.count()),
    }


def _called_off() -> None:
    """More jobs than can be retried without typing their number."""
    draft = jobs.Draft(Noop(), queue="mailing", delay=86400)
    jobs.enqueue_many([draft] * (SURE + 12))
    _rows("UPDATE jobs_job SET state = 'cancelled', finished_at = jobs_clock(), moved_by = 'ada', "
          "move_reason = 'too early' WHERE queue = 'mailing'")  # fmt: skip


def _webhooks() -> tuple[Webhook, WebhookDelivery]:
    """One that works, one that was given up, and what became of their deliveries."""
    with override_settings(JOBS={**settings.JOBS, **vault.KEYS}):
        return _sealed()


def _sealed() -> tuple[Webhook, WebhookDelivery]:
    [(now,)] = _rows("SELECT jobs_clock()")
    secrets = [{"secret": "whsec_b3RoZXI=", "until": None}]
    hook = Webhook.objects.create(
        tenant="brand-1", name="Shop", url="https://shop.example.com/hooks/" + "path/" * 30,
        topics=["order.*", "jobs.job.failed"], secrets=secrets,
    )  # fmt: skip
    Webhook.objects.create(
        name="Old warehouse", url="https://old.example.com/", topics=[],
        secrets=secrets, state="disabled", stopped_by="jobs", stopped_at=now, failures=40,
        failing_since=now, stopped_reason="nothing has arrived for 3 days",
    )  # fmt: skip
    made = [
        WebhookDelivery.objects.create(
            webhook=hook, event_id=uuid7(), topic="order.paid", key=f"order:{n}", sequence=n,
            data={"order": n}, state=state, tries=tries, closed_at=closed,
            log=[{"try": tries, "at": (now - timedelta(minutes=n)).isoformat(), "ms": 40 * n,
                  "status": status, "problem": "" if status == 204 else "was not taken",
                  "answer": "<p>no</p>"}],
        )
        for n, state, tries, status, closed in (
            (1, "delivered", 1, 204, now), (2, "failed", 9, 500, now), (3, "waiting", 2, 503, None),
        )
    ]  # fmt: skip
    return hook, made[1]


def _flow(job_id: Any) -> Effect:
    """What holds jobs back, and what one of them has done to the world; the one in doubt."""
    Limiter.objects.create(
        scope="queue:letters", at_once=3, is_declared=False, set_by="ada",
        set_reason="one printer is away",
    )  # fmt: skip
    Limiter.objects.create(scope="kind:test.flaky", per_second=0.5, burst=10)
    Slot.objects.create(key="agent:42", job_id=job_id)
    [(now,)] = _rows("SELECT jobs_clock()")
    later = now + timedelta(minutes=4)
    Breaker.objects.create(name="meta", state="open", failures=5, opened_at=now, retry_at=later,
                           last_error="ConnectTimeout: graph.example.com")  # fmt: skip
    Breaker.objects.create(name="bank", state="half_open", failures=5, opened_at=now)
    Breaker.objects.create(name="post", failures=1)
    Meter.objects.create(
        name="binance", amount=6000, span=60, burst=600, tokens=412, taken_until=now,
        spent=[0] * 41, part=0, closed_until=later,
    )  # fmt: skip
    for n, state in enumerate(("done", "failed", "intent", "in_doubt")):
        effect = Effect.objects.create(
            job_id=job_id, key=f"smtp:{n}", state=state, token=uuid7(), attempt=1,
            request={"to": "a***@e***.com", "subject": "November"},
            settled_at=None if state == "intent" else now,
        )  # fmt: skip
    return effect


def drive(job_id: Any) -> None:
    """The member has succeeded, as a worker would say it."""
    from tests.jobs.factories import claim_again, succeed

    succeed(claim_again(job_id))


def _minutes(now: Any) -> None:
    """Three hours of statistics and a little more, so that charts have whole curves."""
    for n in range(190):
        at = (now - timedelta(minutes=n)).replace(second=0, microsecond=0)
        came, done = round(46 + 14 * sin(n / 21)), round(44 + 14 * sin((n + 6) / 21))
        for outcome, count in (
            (OUTCOME, came), ("succeeded", done), ("failed", n % 5), ("retried", n % 3),
        ):  # fmt: skip
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
