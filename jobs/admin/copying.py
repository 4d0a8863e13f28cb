"""What a page shows, as a call of the API and as a command: one product, seen three ways."""

from __future__ import annotations

import shlex
from typing import Any
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse

NAMESPACE = "jobs-api"


def api(operation: str, *path: object, **query: Any) -> str:
    """The request that returns the same; nothing where the project has no API."""
    try:
        url = reverse(f"{NAMESPACE}:{operation}", args=path)
    except NoReverseMatch:
        return ""
    given = {name: value for name, value in query.items() if value}
    return f"GET {url}?{urlencode(given)}" if given else f"GET {url}"


def cli(*words: object) -> str:
    """The command line that shows the same."""
    return shlex.join(["python", "manage.py", "jobs", *map(str, words)])
