"""Webhooks: every event becomes one delivery for each webhook that wants it, and that a job.

The delivery is written in the transaction that gives the event its position, so that there is
exactly one however many relays run. Deliveries of one key go one at a time and in order as long
as they succeed; one that fails is tried again later and holds nobody up: receivers go by the
sequence number.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from uuid import UUID

from django.db import transaction

from jobs import events, registry
from jobs.backoff import Delays
from jobs.context import Context
from jobs.engine import sending, sql
from jobs.engine.intake import Draft, enqueue_many
from jobs.engine.steady import steadily
from jobs.events import Event
from jobs.ids import uuid7
from jobs.limits import Limit
from jobs.outcomes import RetryAfter
from jobs.payloads import Payload

log = logging.getLogger("jobs.webhooks")

KIND = "jobs.webhook"
QUEUE = "jobs.webhooks"
DELAYS = (60.0, 300.0, 1800.0, 7200.0, 86400.0)
"""Seconds after each failed try but the last."""
AT_ONCE = 4
"""Deliveries to one webhook at the same time."""
SUBSCRIBER = "jobs.webhooks"


class Deliver(Payload, kind=KIND):
    """The delivery is to be sent."""

    delivery: UUID


class DeliveryFailed(RetryAfter):
    """The receiver did not take the delivery; its text says how."""


def register() -> None:
    """Events go to webhooks from now on, in this process."""
    registry.handler(
        Deliver,
        queue=QUEUE,
        max_attempts=len(DELAYS) + 1,
        backoff=Delays(*DELAYS, jitter="none"),
        timeout=sending.TIMEOUT * 4,
        per_key=Limit(AT_ONCE),
        replayable=False,
        internal=True,
        own_keys=f"{KIND}:",
    )(deliver)
    events.subscriber(name=SUBSCRIBER)(subscribe)


def unregister() -> None:
    """Events go to no webhook any more (for tests)."""
    events.unsubscribe(SUBSCRIBER)
    registry.unregister(KIND)


# ---- from events to deliveries

# Shared: a caller that stops the webhook waits, and later deliveries are held back.
_WANTING = r"""
SELECT id, tenant, state = 'active' FROM jobs_webhook
WHERE (tenant = '' OR tenant = %s AND %s = 'tenant')
  AND (cardinality(topics) = 0 OR EXISTS (SELECT 1 FROM unnest(topics) AS t (glob)
    WHERE %s LIKE replace(replace(t.glob, '_', '\_'), '*', '%%')))
ORDER BY id FOR SHARE
"""
_WRITE = """
INSERT INTO jobs_webhookdelivery (id, webhook_id, event_id, topic, key, sequence, data, state,
  job_id, log)
SELECT n.id, n.webhook, %s, %s, n.key, coalesce((SELECT max(d.sequence) FROM jobs_webhookdelivery d
    WHERE d.webhook_id = n.webhook AND d.key = n.key), 0) + 1, %s::jsonb,
  CASE WHEN n.is_active THEN 'waiting' ELSE 'held' END, CASE WHEN n.is_active THEN n.id END, '[]'
FROM unnest(%s::uuid[], %s::uuid[], %s::text[], %s::bool[]) AS n (id, webhook, key, is_active)
ON CONFLICT (webhook_id, event_id) DO NOTHING RETURNING id
"""


def subscribe(event: Event) -> None:
    """There is a delivery of the event for every webhook that wants it."""
    if event.topic.startswith("jobs.job.") and event.payload.get("kind") == KIND:
        return  # what became of a delivery would make another one, for ever
    wanting = sql.rows(_WANTING, [event.tenant, event.audience, event.topic])
    if wanting:
        write(event, wanting)


def write(event: Event, wanting: Sequence[tuple[UUID, str, bool]]) -> list[UUID]:
    """Write the event's deliveries in the caller's transaction, and return their ids.

    ``wanting`` are webhooks with their tenants, and whether each is active: the deliveries of the
    others are held. A webhook that has the event already gets no other one.
    """
    # A key is its tenant's own; a webhook of everybody's gets those of several.
    made = {
        uuid7(): (webhook, tenant, event.key if tenant else key_of(event.tenant, event.key), active)
        for webhook, tenant, active in wanting
    }
    webhooks, _, keys, active = zip(*made.values(), strict=True)
    columns = [list(made), list(webhooks), list(keys), list(active)]
    values = [event.id, event.topic, json.dumps(event.payload), *columns]
    written = [row[0] for row in sql.bound_rows(_WRITE, values)]
    enqueue_many(draft(one, one, *made[one][:3]) for one in written if made[one][3])
    return written


def key_of(tenant: str, key: str) -> str:
    """The key as a webhook of everybody's has it."""
    return f"{tenant}/{key}" if tenant and key else key


def send_later(job: UUID, delivery: UUID, webhook: UUID, tenant: str, key: str) -> None:
    """A job sends the delivery when the surrounding transaction has committed."""
    enqueue_many([draft(job, delivery, webhook, tenant, key)])


def draft(job: UUID, delivery: UUID, webhook: UUID, tenant: str, key: str) -> Draft:
    """The job that sends the delivery."""
    mark = hashlib.sha256(f"{webhook}/{key}".encode()).hexdigest()[:40]
    return Draft(
        Deliver(delivery=delivery),
        job_id=job,
        tenant=tenant,
        exclusive=f"{KIND}:{mark}" if key else "",
        limit_key=str(webhook),
    )


# ---- from deliveries to receivers


def deliver(ctx: Context, payload: Deliver) -> dict[str, object]:
    """The delivery is at its receiver, or is tried again, or waits until its webhook goes on.

    The try is counted before anything is sent. When the process dies afterwards the delivery is
    sent once more, with the same event id.
    """
    parcel = steadily(lambda: sending.begin(payload.delivery, ctx.job_id), ctx.signal)
    if isinstance(parcel, str):
        return {"outcome": parcel}
    ctx.checkpoint()
    answer = sending.send(parcel)
    is_last = ctx.failures + 1 >= ctx.max_attempts

    def record() -> str:
        with transaction.atomic(using=sql.alias()):
            return sending.record(parcel, answer, is_last=is_last)

    outcome = steadily(record, ctx.signal)
    if outcome in ("delivered", "held", "gone"):
        return {"outcome": outcome, "status": answer.status}
    raise DeliveryFailed(answer.retry_after, answer.problem)
