"""Comparisons of a trade with holding."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema, Status

from jobs.api import In
from trading import queries, services, verbs
from trading.api.caller import BASE, answered, missing, oneself, section, user_of
from trading.api.trades import SYMBOL
from trading.errors import Refused
from trading.models import Simulation, Trade
from trading.money import text


class SimulateIn(In):
    """A trade to compare with holding: by its id, or the newest one of a symbol."""

    tradeId: str | None = Field(None, pattern=r"^[1-9][0-9]{0,17}$")
    symbol: str | None = Field(None, pattern=SYMBOL)
    horizonDays: int = Field(7, ge=1, le=30)


class SimulationOut(Schema):
    """A comparison: amounts in the quote currency, as text."""

    tradeId: str
    horizonDays: int
    status: Literal["fresh", "stale", "pending", "failed"]
    hold: str | None
    actual: str | None
    delta: str | None
    partial: bool
    until: datetime | None
    freshUntil: datetime | None
    source: str
    """Who has named the prices: the venue, or the vendor."""
    error: str
    jobId: UUID | None
    curves: list[list[str]]


def _simulation(row: Simulation, *, is_fresh: bool) -> dict[str, Any]:
    stale = "stale" if row.fresh_until else ("failed" if row.error else "pending")
    amounts = {name: getattr(row, name) for name in ("hold", "actual", "delta")}
    return {
        "tradeId": str(row.trade_id), "horizonDays": row.horizon_days,
        "status": "fresh" if is_fresh else stale, "partial": row.is_partial, "until": row.until,
        "freshUntil": row.fresh_until, "source": row.source, "error": row.error,
        "jobId": row.job_id, "curves": row.curves,
        **{name: None if value is None else text(value) for name, value in amounts.items()},
    }  # fmt: skip


@section.post(f"{BASE}/simulations/simple", "trading_simulate", needs="",
    answer={200: SimulationOut, 202: SimulationOut}, needs_key=True, rate="10/m",
    verb="trade.simulate",
)  # fmt: skip
def simulate(request: HttpRequest, response: HttpResponse, body: SimulateIn) -> Any:
    user = user_of(request)

    def run() -> services.Simulated:
        trade_id = _trade(user, body)
        verbs.simulate(trade_id, by=oneself(request), days=body.horizonDays)
        return services.simulate(user, trade_id, body.horizonDays)

    found: services.Simulated = answered(run)
    shown = _simulation(found.row, is_fresh=found.is_fresh)
    if found.is_fresh:
        return Status(200, shown)
    path = request.path.removesuffix("/simulations/simple")
    response["Location"] = f"{path}/simulations/{found.row.trade_id}/{body.horizonDays}"
    return Status(202, shown)


def _trade(user: int, body: SimulateIn) -> int:
    if (body.tradeId is None) == (body.symbol is None):
        raise Refused("INVALID", "name either a trade or a symbol", "tradeId")
    if body.tradeId is not None:
        return int(body.tradeId)
    rows = Trade.objects.filter(user_id=user, is_counted=True, symbol=body.symbol)
    found = rows.order_by("-ts", "-id").values_list("pk", flat=True).first()
    if found is None:
        raise Refused("NOT_FOUND", "there is no trade of this symbol", "symbol")
    return found


@section.get(f"{BASE}/simulations/{{int:trade_id}}/{{int:days}}", "trading_simulation", needs="",
    answer=SimulationOut,
)  # fmt: skip
def simulation_get(request: HttpRequest, trade_id: int, days: int) -> Any:
    """Get a comparison."""
    if trade_id >= 2**63 or days > 30:
        raise missing("comparison")
    rows = Simulation.objects.filter(user_id=user_of(request), horizon_days=days)
    row = rows.filter(trade_id=trade_id).first()
    if row is None:
        raise missing("comparison")
    is_fresh = row.fresh_until is not None and row.fresh_until > queries.now()
    return _simulation(row, is_fresh=is_fresh)
