"""The client of the AI service: one try per call, behind a circuit breaker."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import jobs
from jobs import http
from trading import limits, metrics
from trading.ai import signatures
from trading.ai.bias import Candle
from trading.ai.indicators import NAMES, Indicators
from trading.config import settings
from trading.errors import AiAway, AiRefused, Limited

BREAKER = "trading:ai"
TONE = "supportive"
MOST = 220


def breaker() -> Any:
    """Return the circuit breaker that all callers share."""
    return jobs.breaker(BREAKER, threshold=5, open_for=30, counts=(AiAway,))


def indicators(symbol: str, candles: list[Candle]) -> Indicators:
    """Ask for the indicators of a series of hours; raise AiAway or AiRefused."""
    names = ("ts", "open", "high", "low", "close", "volume")
    rows = [{name: getattr(candle, name) for name in names} for candle in candles]
    found = _call(
        "indicators", {"series": {"symbol": symbol, "granularity": "1h", "candles": rows}}
    )
    for name in NAMES:
        values = found.get(name)
        if not isinstance(values, list) or len(values) != len(candles) or not all(map(_ok, values)):
            raise AiRefused("AI_BAD_ANSWER")
    return Indicators(**{name: found[name] for name in NAMES})


def _ok(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (is_number and math.isfinite(value))


def reflect(label: str, features: dict[str, Any]) -> str:
    """Ask for the sentence about a label; raise AiAway or AiRefused."""
    asked = {"label": label, "features": features, "tone": TONE, "max_chars": MOST}
    found = _call("nlg/reflect", asked).get("insight")
    if not isinstance(found, str) or not 0 < len(found) <= MOST:
        raise AiRefused("AI_BAD_ANSWER")
    return found


def _call(endpoint: str, asked: dict[str, Any]) -> dict[str, Any]:
    guard = breaker()
    guard.raise_if_open(unless_due=True)  # a call that is not made takes nothing from the meter
    limits.ai.take()
    try:
        with guard:
            return _answer(endpoint, json.dumps(asked, allow_nan=False).encode())
    except Limited as error:
        limits.close(limits.ai, error)
        limits.ai.take()  # raises: the job waits without using an attempt
        raise jobs.Snooze(error.seconds, error.code) from None


def _answer(endpoint: str, body: bytes) -> dict[str, Any]:
    s = settings()
    began = time.monotonic()
    try:
        answer = http.post(
            f"{s.AI_BASE_URL.rstrip('/')}/v1/{endpoint}", content=body,
            headers=signatures.headers(s.AI_HMAC_KEY_ID, s.AI_HMAC_SECRET, body),
            total=s.ai_timeout, connect=min(1.0, s.ai_timeout), step=s.ai_timeout,
        )  # fmt: skip
    except http.HttpError:
        metrics.ai_calls.inc(outcome="error")
        raise AiAway("AI_AWAY") from None
    finally:
        metrics.asked.observe((time.monotonic() - began) * 1000, endpoint=endpoint)
    status = answer.status_code
    if status == 429:
        metrics.ai_calls.inc(outcome="limited")
        raise Limited(http.retry_after(answer) or 1.0)
    if status >= 500 or status == 401:
        metrics.ai_calls.inc(outcome="error")
        raise AiAway("AI_AWAY")
    if status >= 300:
        metrics.ai_calls.inc(outcome="refused")
        raise AiRefused("AI_REFUSED")
    metrics.ai_calls.inc(outcome="ok")
    try:
        found = answer.json()
    except ValueError:
        raise AiRefused("AI_BAD_ANSWER") from None
    if not isinstance(found, dict):
        raise AiRefused("AI_BAD_ANSWER")
    return found
