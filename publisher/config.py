"""The project's settings of the publisher: ``PUBLISHER`` of Django's settings."""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from publisher import channels
from publisher.channels import Channel

QUEUE = "publisher"
MAIL_QUEUE = "publisher:mail"
"""Not that of the posts, which a blackout closes."""
MOST_ATTEMPTS = 100
_META = ("META_APP_ID", "META_APP_SECRET")
_GOOGLE = ("GOOGLE_CLIENT_ID", "GOOGLE_CLIENT_SECRET")
CLIENTS: Mapping[str, tuple[str, str]] = {
    Channel.META_FACEBOOK: _META, Channel.META_INSTAGRAM: _META,
    Channel.META_INSTAGRAM_STORIES: _META, Channel.GOOGLE_BUSINESS: _GOOGLE,
    Channel.YOUTUBE: _GOOGLE, Channel.TIKTOK: ("TIKTOK_CLIENT_KEY", "TIKTOK_CLIENT_SECRET"),
    Channel.LINKEDIN: ("LINKEDIN_CLIENT_ID", "LINKEDIN_CLIENT_SECRET"),
    Channel.X: ("X_CLIENT_ID", "X_CLIENT_SECRET"),
}  # fmt: skip
"""The settings of this project's own client at the provider of a channel."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits base, base·factor, base·factor² … seconds, at most ``max``."""

    base: float = 60
    factor: float = 2.0
    max: float = 3600

    def delay(self, failures: int, draw: float = 0.0) -> float:
        """Return the delay after this failure, without jitter."""
        exponent = min(failures, 64) - 1
        return min(max(round(self.base * self.factor**exponent), self.base), self.max)

    def drawn(self, failures: int) -> float:
        """Return the delay with a random part of up to half the base."""
        return min(self.delay(failures) + random.uniform(0, self.base / 2), self.max)


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """Settings of one channel."""

    CONCURRENCY: int | None = None
    """How many of its posts run at once; None is no limit but that of the queue."""
    PER_ACCOUNT: int = 1
    """How many posts of one account run at once."""
    BACKOFF: Backoff | None = None
    TIMEOUT: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Every key of ``PUBLISHER``, with its default."""

    MAX_CONCURRENT: int = 5
    """How many posts run at once."""
    MAX_ATTEMPTS: int = 5
    BACKOFF: Backoff = Backoff()
    """``{"base": 60, "factor": 2, "max": 3600}``, in seconds."""
    TIMEOUT: float = 15
    """Seconds of a call to a provider."""
    PUBLISH_UNTIL: timedelta = timedelta(hours=24)
    """How late a post may appear, unless the request says otherwise."""
    CHANNELS: Mapping[str, ChannelSettings] = field(default_factory=dict)
    """By channel: ``CONCURRENCY``, ``PER_ACCOUNT``, ``BACKOFF`` and ``TIMEOUT``."""
    PUBLIC_URL: str = ""
    """Where providers reach this project, to fetch assets that the store has no address for."""
    GRAPH_URL: str = "https://graph.facebook.com/v26.0"
    META_APP_ID: str = ""
    META_APP_SECRET: str = field(default="", repr=False)
    GOOGLE_BUSINESS_URL: str = "https://mybusiness.googleapis.com"
    YOUTUBE_URL: str = "https://www.googleapis.com"
    TIKTOK_URL: str = "https://open.tiktokapis.com"
    TIKTOK_CLIENT_KEY: str = ""
    TIKTOK_CLIENT_SECRET: str = field(default="", repr=False)
    GOOGLE_BUSINESS_LANGUAGE: str = "it"
    """The language that posts on Google Business Profile are declared to be in."""
    GOOGLE_TOKEN_URL: str = "https://oauth2.googleapis.com/token"  # noqa: S105
    GOOGLE_CLIENT_ID: str = ""
    GOOGLE_CLIENT_SECRET: str = field(default="", repr=False)
    META_AUTH_URL: str = "https://www.facebook.com/v26.0"
    GOOGLE_AUTH_URL: str = "https://accounts.google.com"
    GOOGLE_ACCOUNTS_URL: str = "https://mybusinessaccountmanagement.googleapis.com"
    GOOGLE_LOCATIONS_URL: str = "https://mybusinessbusinessinformation.googleapis.com"
    TIKTOK_AUTH_URL: str = "https://www.tiktok.com"
    X_AUTH_URL: str = "https://x.com"
    LINKEDIN_URL: str = "https://api.linkedin.com"
    LINKEDIN_AUTH_URL: str = "https://www.linkedin.com"
    LINKEDIN_VERSION: str = "202610"
    """Of the API, as YYYYMM; LinkedIn retires a version after about a year."""
    LINKEDIN_CLIENT_ID: str = ""
    LINKEDIN_CLIENT_SECRET: str = field(default="", repr=False)
    X_URL: str = "https://api.x.com"
    X_CLIENT_ID: str = ""
    X_CLIENT_SECRET: str = field(default="", repr=False)
    BLUESKY_URL: str = "https://bsky.social"

    def channel(self, name: str) -> ChannelSettings:
        """Return the settings of a channel."""
        return self.CHANNELS.get(name, ChannelSettings())

    def backoff(self, channel: str) -> Backoff:
        """Return the backoff of a channel."""
        return self.channel(channel).BACKOFF or self.BACKOFF

    def timeout(self, channel: str) -> float:
        """Return the seconds of a call on a channel."""
        return self.channel(channel).TIMEOUT or self.TIMEOUT


_LEAST = {"base": 10, "factor": 1.0, "max": 60}


def _known(where: str, raw: object, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise ImproperlyConfigured(f"{where} must be a dict, got {type(raw).__name__}")
    for key in raw:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, n=1)
            near = near or difflib.get_close_matches(str(key).upper(), names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ImproperlyConfigured(f"{where} has no key {key!r}{hint}")
    return raw


def _number(where: str, value: object, least: float, *, whole: bool = False) -> None:
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value < 10**7:
        kind = "a whole number" if whole else "a number"
        raise ImproperlyConfigured(f"{where} must be {kind} of at least {least:g}")


def _backoff(where: str, raw: object) -> Backoff:
    given = _known(where, raw, set(_LEAST))
    for name, value in given.items():
        _number(f"{where}[{name!r}]", value, _LEAST[name])
    return Backoff(**given)


def _channel(where: str, raw: object) -> ChannelSettings:
    given = dict(_known(where, raw, {f.name for f in fields(ChannelSettings)}))
    if "BACKOFF" in given:
        given["BACKOFF"] = _backoff(f"{where}['BACKOFF']", given["BACKOFF"])
    for name in ("CONCURRENCY", "PER_ACCOUNT"):
        if given.get(name) is not None:
            _number(f"{where}[{name!r}]", given[name], 1, whole=True)
    if "TIMEOUT" in given:
        _number(f"{where}['TIMEOUT']", given["TIMEOUT"], 1)
    return ChannelSettings(**given)


def parse(raw: object) -> Settings:
    """Validate the settings; raise ImproperlyConfigured that names the key."""
    given = dict(_known("PUBLISHER", raw, {f.name for f in fields(Settings)}))
    if "BACKOFF" in given:
        given["BACKOFF"] = _backoff("PUBLISHER['BACKOFF']", given["BACKOFF"])
    own = _known("PUBLISHER['CHANNELS']", given.get("CHANNELS", {}), set(channels.names()))
    given["CHANNELS"] = {
        name: _channel(f"PUBLISHER['CHANNELS'][{name!r}]", one) for name, one in own.items()
    }
    found = Settings(**given)
    _number("PUBLISHER['MAX_CONCURRENT']", found.MAX_CONCURRENT, 1, whole=True)
    _number("PUBLISHER['MAX_ATTEMPTS']", found.MAX_ATTEMPTS, 1, whole=True)
    if found.MAX_ATTEMPTS > MOST_ATTEMPTS:
        raise ImproperlyConfigured(f"PUBLISHER['MAX_ATTEMPTS'] must be at most {MOST_ATTEMPTS}")
    _number("PUBLISHER['TIMEOUT']", found.TIMEOUT, 1)
    if not re.fullmatch(r"20\d\d(0[1-9]|1[0-2])", str(found.LINKEDIN_VERSION)):
        raise ImproperlyConfigured("PUBLISHER['LINKEDIN_VERSION'] must be such as '202610'")
    if not isinstance(found.PUBLISH_UNTIL, timedelta) or timedelta(0) >= found.PUBLISH_UNTIL:
        raise ImproperlyConfigured("PUBLISHER['PUBLISH_UNTIL'] must be a timedelta above zero")
    return found


_current: Settings | None = None


def settings() -> Settings:
    """Return the current settings."""
    global _current
    if _current is None:
        _current = parse(getattr(django_settings, "PUBLISHER", {}))
    return _current


def _forget(*, setting: str, **_: object) -> None:
    global _current
    if setting == "PUBLISHER":
        _current = None


setting_changed.connect(_forget)
