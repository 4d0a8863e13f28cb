"""What several checks ask."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from django.conf import settings as django_settings
from django.urls import get_resolver

from jobs import conf
from jobs.errors import ConfigError


def settings_in_force() -> conf.Settings | None:
    """Return the settings; None if they do not parse, which has a message of its own."""
    try:
        return conf.settings()
    except ConfigError:
        return None


def urls() -> Iterable[Any]:
    """Return the URL patterns of the project; a project of workers alone may have none."""
    if not hasattr(django_settings, "ROOT_URLCONF"):
        return ()
    try:
        return get_resolver().url_patterns
    except ConfigError:  # the check of the settings reports it
        return ()


def has_url(name: str, patterns: Iterable[Any]) -> bool:
    """Whether one of the patterns, or of those below them, has the name."""
    return any(
        getattr(one, "name", "") == name or has_url(name, getattr(one, "url_patterns", ()))
        for one in patterns
    )


def url_of(package: str, patterns: Iterable[Any], before: str = "") -> str | None:
    """Return the first path at which a view of the package is found."""
    for one in patterns:
        path = before + str(one.pattern)
        if getattr(getattr(one, "callback", None), "__module__", "").startswith(package):
            return path
        if found := url_of(package, getattr(one, "url_patterns", ()), path):
            return found
    return None


def near(name: str, known: Any) -> str | None:
    """Return a hint at the known name that looks most alike."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {found[0]!r}?" if found else None
