"""Live events, and rows of the audit that no verb writes.

Amounts and ids are the user's own and vouched for: redaction must not alter them.
"""

from __future__ import annotations

from typing import Any

import jobs
from jobs import acts
from trading import metrics
from trading.models import BiasTag, Digest, ImportRun, Trade
from trading.payloads import tenant_of
from trading.permissions import USE


def import_progress(row: ImportRun) -> None:
    """Emit how far an import is."""
    _emit(
        "import.progress", row.user_id,
        {"jobId": str(row.pk), "percent": row.percent, "fetched": row.fetched,
         "stored": row.stored},
    )  # fmt: skip


def reflect(trade: Trade, tag: BiasTag) -> None:
    """Emit the label of a trade."""
    _emit(
        "coach.reflect", trade.user_id,
        {"tradeId": str(trade.pk), "orderId": trade.order_id,
         "labels": [{"name": tag.label, "confidence": float(tag.confidence)}],
         "insight": tag.insight, "sparklines": tag.sparkline, "tone": "supportive"},
    )  # fmt: skip


def digest_ready(row: Digest) -> None:
    """Emit that a digest was written or has changed."""
    period = {"start": row.period_start.isoformat(), "end": row.period_end.isoformat()}
    _emit("digest.ready", row.user_id, {"digestId": str(row.pk), "period": period})


def _emit(topic: str, user: int, payload: dict[str, Any]) -> None:
    tenant = tenant_of(user)
    jobs.emit(topic, jobs.types.Vouched(payload), key=f"trading:{tenant}", tenant=tenant)
    metrics.written.inc()


def audit(action: str, kind: str, id: object, user: int, by: Any = "worker", **note: Any) -> None:
    """Write a row of the audit about something that is no verb."""
    who = acts.principal(by)
    place = acts.Place(tenant_of(user))
    with acts.on(action, kind=kind, id=id, permission=USE, by=who, place=place) as act:
        act.note(**note)
