"""Sentences about a label, from templates: no advice, and no figure but those of the label."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_TEXTS = {
    ("FOMO", "supportive"): (
        "You bought {spike_pct} % above the low of the last {window_h} hours. Moves like this can "
        "feel urgent; a pause before the next one may help. RSI was {rsi_entry}."
    ),
    ("FOMO", "strict"): (
        "You chased a price that had risen {spike_pct} % within {window_h} hours, at an RSI of "
        "{rsi_entry}."
    ),
    ("PANIC", "supportive"): (
        "You sold after a fall of {dd_pct} % within {window_h} hours. Selling into a fall is a "
        "common reflex; a plan made beforehand takes the pressure off. RSI was {rsi_entry}."
    ),
    ("PANIC", "strict"): (
        "You sold into a fall of {dd_pct} % within {window_h} hours, at an RSI of {rsi_entry}."
    ),
    ("DISCIPLINE", "supportive"): (
        "You bought into weakness instead of chasing: a patient entry, at an RSI of {rsi_entry}."
    ),
    ("DISCIPLINE", "strict"): "You waited for a dip. RSI was {rsi_entry}.",
    ("NEUTRAL", "supportive"): "Nothing about the timing of this trade stands out.",
    ("NEUTRAL", "strict"): "The timing of this trade shows no pattern.",
}
_FIGURES = ("spike_pct", "window_h", "rsi_entry", "dd_pct")
TONES = ("supportive", "strict")


def insight(label: str, features: Mapping[str, Any], tone: str, most: int) -> str:
    """Return the sentence, of at most that many characters."""
    shown = {name: _figure(features.get(name)) for name in _FIGURES}
    text = _TEXTS[label, tone].format(**shown)
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    return cut.rsplit(" ", 1)[0].rstrip(".,;: ") + "…"


def _figure(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "—"
    return f"{value:.1f}".removesuffix(".0")
