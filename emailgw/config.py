"""Constants of the contract, and the project's settings.

``EMAIL_JOB_CONFIG`` is fixed. ``settings()`` reads ``EMAILGW`` of Django's settings.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

EMAIL_JOB_CONFIG: Final = SimpleNamespace(
    QUEUE_NAME="email:send",
    DEFAULT_TTL=86_400_000,
    DEFAULT_PRIORITY=5,
    MAX_ATTEMPTS=5,
    BACKOFF_DELAYS=(1, 5, 30, 120, 600),
    DLQ_TTL=604_800_000,
    DLQ_LIMIT=10_000,
)
"""Durations in milliseconds, delays in seconds. Five attempts have four gaps; the last delay is
the wait after a provider's daily quota is exceeded."""

TTL = EMAIL_JOB_CONFIG.DEFAULT_TTL / 1000
"""Seconds after which an email expires."""
QUOTA_DELAY = EMAIL_JOB_CONFIG.BACKOFF_DELAYS[-1]
RATE_DELAY = 1
"""Seconds to pause a provider whose rate per second is exceeded."""

BURST = 3
"""Emails that may start together after a pause."""
KEEP_LEAST = timedelta(days=2)
"""The minimum retention: longer than idempotency keys and jobs, which depend on the row."""

ADDRESS_LIMIT = 254
SUBJECT_LIMIT = 150
COPIES_LIMIT = 5
TAG_LIMIT = 32
TAGS_LIMIT = 5
HTML_LIMIT = 1024 * 1024
HEADERS_LIMIT = 10
HEADER_NAME_LIMIT = 64
HEADER_VALUE_LIMIT = 256


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider: a Django mail backend and its options."""

    backend: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    tells_events: bool = False
    """Whether it reports accepted emails, so that a doubt may resolve itself."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Every key of ``EMAILGW``, with its default."""

    PROVIDERS: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """Providers by name: ``{"smtp": {"BACKEND": …, "OPTIONS": {…}}}``."""
    PROVIDER: str = ""
    """The default provider of companies; optional if there is only one."""
    AT_ONCE: int = 10
    """Emails that may be sent at the same time, over all workers."""
    PER_SECOND: int = 100
    """Emails that a provider is handed in any second, at most."""
    SEND_TIMEOUT: float = 30.0
    """Timeout in seconds of each step of the dialogue with a provider."""
    BREAKER_THRESHOLD: int = 5
    """Consecutive failures that open the circuit breaker of a provider or sender."""
    BREAKER_OPEN_FOR: float = 60.0
    """Seconds before an open breaker lets a probe through."""
    SNS_TOPICS: tuple[str, ...] = ()
    """ARNs of the topics that may report bounces and complaints."""
    REMOVE_ON_COMPLETE: bool = True
    """Delete jobs of sent emails at the next clean-up, instead of keeping them like other jobs."""
    REMOVE_ON_FAIL: bool = False
    """Delete jobs of failed emails at the next clean-up, instead of after seven days."""
    KEEP_SENT: timedelta = timedelta(days=90)
    """How long sent emails are kept, once their job is deleted."""
    KEEP_UNSENT: timedelta = timedelta(days=180)
    """How long failed and expired emails are kept, once their job is deleted."""

    def provider(self, name: str = "") -> Provider:
        """Return the named provider, or the default; raise ImproperlyConfigured."""
        name = self.provider_name(name)
        if name not in self.PROVIDERS:
            raise ImproperlyConfigured(f"EMAILGW['PROVIDERS'] has no {name!r}")
        given = self.PROVIDERS[name]
        backend = str(given.get("BACKEND", "emailgw.clients.smtp.SmtpBackend"))
        options = dict(given.get("OPTIONS", {}))
        return Provider(backend, options, bool(given.get("TELLS_EVENTS", "anymail" in backend)))

    def provider_name(self, name: str = "") -> str:
        """Return the provider's name, as used by limits and breakers."""
        return name or self.PROVIDER or next(iter(self.PROVIDERS), "")


_KEYS = {f.name: f for f in fields(Settings)}
_PROVIDER_KEYS = {"BACKEND", "OPTIONS", "TELLS_EVENTS"}


def parse(raw: object) -> Settings:
    """Validate the settings; raise ImproperlyConfigured that names the key."""
    if not isinstance(raw, Mapping):
        raise ImproperlyConfigured(f"EMAILGW must be a dict, got {type(raw).__name__}")
    for key in raw:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key).upper(), _KEYS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ImproperlyConfigured(f"EMAILGW has no key {key!r}{hint}")
    found = Settings(**{**raw, "SNS_TOPICS": tuple(raw.get("SNS_TOPICS", ()))})
    for problem in _problems(found):
        raise ImproperlyConfigured(problem)
    return found


def _problems(s: Settings) -> list[str]:
    found = []
    for name, given in s.PROVIDERS.items():
        if not isinstance(given, Mapping) or set(given) - _PROVIDER_KEYS:
            found.append(f"EMAILGW['PROVIDERS'][{name!r}] may have {sorted(_PROVIDER_KEYS)} only")
    if s.PROVIDER and s.PROVIDER not in s.PROVIDERS:
        found.append(f"EMAILGW['PROVIDER'] is {s.PROVIDER!r}, which is not in PROVIDERS")
    for name in ("AT_ONCE", "PER_SECOND"):
        value = getattr(s, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            return [f"EMAILGW[{name!r}] must be a whole number above zero"]
    if s.PER_SECOND <= s.AT_ONCE + BURST:
        found.append(f"EMAILGW['PER_SECOND'] must be more than AT_ONCE + {BURST}")
    for name in ("SEND_TIMEOUT", "BREAKER_OPEN_FOR", "BREAKER_THRESHOLD"):
        value = getattr(s, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            found.append(f"EMAILGW[{name!r}] must be a number above zero")
    for name in ("REMOVE_ON_COMPLETE", "REMOVE_ON_FAIL"):
        if not isinstance(getattr(s, name), bool):
            found.append(f"EMAILGW[{name!r}] must be True or False")
    for name in ("KEEP_SENT", "KEEP_UNSENT"):
        value = getattr(s, name)
        if not isinstance(value, timedelta) or value < KEEP_LEAST:
            found.append(
                f"EMAILGW[{name!r}] must be a timedelta of at least {KEEP_LEAST.days} days"
            )
    return found


_current: Settings | None = None


def settings() -> Settings:
    """Return the current settings."""
    global _current
    if _current is None:
        _current = parse(getattr(django_settings, "EMAILGW", {}))
    return _current


def _forget(*, setting: str, **_: object) -> None:
    global _current
    if setting == "EMAILGW":
        _current = None


setting_changed.connect(_forget)
