"""How often one may ask: this many requests in a window, per principal, or per address before that.

Counted in the Redis of the jobs, for all processes together and as plain numbers: caches of Django
unpickle what they hold. While Redis is away, each process counts for itself.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from dataclasses import dataclass, replace

from django.http import HttpRequest, HttpResponseBase

from jobs import conf
from jobs.api import requests
from jobs.api.problem import Problem
from jobs.engine import rq
from jobs.errors import InvalidOption

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Window:
    """What is left of a limit in the present window."""

    name: str
    limit: int
    seconds: int
    left: int
    reset: int
    key: str = ""

    def write(self, response: HttpResponseBase) -> None:
        """The response says so."""
        response["RateLimit-Policy"] = f'"{self.name}";q={self.limit};w={self.seconds}'
        response["RateLimit"] = f'"{self.name}";r={max(self.left, 0)};t={self.reset}'


def check_rate(rate: str) -> str:
    """Return the rate; raise InvalidOption unless it is written like ``600/m``."""
    if not isinstance(rate, str) or not re.fullmatch(r"[1-9][0-9]{0,8}/[smhd]", rate):
        raise InvalidOption("rate", f"must be like '600/m', got {rate!r}")
    return rate


def take(name: str, principal: str, rate: str = "") -> Window | None:
    """Count a request of the principal; raise a Problem if it is one too many.

    ``name`` is one of ``JOBS["API_RATES"]``, or with a ``rate`` an operation.
    """
    window = _count(name, f"{'operation' if rate else 'who'}:{principal}", 1, rate)
    if window is not None and window.left < 0:
        if rate:
            give_back(window)
        raise _too_many(window)
    return window


def give_back(window: Window) -> Window:
    """Take back one request from the window in which it was counted."""
    left = window.limit - _add(window.key, -1, window.seconds)
    return replace(window, left=left)


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


def _count(name: str, ident: str, more: int, rate: str = "") -> Window | None:
    rate = rate or conf.settings().API_RATES.get(name, "")
    if not rate:
        return None
    limit, seconds = int(rate.partition("/")[0]), _UNITS[rate[-1]]
    number, passed = divmod(int(time.time()), seconds)
    digest = hashlib.sha256(ident.encode()).hexdigest()[:32]
    key = f"{name}:{digest}:{number}"
    count = _add(key, more, seconds)
    return Window(name, limit, seconds, limit - count, seconds - passed, key)


def _add(key: str, more: int, seconds: int) -> int:
    try:
        return rq.count(key, more, seconds * 2)
    except rq.Unavailable:
        return _count_alone(key, more)


_alone: Counter[str] = Counter()
_ALONE_LIMIT = 10_000


def _count_alone(key: str, more: int) -> int:
    if len(_alone) >= _ALONE_LIMIT:
        _alone.clear()  # most of them belong to windows that are over
    if more:
        _alone[key] += more
    return _alone[key]
