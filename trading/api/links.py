"""Linked accounts: list, link, and act on one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Schema, Status

from jobs.api import In, prepared
from trading import links as accounts
from trading import logins, venues, verbs
from trading.api.caller import BASE, answered, missing, oneself, section, user_of
from trading.models import Broker, BrokerConnection

Symbol = Annotated[str, Field(min_length=2, max_length=41)]


class LinkOut(Schema):
    """A linked account, without its key."""

    id: UUID
    broker: str
    status: Literal["active", "paused", "revoked"]
    mayTrade: bool
    login: bool
    """Linked by logging in at the venue, not by a key."""
    daily: bool
    symbols: list[str]
    """Markets that are read, where the venue has to be asked for each."""
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


class BinanceIn(LinkIn):
    """An account to link, by an API key of Binance with HMAC: its key and its secret."""

    symbols: list[Symbol] | None = Field(None, min_length=1, max_length=100)
    """Markets to read, such as BTC-USDT; those of what the account holds by default."""


class LoginIn(In):
    """How the account is to be linked."""

    daily: bool = True


class LoginOut(Schema):
    """Where the user logs in; Coinbase sends them back within ten minutes."""

    url: str


class SymbolsIn(In):
    """Markets to read."""

    symbols: list[Symbol] = Field(min_length=1, max_length=100)


class SymbolsOut(Schema):
    """The markets that are read, and those that the account suggests."""

    symbols: list[str]
    offered: list[str]


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
        "login": bool(row.scope), "daily": row.is_daily, "symbols": row.symbols,
        "error": row.error, "linkedAt": row.created_at,
        "importedAt": row.imported_at,
    }  # fmt: skip


@section.get(f"{BASE}/brokers", "trading_links", needs="", answer=list[LinkOut])
def links(request: HttpRequest) -> Any:
    """List the linked accounts."""
    rows = BrokerConnection.objects.filter(user_id=user_of(request)).order_by("-created_at")
    return [_link(row) for row in rows.defer(*BrokerConnection.SECRETS)[:100]]


def _check_key(broker: Broker) -> Any:
    def check(request: HttpRequest, body: LinkIn) -> Any:
        user_of(request)
        symbols = body.symbols if isinstance(body, BinanceIn) else None
        return answered(
            lambda: accounts.check_key(
                broker, body.keyName, body.secret, may_trade=body.mayTrade, symbols=symbols
            )
        )

    return check


def _store(request: HttpRequest, body: LinkIn) -> Any:
    user, checked = user_of(request), prepared(request)
    made = answered(lambda: accounts.store(user, checked, by=oneself(request), is_daily=body.daily))
    return Status(201, _link(BrokerConnection.objects.get(pk=made.pk)))


@section.post(f"{BASE}/brokers/coinbase/connect", "trading_connect", needs="",
    answer={201: LinkOut}, before=_check_key(Broker.COINBASE), rate="10/m",
)  # fmt: skip
def connect(request: HttpRequest, body: LinkIn) -> Any:
    """Link a Coinbase account by its key."""
    return _store(request, body)


@section.post(f"{BASE}/brokers/binance/connect", "trading_connect_binance", needs="",
    answer={201: LinkOut}, before=_check_key(Broker.BINANCE), rate="10/m",
)  # fmt: skip
def connect_binance(request: HttpRequest, body: BinanceIn) -> Any:
    """Link a Binance account by its key, where FEATURE_BINANCE is on."""
    return _store(request, body)


@section.post(f"{BASE}/brokers/coinbase/connect/start", "trading_login", needs="",
    answer=LoginOut, rate="10/m",
)  # fmt: skip
def login(request: HttpRequest, body: LoginIn) -> Any:
    """Begin to link a Coinbase account by logging in there; for the session of a browser."""
    user = user_of(request)
    return {"url": answered(lambda: logins.begin(request, user, is_daily=body.daily))}


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


def _offered(request: HttpRequest, link_id: UUID) -> list[str]:
    row = BrokerConnection.objects.filter(pk=link_id, user_id=user_of(request)).first()
    if row is None:
        raise missing("link")
    if row.broker != Broker.BINANCE or row.status not in accounts.OPEN:
        return []
    return list(answered(lambda: accounts.offered(venues.account_of(row))))


@section.get(f"{BASE}/brokers/{{uuid:link_id}}/symbols", "trading_link_symbols", needs="",
    answer=SymbolsOut, before=_offered, rate="10/m",
)  # fmt: skip
def link_symbols(request: HttpRequest, link_id: UUID) -> Any:
    """List the markets that are read, and those that a Binance account suggests."""
    row = BrokerConnection.objects.get(pk=link_id)
    return {"symbols": row.symbols, "offered": prepared(request)}


def _set_symbols(request: HttpRequest, link_id: UUID, body: SymbolsIn) -> Any:
    return answered(lambda: verbs.set_symbols(link_id, body.symbols, by=oneself(request)))


@section.post(f"{BASE}/brokers/{{uuid:link_id}}/symbols", "trading_link_set_symbols", needs="",
    verb="link.set_symbols", answer=LinkOut, before=_set_symbols, rate="10/m",
)  # fmt: skip
def link_set_symbols(request: HttpRequest, link_id: UUID, body: SymbolsIn) -> Any:
    return _link(BrokerConnection.objects.get(pk=link_id))
