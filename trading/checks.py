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
    names = ["AI_BASE_URL", "COINBASE_URL"]
    names += ["COINBASE_LOGIN_URL"] if found.has_login else []
    names += ["BINANCE_URL"] if found.FEATURE_BINANCE else []
    names += ["VENDOR_URL"] if found.FEATURE_VENDOR_FALLBACK else []
    for name in names:
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
    if bool(found.COINBASE_CLIENT_ID) != bool(found.COINBASE_CLIENT_SECRET):
        messages.append(
            checks.Error(
                "TRADING needs both COINBASE_CLIENT_ID and COINBASE_CLIENT_SECRET, or neither",
                id="trading.E003",
            )
        )
    return messages


@checks.register("trading", deploy=True)
def check_vendor(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if the vendor would be asked without a key."""
    try:
        found = config.settings()
    except ImproperlyConfigured:
        return []  # reported by check_settings
    if not found.FEATURE_VENDOR_FALLBACK or found.VENDOR_API_KEY:
        return []
    return [
        checks.Warning(
            "TRADING lacks VENDOR_API_KEY: the vendor of prices refuses most requests without one",
            id="trading.W002",
        )
    ]


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
