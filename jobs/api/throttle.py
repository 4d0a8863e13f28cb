"""How often one may ask: so many requests in a window, per principal, or per address before that.

Counted in Django's cache by ``add`` and ``incr``, so that it holds over processes wherever the
cache does: Redis, Memcached or the database. With a cache in each process's own memory the limit
is that of one process, which a system check says.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import dataclass

from django.core.cache import cache
from django.http import HttpRequest, HttpResponseBase

from jobs import conf
from jobs.api import requests
from jobs.api.problem import Problem

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Window:
    """What is left of a limit in the present window."""

    name: str
    limit: int
    seconds: int
    left: int
    reset: int

    def write(self, response: HttpResponseBase) -> None:
        """The response tells it."""
        response["RateLimit-Policy"] = f'"{self.name}";q={self.limit};w={self.seconds}'
        response["RateLimit"] = f'"{self.name}";r={max(self.left, 0)};t={self.reset}'


def take(name: str, principal: str) -> Window | None:
    """One request of the principal is counted; raises a Problem where it is one too many."""
    window = _count(name, f"who:{principal}", 1)
    if window is not None and window.left < 0:
        raise _too_many(window)
    return window


def refuse(request: HttpRequest) -> None:
    """A failed login of this address is counted."""
    _count("refused", f"from:{requests.network(request)}", 1)


def check_refused(request: HttpRequest) -> None:
    """Raises a Problem where this address has failed too often to be heard."""
    window = _count("refused", f"from:{requests.network(request)}", 0)
    if window is not None and window.left <= 0:
        raise _too_many(window)


def _too_many(window: Window) -> Problem:
    headers = {"Retry-After": str(window.reset)}
    return Problem(429, "throttled", "too many requests", headers=headers)


def _count(name: str, ident: str, more: int) -> Window | None:
    rate = conf.settings().API_RATES.get(name)
    if rate is None:
        return None
    limit, seconds = int(rate.partition("/")[0]), _UNITS[rate[-1]]
    number, passed = divmod(int(time.time()), seconds)
    digest = hashlib.sha256(ident.encode()).hexdigest()[:32]
    key = f"jobs:api:{name}:{digest}:{number}"
    count = _add(key, more, seconds * 2) if more else cache.get(key, 0)
    return Window(name, limit, seconds, limit - count, seconds - passed)


def _add(key: str, more: int, seconds: int) -> int:
    """What is counted under the key by then, asked in one go wherever it is known already."""
    for _ in range(2):
        with suppress(ValueError):  # it is not there, or was evicted between the two
            return int(cache.incr(key, more))
        cache.add(key, 0, seconds)
    return more
