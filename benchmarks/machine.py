"""What a run was measured on: the machine, the packages, the servers and their settings."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.bench import Bench

_PACKAGES = ("django-jobdesk", "django", "psycopg", "redis", "rq", "django-rq", "pydantic")


def machine(b: Bench) -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "fsync_ms": b.fsync_ms,
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions(b: Bench) -> dict[str, str]:
    found = {name: version(name) for name in _PACKAGES}
    found["python"] = platform.python_version()
    found["servers"] = f"{_postgres()}; {_redis(b)}"
    return found


def _postgres() -> str:
    """The server and its settings, as a connection of the project meets them."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version'),"
            " CASE WHEN pg_jit_available() THEN 'on' ELSE 'off' END,"
            " current_setting('fsync'), current_setting('synchronous_commit')"
        )
        number, jit, fsync, commit = cursor.fetchone()
    return f"PostgreSQL {number} (jit {jit}, fsync {fsync}, synchronous_commit {commit})"


def _redis(b: Bench) -> str:
    server: Any = b.redis.info("server")
    valkey = server.get("valkey_version")
    name = f"Valkey {valkey}" if valkey else f"Redis {server['redis_version']}"
    known: Any = {**b.redis.config_get("append*"), **b.redis.config_get("save")}
    log = f"log {known['appendfsync'] if known['appendonly'] == 'yes' else 'off'}"
    return f"{name} ({log}, snapshots {known['save'] or 'off'})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
