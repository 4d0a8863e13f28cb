"""System checks of the settings."""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from jobs import http
from trading import config


@checks.register("trading")
def check_settings(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that ``TRADING`` is valid and its addresses may be called."""
    try:
        found = config.settings()
    except ImproperlyConfigured as error:
        return [checks.Error(str(error), id="trading.E001")]
    messages: list[checks.CheckMessage] = []
    for name in ("AI_BASE_URL", "COINBASE_URL"):
        if url := getattr(found, name):
            try:
                http.check(url)
            except http.Blocked as error:
                messages.append(
                    checks.Error(
                        f"TRADING[{name!r}] cannot be called: {error}",
                        "Allow a server of your own network with JOBS['HTTP_ALLOW'].",
                        id="trading.E002",
                    )
                )
    return messages


@checks.register("trading", deploy=True)
def check_ai(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if trades cannot be labelled."""
    try:
        found = config.settings()
    except ImproperlyConfigured:
        return []  # reported by check_settings
    if found.has_ai or found.HEURISTICS_ONLY:
        return []
    missing = [
        name for name in ("AI_BASE_URL", "AI_HMAC_KEY_ID", "AI_HMAC_SECRET")
        if not getattr(found, name)
    ]  # fmt: skip
    return [
        checks.Warning(
            f"no trade can be labelled: TRADING lacks {', '.join(missing)}",
            "Set them, or HEURISTICS_ONLY to label without the AI service.",
            id="trading.W001",
        )
    ]
