"""Linking accounts: what the venue says of a key or a login is checked before it is stored."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from django.db import IntegrityError, transaction

from jobs import acts
from jobs.flow import MeterFull
from trading import limits, states, venues
from trading.clients import binance, signing
from trading.clients.coinbase_login import Tokens
from trading.clients.venue import Account, Rights
from trading.errors import KeyRefused, Limited, Refused, VenueError
from trading.models import Broker, BrokerConnection
from trading.payloads import tenant_of
from trading.permissions import USE

if TYPE_CHECKING:
    from jobs.acts import By

T = TypeVar("T")
OPEN = (BrokerConnection.Status.ACTIVE, BrokerConnection.Status.PAUSED)
SYMBOLS_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Checked:
    """An account that may be linked."""

    broker: str
    rights: Rights
    account: Account = field(repr=False)
    tokens: Tokens | None = field(default=None, repr=False)


def asked(call: Callable[[], T]) -> T:
    """Return what the venue answers; raise Refused where it does not."""
    try:
        return call()
    except KeyRefused as error:
        raise Refused("KEY_REFUSED" if error.code == "LINK_AGAIN" else error.code) from None
    except Limited as error:
        raise Refused("VENUE_LIMITED", retry_after=error.seconds) from None
    except MeterFull as error:
        raise Refused("VENUE_LIMITED", retry_after=error.delay) from None
    except VenueError as error:
        raise Refused(error.code) from None


def check_key(
    broker: str, key_name: str, secret: str, *, may_trade: bool, symbols: list[str] | None = None
) -> Checked:
    """Ask the venue what a key may do; raise Refused for one that must not be linked.

    ``symbols`` are the markets to read; those that the account suggests unless given. Calls the
    venue: use it outside of transactions.
    """
    check_on(broker)
    if not key_name.strip() or len(key_name) > 300:
        raise Refused("INVALID", "must have 1 to 300 characters", "keyName")
    if not secret.strip() or len(secret) > 4000:
        raise Refused("INVALID", "must have 1 to 4000 characters", "secret")
    if broker == Broker.COINBASE:
        signing.load_key(secret)
    elif not (key_name + secret).strip().isascii():
        raise Refused("KEY_REFUSED", field="secret")
    account = Account(key_name.strip(), secret.strip())
    rights = asked(lambda: venues.of(broker).rights(account))
    _check_rights(rights, may_trade=may_trade)
    if broker == Broker.BINANCE:
        chosen = offered(account) if symbols is None else check_symbols(symbols)
        account = Account(account.name, account.secret, symbols=tuple(chosen))
    return Checked(broker, rights, account)


def check_login(tokens: Tokens) -> Checked:
    """Return the account of a login; raise Refused for one that must not be linked."""
    _check_rights(tokens.rights, may_trade=False)
    return Checked(Broker.COINBASE, tokens.rights, Account(), tokens)


def _check_rights(rights: Rights, *, may_trade: bool) -> None:
    if rights.can_transfer:
        raise Refused("KEY_CAN_TRANSFER")
    if not rights.can_view:
        raise Refused("RIGHTS_MISSING")
    if rights.can_trade and not may_trade:
        raise Refused("KEY_CAN_TRADE", field="mayTrade")


def check_on(broker: str) -> None:
    """Raise Refused if accounts of the venue are not offered here."""
    if not venues.is_on(broker):
        raise Refused("VENUE_OFF", field="broker")


def offered(account: Account) -> list[str]:
    """Return the markets that the account suggests."""

    def ask() -> list[str]:
        limits.binance.take(2 * limits.FILLS_WEIGHT)
        return binance.offered(account)

    return asked(ask)


def check_symbols(symbols: list[str]) -> list[str]:
    """Return the markets in order; raise Refused for any that the venue does not have."""
    if not 0 < len(symbols) <= SYMBOLS_LIMIT:
        raise Refused("INVALID", f"must name 1 to {SYMBOLS_LIMIT} markets", "symbols")

    def ask() -> tuple[list[str], list[str]]:
        limits.binance.take(limits.FILLS_WEIGHT)
        return binance.checked(symbols)

    known, unknown = asked(ask)
    if unknown:
        named = ", ".join(name[:40] for name in unknown[:10])
        raise Refused("INVALID", f"the venue has no market {named}", "symbols")
    return known


def store(user: int, checked: Checked, *, by: By, is_daily: bool = True) -> BrokerConnection:
    """Store a link of an account that was checked."""
    account, tokens = checked.account, checked.tokens
    made = BrokerConnection(
        id=uuid.uuid4(), user_id=user, broker=checked.broker, key_name=account.name or None,
        secret=account.secret or None, symbols=list(account.symbols),
        can_trade=checked.rights.can_trade, is_daily=is_daily,
    )  # fmt: skip
    if tokens is not None:
        made.access_token, made.refresh_token = tokens.access, tokens.refresh
        made.expires_at, made.scope = tokens.expires_at, tokens.scope
    with acts.on(
        "broker_linked", kind="link", id=made.pk, permission=USE, by=by,
        place=acts.Place(tenant_of(user)),
    ) as act:  # fmt: skip
        try:
            with transaction.atomic():
                made.save(force_insert=True)
        except IntegrityError:
            raise Refused(
                "CONFLICT", "an account of this venue is linked; revoke it first"
            ) from None
        act.note(broker=made.broker, can_trade=made.can_trade)
    return made


def choose(user: int, broker: str = "") -> BrokerConnection:
    """Return the user's link to that venue, or the only one; raise Refused."""
    rows = BrokerConnection.objects.filter(user_id=user, status__in=OPEN)
    found = list(rows.filter(broker=broker) if broker else rows)
    if not found:
        if broker:
            raise Refused("NO_LINK", "no account of this venue is linked", "broker")
        raise Refused("NO_LINK")
    if len(found) > 1:
        named = ", ".join(sorted(row.broker for row in found))
        raise Refused("SEVERAL_LINKS", f"name one of the linked accounts: {named}", "broker")
    if found[0].status == BrokerConnection.Status.PAUSED:
        raise Refused("LINK_PAUSED")
    return found[0]


def revoke(row: BrokerConnection, *, by: str, why: str) -> None:
    """Revoke a link and erase its secrets, in the caller's transaction."""
    states.link.move(row, BrokerConnection.Status.REVOKED, by=by, why=why)
    BrokerConnection.objects.filter(pk=row.pk).update(**dict.fromkeys(BrokerConnection.SECRETS))
