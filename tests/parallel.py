"""Servers for the processes of a parallel run, so that none of them sees what another does.

Each process of pytest-xdist has embedded servers of its own. Where DATABASE_URL is given, each has
a test database of its own anyway; where REDIS_URL is given, it has a Redis database of its own.
"""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl, urlencode

from redis.connection import parse_url

from config.embedded import data_folder

APART = "JOBDESK_TESTS_APART"
"""The process that has been set apart. What it starts inherits this, and its servers."""


def set_apart() -> None:
    """Point a process of a parallel run to servers of its own; call it before the settings load."""
    process = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not process or os.environ.get(APART) == process:
        return
    os.environ[APART] = process
    os.environ["JOBDESK_DATA"] = str(data_folder() / "tests" / process)
    if given := os.environ.get("REDIS_URL"):
        os.environ["REDIS_URL"] = numbered(given, int(re.sub(r"\D", "", process)))


def numbered(url: str, step: int) -> str:
    """Return the URL of the Redis database that is ``step`` numbers further."""
    number = parse_url(url).get("db") or 0  # type: ignore[no-untyped-call]
    address, _, query = url.partition("?")
    return f"{address}?{urlencode({**dict(parse_qsl(query)), 'db': number + step})}"
