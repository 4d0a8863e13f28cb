"""The project's settings of the app: ``settings()`` reads ``TRADING`` of Django's settings."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

RULES_VERSION = "v1"
IMPORT_DAYS = 30
HORIZON_LIMIT = 30
BATCH = 200
"""Trades of one batch of a scoring."""
STRETCH = 60.0
"""Seconds after which a long import or scoring lets others run."""
FRESH = timedelta(hours=1)
"""How long a comparison is current."""
WAIT_LIMIT = timedelta(hours=24)
"""How long an import waits for a venue that answers 429."""
KEEP_DIGESTS = timedelta(days=183)


@dataclass(frozen=True, slots=True)
class Settings:
    """Every key of ``TRADING``, with its default."""

    AI_BASE_URL: str = ""
    """Where the AI service is, such as ``https://ai.example.com/ai``."""
    AI_HMAC_KEY_ID: str = ""
    AI_HMAC_SECRET: str = field(default="", repr=False)
    AI_TIMEOUT_MS: int = 2000
    AI_KEYS: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys that the AI service of this project accepts: secrets by key id."""
    HEURISTICS_ONLY: bool = False
    """Label without the AI service, and mark the labels so."""
    COINBASE_URL: str = "https://api.coinbase.com"
    COINBASE_LOGIN_URL: str = "https://login.coinbase.com"
    COINBASE_CLIENT_ID: str = ""
    """With its secret, accounts are also linked by logging in at Coinbase (OAuth)."""
    COINBASE_CLIENT_SECRET: str = field(default="", repr=False)
    COINBASE_REDIRECT_URI: str = ""
    """As registered at Coinbase; empty: this site's own address."""
    FEATURE_BINANCE: bool = False
    """Offer accounts of Binance."""
    BINANCE_URL: str = "https://api.binance.com"
    FEATURE_VENDOR_FALLBACK: bool = False
    """Take prices from the vendor where the venue has none."""
    VENDOR_URL: str = "https://min-api.cryptocompare.com"
    VENDOR_API_KEY: str = field(default="", repr=False)
    BROKER_RATE_LIMIT_SAFETY_MS: int = 250
    """Added to what a venue asks to wait."""
    WORKER_CONCURRENCY_IMPORT: int = 2
    WORKER_CONCURRENCY_SCORE: int = 2
    WORKER_CONCURRENCY_SIM: int = 4
    WORKER_CONCURRENCY_DIGEST: int = 1

    @property
    def ai_timeout(self) -> float:
        """Return the seconds that one call of the AI service may take."""
        return self.AI_TIMEOUT_MS / 1000

    @property
    def has_login(self) -> bool:
        """Return whether accounts can be linked by logging in at Coinbase."""
        return bool(self.COINBASE_CLIENT_ID and self.COINBASE_CLIENT_SECRET)

    @property
    def has_ai(self) -> bool:
        """Return whether the AI service can be called."""
        return bool(self.AI_BASE_URL and self.AI_HMAC_KEY_ID and self.AI_HMAC_SECRET)


_KEYS = {f.name: f for f in fields(Settings)}
_TYPES: dict[str, tuple[type, str]] = {
    "str": (str, "a text"), "int": (int, "a whole number"), "bool": (bool, "True or False"),
    "Mapping[str, str]": (Mapping, "a dict of secrets by key id"),
}  # fmt: skip


def parse(raw: object) -> Settings:
    """Validate the settings; raise ImproperlyConfigured that names the key."""
    if not isinstance(raw, Mapping):
        raise ImproperlyConfigured(f"TRADING must be a dict, got {type(raw).__name__}")
    for key, value in raw.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key).upper(), _KEYS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ImproperlyConfigured(f"TRADING has no key {key!r}{hint}")
        wanted, words = _TYPES[str(_KEYS[key].type)]
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise ImproperlyConfigured(f"TRADING[{key!r}] must be {words}")
        least = 0 if key == "BROKER_RATE_LIMIT_SAFETY_MS" else 1
        if isinstance(value, int) and not isinstance(value, bool) and value < least:
            raise ImproperlyConfigured(f"TRADING[{key!r}] must be at least {least}")
    return Settings(**raw)


_current: Settings | None = None


def settings() -> Settings:
    """Return the current settings."""
    global _current
    if _current is None:
        _current = parse(getattr(django_settings, "TRADING", {}))
    return _current


def _forget(*, setting: str, **_: Any) -> None:
    global _current
    if setting == "TRADING":
        _current = None


setting_changed.connect(_forget)
