"""Every screen of the admin on a table of a million jobs, and the queries that it takes."""

from __future__ import annotations

import time
from datetime import time as of_day
from typing import Any

from benchmarks import operate
from benchmarks.bench import Bench
from benchmarks.result import Check, Figures, Result, spread
from tests.admin.screens import screens

MUST_MS, AIM_MS = 150, 100
QUERIES = 25
AUDIT = """
INSERT INTO jobs_audit (id, at, actor, via, action, target_kind, target_id, outcome, detail)
SELECT gen_random_uuid(), now() - n * interval '20 s', 'person-' || n %% 40, 'admin', 'job.retry',
  'job', gen_random_uuid()::text, 'done', '{}' FROM generate_series(1, %s) n
"""
OUTBOX = """
INSERT INTO jobs_outbox (topic, key, payload) SELECT 'bench.topic', 'key:' || n, '{"a": 1}'
FROM generate_series(1, %s) n
"""
MEMBERS = """
WITH chosen AS (SELECT id FROM jobs_job WHERE state IN ('succeeded', 'failed') LIMIT %s),
  changed AS (UPDATE jobs_job j SET batch_id = %s FROM chosen c WHERE j.id = c.id RETURNING state)
SELECT count(*) FILTER (WHERE state = 'failed') FROM changed
"""
CAUSES = """
WITH seen AS (INSERT INTO jobs_causeseen (fingerprint, kind, queue, tenant, count, last_at)
  SELECT fingerprint, kind, queue, tenant, count(*), max(opened_at) FROM jobs_deadletter
  GROUP BY 1, 2, 3, 4 ON CONFLICT DO NOTHING RETURNING fingerprint)
INSERT INTO jobs_cause (fingerprint, sample)
SELECT DISTINCT fingerprint, 'ValueError: no such order' FROM seen ON CONFLICT DO NOTHING
"""
A_JOB = "SELECT id FROM jobs_job WHERE state = %s ORDER BY created_at DESC LIMIT 1"


