"""Comparing a trade with holding: hourly curves over some days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NoReturn

from django.db import transaction

import jobs
from jobs.flow import MeterFull
from trading import ledger, market
from trading.clock import HOUR, hour_of, now
from trading.config import FRESH
from trading.errors import VenueAway, VenueError
from trading.models import Side, Simulation, Trade
from trading.money import ZERO, add, divide, less, product, rounded, text, total
from trading.payloads import SimJob, tenant_of


class Failed(jobs.JobsError):
    """The attempt has failed and may be repeated; names a code."""


@dataclass(frozen=True, slots=True)
class Point:
    """Both results at the close of an hour."""

    at: datetime
    hold: Decimal
    actual: Decimal


def run(ctx: jobs.Context, payload: SimJob) -> dict[str, Any]:
    """Compute the curves and store them; return ids and totals only."""
    if ctx.tenant != tenant_of(payload.userId):
        raise jobs.Unrecoverable("NOT_YOURS")
    asked = {
        "user_id": payload.userId, "trade_id": payload.tradeId,
        "horizon_days": payload.horizonDays,
    }  # fmt: skip
    trade = Trade.objects.filter(pk=payload.tradeId, user_id=payload.userId).first()
    row = Simulation.objects.filter(**asked).first()
    if trade is None or row is None:
        raise jobs.Unrecoverable("NOT_FOUND")
    if not trade.is_counted:
        _give_up(ctx, row, "NOT_COUNTED")
    moment = now()
    ctx.progress(1, 5, "CACHE_CHECK")
    if row.fresh_until is not None and row.fresh_until > moment:
        ctx.progress(5, 5, "RETURN")
        return _result(row)
    end = trade.ts + timedelta(days=payload.horizonDays)
    try:
        ctx.progress(2, 5, "FETCH")
        source, rows = market.prices(trade.broker, trade.symbol, hour_of(trade.ts), end)
    except MeterFull:
        _note(ctx, row, "VENUE_LIMITED")
        ctx.progress(2, 5, "RETRY")
        raise
    except VenueAway as error:
        _note(ctx, row, error.code)
        ctx.progress(2, 5, "RETRY")
        raise Failed(error.code) from None
    except VenueError as error:
        _give_up(ctx, row, error.code)
    ctx.progress(3, 5, "BUILD_CURVES")
    with ctx.span("sim.run", trade=trade.pk):
        of_market = Trade.objects.filter(
            user_id=trade.user_id, broker=trade.broker, symbol=trade.symbol
        )
        points = curves(trade, list(of_market), rows, end)
    ctx.progress(4, 5, "CACHE_SET")
    row.source = source
    _store(ctx, row, points, end, moment)
    ctx.progress(5, 5, "RETURN")
    return _result(row)


def _note(ctx: jobs.Context, row: Simulation, code: str) -> None:
    with transaction.atomic():
        ctx.fence()
        Simulation.objects.filter(pk=row.pk).update(error=code)


def _give_up(ctx: jobs.Context, row: Simulation, code: str) -> NoReturn:
    _note(ctx, row, code)
    raise jobs.Unrecoverable(code)


def _store(
    ctx: jobs.Context, row: Simulation, points: list[Point], end: datetime, moment: datetime
) -> None:
    row.curves = [[point.at.isoformat(), text(point.hold), text(point.actual)] for point in points]
    row.is_partial = not points or points[-1].at + HOUR <= min(end, moment) or end > moment
    row.until = points[-1].at if points else None
    row.hold = points[-1].hold if points else None
    row.actual = points[-1].actual if points else None
    row.delta = less(points[-1].hold, points[-1].actual) if points else None
    row.fresh_until, row.error = moment + FRESH, ""
    with transaction.atomic():
        ctx.fence()
        # One comparison of a trade and its days is kept: by whom its prices are, it says.
        of_trade = Simulation.objects.filter(trade_id=row.trade_id, horizon_days=row.horizon_days)
        of_trade.exclude(pk=row.pk).delete()
        row.save(force_update=True)


def _result(row: Simulation) -> dict[str, Any]:
    return {
        "simulationId": str(row.pk), "isPartial": row.is_partial,
        "delta": None if row.delta is None else text(row.delta),
    }  # fmt: skip


def curves(trade: Trade, trades: list[Trade], rows: list[market.Row], end: datetime) -> list[Point]:
    """Return both results at the close of each hour between the trade and the end.

    ``trades`` are all of the same user, venue and symbol.
    """
    build = _of_buy if trade.side == Side.BUY else _of_sale
    pieces = build(trade, trades)
    found = []
    for row in rows:
        at = datetime.fromtimestamp(row[0], UTC) + HOUR
        if trade.ts < at <= end:
            hold, actual = pieces(at, row[4])
            found.append(Point(at, rounded(hold), rounded(actual)))
    return found


def _of_buy(trade: Trade, trades: list[Trade]) -> Any:
    """A BUY of q at p brings a: hold = aC - qp - fee; sales that FIFO takes from it are actual."""
    sold = [piece for piece in ledger.match(trades).pieces if piece.buy.pk == trade.pk]
    size, cost = ledger.received(trade), ledger.paid(trade)

    def at(moment: datetime, close: Decimal) -> tuple[Decimal, Decimal]:
        hold = less(product(size, close), cost)
        until = [piece for piece in sold if piece.sell.ts <= moment]
        proceeds = total(piece.proceeds for piece in until)
        left = less(size, total(piece.qty for piece in until))
        return hold, less(add(proceeds, product(left, close)), cost)

    return at


def _of_sale(trade: Trade, trades: list[Trade]) -> Any:
    """A SELL of q at p: hold = q(C - p); what was bought back later, at unit cost u, is actual."""
    back = [(buy, part) for sale, buy, part in ledger.rebuys(trades) if sale.pk == trade.pk]
    fee = ledger.fee_in(trade, trade.quote)

    def at(moment: datetime, close: Decimal) -> tuple[Decimal, Decimal]:
        hold = product(trade.qty, less(close, trade.price))
        actual = less(ZERO, fee)
        for buy, part in back:
            if buy.ts <= moment:
                unit = divide(ledger.paid(buy), ledger.received(buy))
                actual = add(actual, product(part, less(close, unit)))
        return hold, actual

    return at
