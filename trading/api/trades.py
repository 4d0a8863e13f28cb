"""Trades and their labels, and the export."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema
from pydantic import AwareDatetime

from jobs.api import paging
from trading import queries
from trading.api.caller import BASE, missing, section, user_of
from trading.models import (
    BiasTag,
    Trade,
)
from trading.money import text

SYMBOL = r"^[A-Z0-9]{1,20}-[A-Z0-9]{1,20}$"


class TradeOut(Schema):
    """A fill; amounts are decimals as text."""

    id: str
    broker: str
    extId: str
    orderId: str
    symbol: str
    side: Literal["BUY", "SELL"]
    qty: str
    price: str
    fee: str
    feeAsset: str
    ts: datetime
    label: str | None
    confidence: float | None
    rulesBroken: list[str]


class TradePage(Schema):
    """A page of trades, newest first."""

    data: list[TradeOut]
    page: paging.PageOut


class TradeFilters(Schema):
    """Filters of trades."""

    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    """Exclusive."""
    symbol: str | None = Field(None, pattern=SYMBOL)
    side: Literal["BUY", "SELL"] | None = None
    label: Literal["FOMO", "PANIC", "DISCIPLINE", "NEUTRAL"] | None = None
    rule: Literal["avoidSpikeOverPct", "minHoldHours"] | None = None
    """Only trades that broke this rule."""


class BiasOut(Schema):
    """The label of a trade."""

    tradeId: str
    label: str
    confidence: float
    features: dict[str, Any]
    insight: str
    sparkline: list[float]
    source: Literal["ai", "heuristics"]
    rulesVersion: str
    taggedAt: datetime
    rulesBroken: dict[str, str]


def _trade(row: Any) -> dict[str, Any]:
    tag = row.current[0] if row.current else None
    return {
        "id": str(row.pk), "broker": row.broker, "extId": row.ext_id, "orderId": row.order_id,
        "symbol": row.symbol, "side": row.side, "qty": text(row.qty), "price": text(row.price),
        "fee": text(row.fee), "feeAsset": row.fee_asset, "ts": row.ts,
        "label": tag.label if tag else None, "confidence": float(tag.confidence) if tag else None,
        "rulesBroken": sorted(one.kind for one in row.breaks.all()),
    }  # fmt: skip


def _rows(request: HttpRequest, filters: TradeFilters) -> QuerySet[Trade]:
    rows = Trade.objects.filter(user_id=user_of(request), is_counted=True)
    return queries.with_labels(queries.narrowed(rows, **filters.model_dump()))


@section.get(f"{BASE}/trades", "trading_trades", needs="", answer=TradePage)
def trades(
    request: HttpRequest, response: HttpResponse, filters: Query[TradeFilters],
    wanted: Query[paging.PageIn],
) -> Any:  # fmt: skip
    """List trades, newest first."""
    asked = filters.model_dump(exclude_none=True)
    found = paging.page(
        request, response, _rows(request, filters), wanted, moment="ts", filters=asked
    )
    return {**found, "data": [_trade(row) for row in found["data"]]}


@section.get(f"{BASE}/trades.csv", "trading_trades_csv", needs="",
    extra={"responses": {200: {"description": "CSV", "content": {"text/csv": {}}}}},
)  # fmt: skip
def trades_csv(request: HttpRequest, filters: Query[TradeFilters]) -> Any:
    """Export trades as CSV, oldest first."""
    return as_csv(_rows(request, filters))


def as_csv(rows: QuerySet[Trade]) -> HttpResponse:
    """Return the export of rows that were loaded with their labels."""
    lines = csv_lines(_trade(row) for row in rows.order_by("ts", "id").iterator(chunk_size=2000))
    answer = HttpResponse("".join(lines), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="trades.csv"'
    answer["Cache-Control"] = "no-store"
    return answer


_CSV = (
    "id", "ts", "broker", "symbol", "side", "qty", "price", "fee", "feeAsset", "orderId", "label",
    "confidence", "rulesBroken",
)  # fmt: skip


class _Line:
    def write(self, value: str) -> str:
        return value


def csv_lines(found: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the export; no cell begins like a formula."""
    writer = csv.writer(_Line())
    yield writer.writerow(_CSV)
    for one in found:
        cells = {**one, "rulesBroken": " ".join(one["rulesBroken"]), "ts": one["ts"].isoformat()}
        yield writer.writerow([_harmless(cells[name]) for name in _CSV])


def _harmless(value: Any) -> str:
    shown = "" if value is None else str(value)
    return f"'{shown}" if shown[:1] in ("=", "+", "-", "@", "\t", "\r") else shown


@section.get(f"{BASE}/trades/{{int:trade_id}}/bias", "trading_bias", needs="", answer=BiasOut)
def trade_bias(request: HttpRequest, trade_id: int) -> Any:
    """Get the label of a trade, with its figures and its insight."""
    if trade_id >= 2**63:
        raise missing("trade")
    rows = BiasTag.objects.filter(user_id=user_of(request), is_current=True)
    row = rows.filter(trade_id=trade_id).select_related("trade").first()
    if row is None:
        raise missing("label")
    return {
        "tradeId": str(row.trade_id), "label": row.label, "confidence": float(row.confidence),
        "features": row.features, "insight": row.insight, "sparkline": row.sparkline,
        "source": row.source, "rulesVersion": row.rules_version, "taggedAt": row.created_at,
        "rulesBroken": {one.kind: one.figure for one in row.trade.breaks.all()},
    }  # fmt: skip
