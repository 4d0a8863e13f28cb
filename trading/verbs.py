"""Verbs on links, trades, traders and rules, for the admin, the API and the command line."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from pydantic import Field

import jobs
from jobs.verbs import By, Place, Target, acting, verb
from trading import erasing, events, links, rules, services, states, venues
from trading.clients.venue import Rights
from trading.clock import now
from trading.errors import Refused
from trading.models import Broker, BrokerConnection, Rule, Trade
from trading.payloads import tenant_of
from trading.permissions import USE

Since = Annotated[datetime | None, Field(description="the first moment, such as 2030-01-31T00:00Z")]


def _place_of(model: Any, kind: str) -> Any:
    def find(target: Any) -> Place:
        user = model.objects.filter(pk=target).values_list("user_id", flat=True).first()
        if user is None:
            raise jobs.errors.UnknownTarget(kind, target)
        return Place(tenant_of(user))

    return find


def _place_of_trader(target: Any) -> Place:
    if not get_user_model().objects.filter(pk=target).exists():
        raise jobs.errors.UnknownTarget("trader", target)
    return Place(tenant_of(target))


LINK = Target("link", UUID, "links", find=_place_of(BrokerConnection, "link"),
              rows=BrokerConnection.objects.all)  # fmt: skip
TRADE = Target("trade", int, "trades", find=_place_of(Trade, "trade"), rows=Trade.objects.all)
TRADER = Target("trader", int, "traders", find=_place_of_trader)
RULE = Target("rule", UUID, "rules", find=_place_of(Rule, "rule"), rows=Rule.objects.all)


@verb("link.import", on=LINK, permission=USE)
def import_fills(link_id: UUID, *, by: By, reason: str = "", since: Since = None) -> UUID:
    """Import the fills of the last 30 days, or since a moment."""
    with acting(import_fills, link_id, by=by, reason=reason) as act:
        row = LINK.locked(link_id)
        _check_active(row)
        job_id = services.start_import(row, since, by=by)
        act.note(job=str(job_id))
    return job_id


def _check_active(row: BrokerConnection) -> None:
    if row.status != BrokerConnection.Status.ACTIVE:
        is_paused = row.status == BrokerConnection.Status.PAUSED
        raise Refused("LINK_PAUSED" if is_paused else "LINK_REVOKED")


@verb("link.pause", on=LINK, permission=USE)
def pause(link_id: UUID, *, by: By, reason: str = "") -> None:
    """Pause a link: nothing is imported, and a running import ends before its next page."""
    _move(pause, link_id, BrokerConnection.Status.PAUSED, by, reason)


@verb("link.resume", on=LINK, permission=USE)
def resume(link_id: UUID, *, by: By, reason: str = "") -> None:
    """Resume a paused link."""
    _move(resume, link_id, BrokerConnection.Status.ACTIVE, by, reason)


@verb("link.revoke", on=LINK, permission=USE)
def revoke(link_id: UUID, *, by: By, reason: str = "") -> None:
    """Revoke a link for ever and erase its key; the trades stay."""
    _move(revoke, link_id, BrokerConnection.Status.REVOKED, by, reason)


def _move(function: Any, link_id: UUID, to: str, by: By, reason: str) -> None:
    with acting(function, link_id, by=by, reason=reason) as act:
        row = LINK.locked(link_id)
        act.changed({"status": row.status}, {"status": to})
        if not states.link.may(row, to):
            raise Refused("CONFLICT", f"it is {row.get_status_display()}")
        if to == BrokerConnection.Status.REVOKED:
            links.revoke(row, by=act.name, why=act.reason)
        else:
            states.link.move(row, to, by=act.name, why=act.reason, error="")


@verb("link.set_daily", on=LINK, permission=USE)
def set_daily(
    link_id: UUID,
    *,
    by: By,
    daily: Annotated[bool, Field(description="whether new fills are imported every day")] = True,
) -> None:
    """Turn the daily import of a link on or off."""
    with acting(set_daily, link_id, by=by) as act:
        row = LINK.locked(link_id)
        act.changed({"daily": row.is_daily}, {"daily": daily})
        BrokerConnection.objects.filter(pk=link_id).update(is_daily=daily)


@verb("link.test", on=LINK, permission=USE)
def test(link_id: UUID, *, by: By) -> str:
    """Ask the venue whether it takes the key of a link, and what the key may do."""
    with acting(test, link_id, by=by):
        row = LINK.locked(link_id)
        _check_active(row)
    found = _rights(row)
    BrokerConnection.objects.filter(pk=link_id).update(can_trade=found.can_trade)
    if found.can_transfer:
        raise Refused("KEY_CAN_TRANSFER")
    if not found.can_view:
        raise Refused("RIGHTS_MISSING")
    return "may read and trade" if found.can_trade else "may read only"


def _rights(row: BrokerConnection) -> Rights:
    links.check_on(row.broker)

    def ask() -> Rights:
        if row.refresh_token:  # a login has its rights for ever: that it is good is asked
            venues.check_login(row)
            return Rights(can_view=True, can_trade=row.can_trade, can_transfer=False)
        return venues.of(row.broker).rights(venues.account_of(row))

    return links.asked(ask)


@verb("link.set_symbols", on=LINK, permission=USE)
def set_symbols(
    link_id: UUID,
    symbols: Annotated[list[str], Field(description="markets such as BTC-USDT")],
    *,
    by: By,
) -> list[str]:
    """Set the markets of a link to Binance; new ones are read from the next import on."""
    with acting(set_symbols, link_id, by=by) as act:
        row = LINK.locked(link_id)
        if row.status == BrokerConnection.Status.REVOKED:
            raise Refused("LINK_REVOKED")
        if row.broker != Broker.BINANCE:
            raise Refused("NO_MARKETS")
        act.note(symbols=symbols)
    chosen = links.check_symbols(symbols)
    BrokerConnection.objects.filter(pk=link_id).update(symbols=chosen, reread_at=None)
    return chosen


@verb("trade.simulate", on=TRADE, permission=USE)
def simulate(
    trade_id: int,
    *,
    by: By,
    days: Annotated[int, Field(ge=1, le=30, description="days after the trade")] = 7,
) -> UUID | None:
    """Compare a trade with holding; return the job if the comparison has to be computed."""
    with acting(simulate, trade_id, by=by) as act:
        user = TRADE.locked(trade_id).user_id
        found = services.simulate(user, trade_id, days)
        act.note(days=days)
    return found.job_id


@verb("trader.rescore", on=TRADER, permission=USE)
def rescore(trader_id: int, *, by: By, reason: str = "", since: Since = None) -> UUID:
    """Label the trades of a user again; only changes are published."""
    with acting(rescore, trader_id, by=by, reason=reason) as act:
        job_id = services.rescore(trader_id, since)
        act.note(job=str(job_id))
    return job_id


@verb("trader.erase", on=TRADER, permission=USE, group="administrator")
def erase(trader_id: int, *, by: By, reason: str) -> dict[str, Any]:
    """Delete all links, trades, labels, rules and digests of a user."""
    with acting(erase, trader_id, by=by, reason=reason) as act:
        counted = erasing.erase(trader_id)
        act.note(deleted=counted)
    return counted


@verb("rule.upsert", on=TRADER, permission=USE)
def upsert_rule(
    trader_id: int,
    kind: Annotated[Literal["avoidSpikeOverPct", "minHoldHours"], Field(description="which rule")],
    *,
    by: By,
    params: Annotated[dict[str, Any], Field(description="its parameters")] = {},  # noqa: B006
    active: Annotated[bool, Field(description="whether it is checked")] = True,
) -> Rule:
    """Set a rule of a user, and check all trades against it again."""
    with acting(upsert_rule, trader_id, by=by) as act:
        found = rules.checked(kind, params)
        with transaction.atomic():
            row, _ = Rule.objects.update_or_create(
                user_id=trader_id, kind=kind,
                defaults={"params": found, "is_active": active, "updated_at": now()},
            )  # fmt: skip
            if Trade.objects.filter(user_id=trader_id).exists():
                services.rescore(trader_id)
            events.audit("rule_upsert", "rule", row.pk, trader_id, by=by, rule=kind, params=found)
        act.note(kind=kind, params=found, active=active)
    return row
