"""Linked accounts: list, link, and act on one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Schema, Status

from jobs.api import In, prepared
from trading import services, verbs
from trading.api.caller import BASE, answered, oneself, section, user_of
from trading.models import (
    BrokerConnection,
)


class LinkOut(Schema):
    """A linked account, without its key."""

    id: UUID
    broker: str
    status: Literal["active", "paused", "revoked"]
    mayTrade: bool
    daily: bool
    error: str
    linkedAt: datetime
    importedAt: datetime | None


class LinkIn(In):
    """An account to link, by a key of Coinbase's Developer Platform."""

    keyName: str = Field(min_length=1, max_length=300)
    secret: str = Field(min_length=1, max_length=4000, json_schema_extra={"format": "password"})
    mayTrade: bool = False
    """Link the key even if it may trade; the app never does."""
    daily: bool = True


class ReasonIn(In):
    """Why, for the audit."""

    reason: str = Field("", max_length=500)


class DailyIn(In):
    """Whether new fills are imported every day."""

    daily: bool


class TestOut(Schema):
    """What the key may do."""

    rights: str


def _link(row: BrokerConnection) -> dict[str, Any]:
    return {
        "id": row.pk, "broker": row.broker, "status": row.status, "mayTrade": row.can_trade,
        "daily": row.is_daily, "error": row.error, "linkedAt": row.created_at,
        "importedAt": row.imported_at,
    }  # fmt: skip


@section.get(f"{BASE}/brokers", "trading_links", needs="", answer=list[LinkOut])
def links(request: HttpRequest) -> Any:
    """List the linked accounts."""
    rows = BrokerConnection.objects.filter(user_id=user_of(request)).order_by("-created_at")
    return [_link(row) for row in rows.defer("key_name", "secret")[:100]]


def _read_rights(request: HttpRequest, body: LinkIn) -> Any:
    user_of(request)
    return answered(
        lambda: services.read_rights(body.keyName, body.secret, may_trade=body.mayTrade)
    )


@section.post(f"{BASE}/brokers/coinbase/connect", "trading_connect", needs="",
    answer={201: LinkOut}, before=_read_rights, rate="10/m",
)  # fmt: skip
def connect(request: HttpRequest, body: LinkIn) -> Any:
    """Link a Coinbase account by its key."""
    made = answered(
        lambda: services.link(
            user_of(request), body.keyName, body.secret, prepared(request), by=oneself(request),
            is_daily=body.daily,
        )
    )  # fmt: skip
    return Status(201, _link(BrokerConnection.objects.get(pk=made.pk)))


def _link_verb(name: str, act: Any) -> None:
    def run(request: HttpRequest, link_id: UUID, body: ReasonIn) -> Any:
        answered(lambda: act(link_id, by=oneself(request), reason=body.reason))
        return _link(BrokerConnection.objects.get(pk=link_id))

    run.__doc__ = None
    section.post(
        f"{BASE}/brokers/{{uuid:link_id}}/{name}", f"trading_link_{name}", needs="",
        verb=f"link.{name}", answer=LinkOut,
    )(run)  # fmt: skip


_link_verb("pause", verbs.pause)
_link_verb("resume", verbs.resume)
_link_verb("revoke", verbs.revoke)


@section.post(f"{BASE}/brokers/{{uuid:link_id}}/daily", "trading_link_daily", needs="",
    verb="link.set_daily", answer=LinkOut,
)  # fmt: skip
def link_daily(request: HttpRequest, link_id: UUID, body: DailyIn) -> Any:
    answered(lambda: verbs.set_daily(link_id, by=oneself(request), daily=body.daily))
    return _link(BrokerConnection.objects.get(pk=link_id))


def _test(request: HttpRequest, link_id: UUID) -> str:
    found: str = answered(lambda: verbs.test(link_id, by=oneself(request)))
    return found


@section.post(f"{BASE}/brokers/{{uuid:link_id}}/test", "trading_link_test", needs="",
    verb="link.test", answer=TestOut, before=_test, rate="10/m",
)  # fmt: skip
def link_test(request: HttpRequest, link_id: UUID) -> Any:
    return {"rights": prepared(request)}
