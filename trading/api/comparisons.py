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
from trading.models import (
    Simulation,
)
from trading.money import text


class SimulateIn(In):
    """A trade to compare with holding."""

    tradeId: str = Field(pattern=r"^[1-9][0-9]{0,17}$")
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
    error: str
    jobId: UUID | None
    curves: list[list[str]]


def _simulation(row: Simulation, *, is_fresh: bool) -> dict[str, Any]:
    stale = "stale" if row.fresh_until else ("failed" if row.error else "pending")
    amounts = {name: getattr(row, name) for name in ("hold", "actual", "delta")}
    return {
        "tradeId": str(row.trade_id), "horizonDays": row.horizon_days,
        "status": "fresh" if is_fresh else stale, "partial": row.is_partial, "until": row.until,
        "freshUntil": row.fresh_until, "error": row.error, "jobId": row.job_id,
        "curves": row.curves,
        **{name: None if value is None else text(value) for name, value in amounts.items()},
    }  # fmt: skip


@section.post(f"{BASE}/simulations/simple", "trading_simulate", needs="",
    answer={200: SimulationOut, 202: SimulationOut}, needs_key=True, rate="10/m",
    verb="trade.simulate",
)  # fmt: skip
def simulate(request: HttpRequest, response: HttpResponse, body: SimulateIn) -> Any:
    user = user_of(request)
    trade_id = int(body.tradeId)

    def run() -> services.Simulated:
        verbs.simulate(trade_id, by=oneself(request), days=body.horizonDays)
        return services.simulate(user, trade_id, body.horizonDays)

    found: services.Simulated = answered(run)
    shown = _simulation(found.row, is_fresh=found.is_fresh)
    if found.is_fresh:
        return Status(200, shown)
    path = request.path.removesuffix("/simulations/simple")
    response["Location"] = f"{path}/simulations/{trade_id}/{body.horizonDays}"
    return Status(202, shown)


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