def screens_1m(b: Bench) -> Result:
    """Each screen many times, warm, through the whole of Django."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    size, turns = (5000, 2) if b.quick else (1_000_000, 15)
    b.reset()
    operate.fill(b, size)
    ids = beside(b, size)
    client = visitor()
    figures: Figures = {}
    for name, path in screens(ids).items():
        url = f"/admin/jobs/{path}"
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(url, secure=True)
            asked = len(queries)
        if answer.status_code != 200:
            raise RuntimeError(f"{name} answered {answer.status_code}")
        times = []
        for _ in range(turns):
            began = time.perf_counter()
            client.get(url, secure=True)
            times.append(time.perf_counter() - began)
        figures[name] = {**spread(times), "queries": asked}
    checks = [
        Check(f"{name} p95", found["p95_ms"], MUST_MS, AIM_MS, True, unit=" ms")
        for name, found in figures.items()
    ]
    most = max(found["queries"] for found in figures.values())
    checks.append(Check("most queries of a screen", most, QUERIES, None, True))
    return Result({"jobdesk": figures}, checks)


def beside(b: Bench, size: int) -> dict[str, Any]:
    """Everything beside the jobs that a screen is about; its ids by the names of the screens."""
    import jobs
    from benchmarks.specimens.handlers import Noop
    from jobs.ids import uuid7
    from jobs.models import (
        Audit,
        Blackout,
        Breaker,
        DeadLetter,
        Effect,
        Limiter,
        Meter,
        Outbox,
        Webhook,
        WebhookDelivery,
    )
    from jobs.operate import apikeys, blackouts, bulk, causes, pauses, people, schedules, views

    told: dict[str, Any] = {"by": "ada", "reason": "to be measured"}
    with jobs.batch("A large one") as batch:
        batch.add(Noop())
    members = size // 20
    b.sql("SET session_replication_role = replica")
    failed = b.sql(MEMBERS, (members, batch.id))
    b.sql("UPDATE jobs_batch SET total = %s, succeeded = %s, failed = %s WHERE id = %s",
          (members + 1, members - failed, failed, batch.id))  # fmt: skip
    b.sql("RESET session_replication_role")
    b.sql(CAUSES)
    b.sql("INSERT INTO jobs_worker (name, queues) VALUES ('w1', ARRAY['queue-1'])")
    b.sql(AUDIT, (size // 10,))
    b.sql(OUTBOX, (size // 20,))
    pauses.pause("queue:queue-3", **told)
    blackouts.create("kind:bench.noop", of_day(22), of_day(6), **told)
    schedule = schedules.create("nightly", Noop(), cron="30 2 * * *", **told)
    dead = b.sql(A_JOB, ("failed",))
    done, aborted = (bulk.start("replay", ids=[dead], **told) for _ in range(2))
    bulk.abort(aborted.pk, **told)
    b.sql("UPDATE jobs_bulk SET state = 'done', finished_at = jobs_clock() WHERE id = %s",
          (done.pk,))  # fmt: skip
    started = bulk.start("retry", ids=[dead], **told)
    with jobs.batch("A small one") as small:
        small.add(Noop())
    hook = Webhook.objects.create(
        tenant="tenant-1", name="Shop", url="https://shop.example.com/hooks", topics=["order.*"],
        secrets=[{"secret": "whsec_b3RoZXI=", "until": None}],
    )  # fmt: skip
    delivery = WebhookDelivery.objects.create(
        webhook=hook, event_id=uuid7(), topic="order.paid", sequence=1, data={}, state="failed",
        tries=9, closed_at=hook.created_at, log=[],
    )  # fmt: skip
    stopped = Webhook.objects.create(
        name="Old", url="https://old.example.com/", secrets=hook.secrets,
        state="disabled", stopped_by="jobs", stopped_at=hook.created_at,
    )  # fmt: skip
    Limiter.objects.create(scope="queue:letters", at_once=3)
    Breaker.objects.create(name="meta", state="open", failures=5, last_error="ConnectTimeout")
    Meter.objects.create(name="binance", amount=6000, span=60, burst=600, tokens=412,
                         taken_until=hook.created_at, spent=[0] * 41, part=0)  # fmt: skip
    effect = Effect.objects.create(
        job_id=dead, key="smtp", state="in_doubt", token=uuid7(), attempt=1
    )  # fmt: skip
    for table in ("jobs_job", "jobs_audit", "jobs_outbox"):
        b.sql(f"VACUUM ANALYZE {table}")
    return {
        "job": dead,
        "running": b.sql(A_JOB, ("running",)),
        "scheduled": b.sql("SELECT id FROM jobs_job WHERE state = 'pending' AND wait = 1 LIMIT 1"),
        "batch": batch.id,
        "letter": DeadLetter.objects.latest("id").pk,
        "cause": causes.every(by="ada")[0].fingerprint,
        "schedule": schedule.pk,
        "bulk": started.pk,
        "bulk_done": done.pk,
        "bulk_aborted": aborted.pk,
        "batch_done": small.id,
        "long": dead,
        "view": views.save("Failing", "state:failed", by=people.of_user(root(), via="admin")).pk,
        "key": apikeys.create("shop", ["view_job"], **told).key.pk,
        "webhook": hook.pk,
        "delivery": delivery.pk,
        "window": Blackout.objects.latest("id").pk,
        "event": Outbox.objects.latest("id").pk,
        "audit": Audit.objects.latest("at").pk,
        "audit_change": Audit.objects.latest("at").pk,
        "webhook_stopped": stopped.pk,
        "effect": effect.pk,
    }


def visitor() -> Any:
    """A browser of somebody who may see everything."""
    from django.test import Client

    client = Client(SERVER_NAME="localhost")
    client.force_login(root())
    return client


def root() -> Any:
    """Whoever may see everything."""
    from django.contrib.auth.models import User

    return User.objects.get_or_create(username="root", is_staff=True, is_superuser=True)[0]
