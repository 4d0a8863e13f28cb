"""What people should know about a brand: tokens that expire, posts that failed, empty channels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from publisher.clock import now
from publisher.models import Account, Publication, Refusal

Kind = Literal["needs_reconnect", "client_refused", "token_expires", "failed", "nothing_planned"]
Period = Literal["daily", "weekly"]
AHEAD = timedelta(days=7)
_UNUSUAL = (Publication.Reason.CANCELLED, "")


@dataclass(frozen=True, slots=True)
class Alert:
    """Something about an account, or about the posts of a channel."""

    kind: Kind
    brand: str
    channel: str
    account: UUID
    name: str
    count: int = 0
    """How many posts have failed."""


def daily(accounts: QuerySet[Account]) -> list[Alert]:
    """Return accounts whose posts wait, tokens that expire and posts that failed in seven days."""
    moment = now()
    failed = Count(
        "publications",
        Q(publications__status="failed", publications__ended_at__gte=moment - AHEAD)
        & ~Q(publications__reason__in=_UNUSUAL),
    )
    refused = set(Refusal.objects.values_list("channel", flat=True))
    found = []
    for row in _open(accounts).annotate(failed=failed):
        if row.channel in refused:
            found.append(_alert("client_refused", row))
        if row.status == Account.Status.NEEDS_RECONNECT:
            found.append(_alert("needs_reconnect", row))
        elif not row.refresh_token and row.expires_at and row.expires_at <= moment + AHEAD:
            found.append(_alert("token_expires", row))
        if row.failed:
            found.append(_alert("failed", row, row.failed))
    return found


def weekly(accounts: QuerySet[Account]) -> list[Alert]:
    """Return accounts on which nothing is planned within the next seven days."""
    moment = now()
    planned = Publication.objects.filter(
        account=OuterRef("pk"), status__in=["pending", "running"],
        scheduled_at__lte=moment + AHEAD,
    )  # fmt: skip
    return [_alert("nothing_planned", row) for row in _open(accounts).filter(~Exists(planned))]


def of(period: Period, accounts: QuerySet[Account]) -> list[Alert]:
    """Return the alerts of a period."""
    return daily(accounts) if period == "daily" else weekly(accounts)


def _open(accounts: QuerySet[Account]) -> QuerySet[Account]:
    rows = accounts.exclude(status=Account.Status.DISABLED).select_related("brand")
    return rows.order_by("brand__slug", "channel", "name")


def _alert(kind: Kind, row: Account, count: int = 0) -> Alert:
    return Alert(kind, row.brand.slug, row.channel, row.pk, row.name, count)
