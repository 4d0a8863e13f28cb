"""The endpoints of the AI service."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

import jobs
from trading.ai import bias, indicators, reflect, schemas, signatures
from trading.config import settings

BODY_LIMIT = 512 * 1024


def _endpoint(schema: type[BaseModel], answer: Callable[[Any], dict[str, Any]]) -> Any:
    @login_not_required
    @csrf_exempt
    @require_POST
    def view(request: HttpRequest) -> HttpResponse:
        if int(request.META.get("CONTENT_LENGTH") or 0) > BODY_LIMIT:
            return _refusal(413, "too_large", "a body may have 512 KiB")
        body = request.body
        if len(body) > BODY_LIMIT:
            return _refusal(413, "too_large", "a body may have 512 KiB")
        try:
            key = signatures.verify(settings().AI_KEYS, request.headers, body)
        except signatures.BadSignature as error:
            return _refusal(401, error.reason, "the request is not signed as it must be")
        try:
            # 30 a second, and up to 60 at once after a pause.
            jobs.meter(f"trading:ai:key:{key}", "60/2s", burst=60, wait=0).take()
        except jobs.flow.MeterFull as full:
            refused = _refusal(429, "rate", "too many requests")
            refused["Retry-After"] = str(max(1, math.ceil(full.delay)))
            return refused
        try:
            asked = schema.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            return _refusal(422, "invalid", f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
        return HttpResponse(to_json(answer(asked)), content_type="application/json")

    return view


def _refusal(status: int, reason: str, detail: str) -> JsonResponse:
    return JsonResponse({"error": reason, "detail": detail}, status=status)


def _indicators_of(series: Any, periods: indicators.Periods | None = None) -> Any:
    rows = series.candles
    return indicators.compute(
        [c.high for c in rows], [c.low for c in rows], [c.close for c in rows], periods
    )


def _indicators(asked: schemas.IndicatorsIn) -> dict[str, Any]:
    periods = indicators.Periods(
        asked.rsi_period, asked.bb_period, asked.bb_std, asked.ema_fast, asked.ema_slow,
        asked.atr_period,
    )  # fmt: skip
    return indicators.as_dict(_indicators_of(asked.series, periods))


def _score(asked: schemas.ScoreIn) -> dict[str, Any]:
    thresholds = bias.Thresholds(
        asked.spike_pct, asked.spike_window_h, asked.red_candles_min, asked.panic_dd_pct,
        asked.panic_window_h, asked.rsi_overbought, asked.rsi_oversold,
    )  # fmt: skip
    candles = [bias.Candle(**candle.model_dump()) for candle in asked.series.candles]
    found = bias.score(
        candles, _indicators_of(asked.series), asked.trade.side, asked.trade.entry_ts,
        asked.trade.entry_price, thresholds, schemas.LENGTHS[asked.series.granularity],
    )  # fmt: skip
    return {"label": found.label, "confidence": found.confidence, "features": found.features}


def _reflect(asked: schemas.ReflectIn) -> dict[str, Any]:
    return {"insight": reflect.insight(asked.label, asked.features, asked.tone, asked.max_chars)}


indicators_view = _endpoint(schemas.IndicatorsIn, _indicators)
score_view = _endpoint(schemas.ScoreIn, _score)
reflect_view = _endpoint(schemas.ReflectIn, _reflect)
