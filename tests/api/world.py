"""One of everything, which belongs to another tenant than the caller's."""

from __future__ import annotations

from datetime import time
from typing import Any

import jobs
from jobs.ids import uuid7
from jobs.models import Effect, Webhook, WebhookDelivery
from jobs.operate import apikeys, batches, blackouts, bulk, schedules, views
from tests.jobs import factories
from tests.specimens.handlers import Noop

TENANT = "other"


def made() -> dict[str, Any]:
    """Values of path parameters and bodies, by their name, of what tenant ``other`` has."""
    factories.sql("INSERT INTO jobs_queue (name) VALUES ('default') ON CONFLICT DO NOTHING")
    claim = factories.a_claim(tenant=TENANT, max_attempts=1)
    factories.settle(factories.ended(claim))
    [(letter,)] = factories.sql("SELECT id FROM jobs_deadletter WHERE job_id = %s", [claim.id])
    pending = jobs.enqueue(Noop(), tenant=TENANT).id
    batch = batches.batch("theirs", tenant=TENANT)
    batch.add(Noop())
    jobs.emit("test.told", {"n": 1}, key="k", tenant=TENANT)
    [(number,)] = factories.sql("SELECT id FROM jobs_outbox WHERE topic = 'test.told'")
    effect = Effect.objects.create(
        job_id=claim.id, key="send", token=claim.token, attempt=1, state="in_doubt"
    )
    schedules.create("theirs", Noop(), cron="0 3 * * *", tenant=TENANT, by="tests", reason="a test")
    window = blackouts.create(f"tenant:{TENANT}", time(1), time(2), by="tests", reason="a test")
    key = apikeys.create("theirs", ["view_job"], tenants=[TENANT], by="tests", reason="a test").key
    operation = bulk.start("cancel", ids=[pending], by="tests", reason="a test")
    factories.sql("INSERT INTO jobs_breaker (name) VALUES ('theirs')")
    jobs.meter("theirs", "5/m").close(3600)
    factories.sql("INSERT INTO jobs_worker (name, queues) VALUES ('other-worker', '{default}')")
    [(cause,)] = factories.sql("SELECT fingerprint FROM jobs_deadletter WHERE id = %s", [letter])
    webhook = _webhook()
    return {
        **webhook,
        "view_id": _view(),
        "worker": "other-worker",
        "cause": cause,
        "job_id": claim.id,
        "pending": pending,
        "batch_id": batch.id,
        "letter": letter,
        "event": number,
        "effect": effect.pk,
        "schedule": "theirs",
        "blackout": window.pk,
        "apikey": key.pk,
        "bulk_id": operation.id,
    }


def _webhook() -> dict[str, Any]:
    found = Webhook.objects.create(
        tenant=TENANT, url="https://a.example.com/", topics=["*"],
        secrets=[{"secret": "whsec_b3RoZXI=", "until": None}],
    )  # fmt: skip
    delivery = WebhookDelivery.objects.create(
        webhook=found, event_id=uuid7(), topic="test.told", key="k", sequence=1, data={},
        state="failed", closed_at=found.created_at,
    )  # fmt: skip
    return {"webhook_id": found.pk, "delivery_id": delivery.pk}


def _view() -> int:
    return int(
        views.save("theirs", "kind:x", shared=True, tenant=TENANT, by="tests", reason="a test").pk
    )


def fingerprint() -> list[Any]:
    """Everything of the world that somebody could have changed."""
    queries = (
        "SELECT id, state, priority, max_attempts, cancel_requested_at, replayed_by FROM jobs_job",
        "SELECT id, state FROM jobs_batch",
        "SELECT id, state FROM jobs_deadletter",
        "SELECT id, state FROM jobs_outbox",
        "SELECT id, state FROM jobs_effect",
        "SELECT id, paused_at, enabled FROM jobs_schedule",
        "SELECT id, scope, enabled, start FROM jobs_blackout",
        "SELECT id, revoked_at, secret_hash FROM jobs_apikey",
        "SELECT id, state FROM jobs_bulk",
        "SELECT name, state FROM jobs_breaker",
        "SELECT name, closed_until FROM jobs_meter",
        "SELECT scope FROM jobs_pause",
        "SELECT scope, at_once, override_until FROM jobs_limiter WHERE NOT is_declared",
        "SELECT name, asked FROM jobs_worker",
        "SELECT fingerprint, state, note FROM jobs_cause",
        "SELECT id, note FROM jobs_batch",
        "SELECT version FROM jobs_deploy",
        "SELECT id, state, name, url FROM jobs_webhook",
        "SELECT id, state, job_id FROM jobs_webhookdelivery",
        "SELECT id, name, query FROM jobs_savedview",
    )
    return [sorted(map(str, factories.sql(query))) for query in queries]
