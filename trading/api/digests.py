"""Weekly digests."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Schema

from trading.api.caller import BASE, missing, section, user_of
from trading.models import (
    Digest,
)


class DigestOut(Schema):
    """A digest of a week."""

    id: UUID
    periodStart: date
    periodEnd: date
    sha256: str
    payload: dict[str, Any]
    deliveredAt: datetime | None


def _digest(row: Digest) -> dict[str, Any]:
    return {"id": row.pk, "periodStart": row.period_start, "periodEnd": row.period_end,
            "sha256": row.sha256, "payload": row.payload,
            "deliveredAt": row.delivered_at}  # fmt: skip


@section.get(f"{BASE}/digests/weekly", "trading_digests", needs="", answer=list[DigestOut])
def digests(request: HttpRequest) -> Any:
    """List the digests of the last half year, newest first."""
    rows = Digest.objects.filter(user_id=user_of(request)).order_by("-period_end")
    return [_digest(row) for row in rows[:30]]


@section.get(f"{BASE}/digests/weekly/latest", "trading_digest_latest", needs="", answer=DigestOut)
def digest_latest(request: HttpRequest) -> Any:
    """Get the newest digest."""
    row = Digest.objects.filter(user_id=user_of(request)).order_by("-period_end").first()
    if row is None:
        raise missing("digest")
    return _digest(row)
