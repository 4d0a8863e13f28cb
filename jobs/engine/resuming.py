"""Deliveries that waited for their webhook to go on: sent now, or dropped."""

from __future__ import annotations

from uuid import UUID

from jobs.engine import sql
from jobs.engine.intake import enqueue_many
from jobs.engine.webhooks import draft
from jobs.ids import uuid7

PORTION = 1000

_HELD = """
SELECT id, key FROM jobs_webhookdelivery WHERE webhook_id = %s AND state = 'held'
ORDER BY id LIMIT %s FOR NO KEY UPDATE
"""
_RELEASE = """
UPDATE jobs_webhookdelivery d SET state = 'waiting', job_id = t.job
FROM unnest(%s::uuid[], %s::uuid[]) AS t(id, job) WHERE d.id = t.id
"""
_DROP = """
UPDATE jobs_webhookdelivery SET state = 'dropped', closed_at = jobs_clock()
WHERE webhook_id = %s AND state = 'held'
"""


def release(webhook: UUID, tenant: str) -> int:
    """Every held delivery has a job again, in the caller's transaction; answers how many."""
    total = 0
    while found := sql.rows(_HELD, [webhook, PORTION]):
        drafts = [draft(uuid7(), delivery, webhook, tenant, key) for delivery, key in found]
        ids = [delivery for delivery, _ in found]
        sql.run(_RELEASE, [ids, enqueue_many(drafts)])
        total += len(found)
    return total


def drop(webhook: UUID) -> int:
    """No held delivery is ever sent; answers how many there were."""
    return sql.run(_DROP, [webhook])
