"""Requests of the AI service; whatever is not declared here is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Granularity = Literal["1m", "5m", "15m", "1h", "4h", "1d"]
LENGTHS = {"1m": 60, "5m": 300, "15m": 900, "1h": 3600, "4h": 14_400, "1d": 86_400}
Price = Annotated[float, Field(gt=0, lt=1e30, allow_inf_nan=False)]
Period = Annotated[int, Field(ge=2, le=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)


class CandleIn(_Strict):
    """A candle; ``ts`` is its opening in seconds."""

    ts: int = Field(ge=0, lt=10**11)
    open: Price
    high: Price
    low: Price
    close: Price
    volume: float = Field(ge=0, lt=1e30)


class SeriesIn(_Strict):
    """Candles in order, oldest first."""

    symbol: str = Field(min_length=1, max_length=40)
    granularity: Granularity
    candles: list[CandleIn] = Field(min_length=50, max_length=5000)

    @field_validator("candles")
    @classmethod
    def _in_order(cls, value: list[CandleIn]) -> list[CandleIn]:
        if any(one.ts >= other.ts for one, other in pairwise(value)):
            raise ValueError("must be in order, each time once")
        return value


class IndicatorsIn(_Strict):
    """A request for indicators."""

    series: SeriesIn
    rsi_period: Period = 14
    bb_period: Period = 20
    bb_std: float = Field(2.0, gt=0, le=10)
    ema_fast: Period = 12
    ema_slow: Period = 26
    atr_period: Period = 14


class TradeIn(_Strict):
    """The trade to label; ``entry_ts`` in seconds."""

    side: Literal["BUY", "SELL"]
    entry_ts: float = Field(ge=0, lt=1e11)
    entry_price: Price
    lookback_hours: int = Field(24, ge=1, le=168)


class ScoreIn(_Strict):
    """A request for a label."""

    series: SeriesIn
    trade: TradeIn
    spike_pct: float = Field(8.0, gt=0, le=1000)
    spike_window_h: int = Field(24, ge=1, le=168)
    red_candles_min: int = Field(2, ge=1, le=50)
    panic_dd_pct: float = Field(10.0, gt=0, le=100)
    panic_window_h: int = Field(24, ge=1, le=168)
    rsi_overbought: float = Field(70.0, ge=0, le=100)
    rsi_oversold: float = Field(30.0, ge=0, le=100)


class ReflectIn(_Strict):
    """A request for a sentence."""

    label: Literal["FOMO", "PANIC", "DISCIPLINE", "NEUTRAL"]
    features: dict[str, str | bool | int | float | None] = Field(max_length=40)
    tone: Literal["supportive", "strict"] = "supportive"
    max_chars: int = Field(220, ge=60, le=300)
