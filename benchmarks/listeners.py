"""Many sockets on one process of the server, while events are committed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from bisect import bisect_right
from pathlib import Path
from typing import Any

import psutil

from benchmarks.bench import Bench, end, manage
from benchmarks.result import Check, Figures, Result, spread
from benchmarks.stage import free_port

TENANTS = 50
CROWDS = 2
"""Processes in which the clients live."""
EACH = 20
"""Events of one transaction."""


def fan_out(b: Bench) -> Result:
    """500 clients, first each with the events of his tenant, then all with all events."""
    clients, seconds = (50, 3.0) if b.quick else (500, 20.0)
    own = _measure(b, clients, seconds, "own")
    every = _measure(b, clients, seconds, "all")
    checks = [
        Check("every event to every client, median ms", every["p50_ms"], 300, 150, True),
        Check("every event to every client, p95 ms", every["p95_ms"], 1500, 500, True),
        Check("own tenant's events, median ms", own["p50_ms"], 300, 150, True),
        Check("own tenant's events, p95 ms", own["p95_ms"], 1500, 500, True),
        Check("memory of the server, MB", every["peak_mb"], 400, 250, True),
    ]
    return Result({"jobdesk": every, "jobdesk_own_tenant": own}, checks)


def _measure(b: Bench, clients: int, seconds: float, mode: str) -> Figures:
    b.reset()
    port = free_port()
    processes, _ = b.stage()
    with processes, b.watching() as seen:
        processes.start(manage("jobs", "relay"))
        server = subprocess.Popen(
            manage("jobs", "web", str(port)),
            env={**b.environment, "HTTPS": "off"},
            cwd=Path.cwd(),
            **_quiet(b),
        )
        try:
            await_answer(port)
            quiet_mb = psutil.Process(server.pid).memory_info().rss / 1e6
            crowds = [_crowd(b, port, clients // CROWDS, mode, n) for n in range(CROWDS)]
            for crowd in crowds:
                if not _line(crowd).startswith("ready"):
                    raise RuntimeError(f"the clients could not connect\n{b.last_words()}")
            before = sum(psutil.Process(server.pid).cpu_times()[:2])
            began = time.monotonic()
            peak = _commit(seconds, psutil.Process(server.pid))
            took = time.monotonic() - began
            head = _settled(b)
            cpu = sum(psutil.Process(server.pid).cpu_times()[:2]) - before
            frames = [_frames(crowd, head, mode) for crowd in crowds]
        finally:
            end(server)
    delays, told = _delays(b, frames)
    return {
        "clients": clients,
        "rate": round(head / took, 1),
        **spread(delays),
        "told": told,
        "quiet_mb": round(quiet_mb, 1),
        "peak_mb": round(peak, 1),
        "server_cores": round(cpu / took, 2),
        **seen,
    }


def _commit(seconds: float, server: psutil.Process) -> float:
    """1 000 events are committed each second, the time in each; answers the server's peak MB."""
    from django.db import transaction

    from jobs import events
    from jobs.engine import outbox

    began, number, peak = time.monotonic(), 0, 0.0
    while (behind := time.monotonic() - began) < seconds:
        if number > behind * 1000:
            time.sleep(0.002)
            continue
        with transaction.atomic():
            outbox.write_many(
                events.message(
                    "bench.told",
                    {"at": time.time(), "number": number + n, "text": "x" * 60},
                    tenant=f"tenant-{(number + n) % TENANTS}",
                )
                for n in range(EACH)
            )
        number += EACH
        if number % 500 == 0:
            peak = max(peak, server.memory_info().rss / 1e6)
    return max(peak, server.memory_info().rss / 1e6)


def _settled(b: Bench) -> int:
    """The head of the feed, once all has arrived in it."""
    deadline = time.monotonic() + 30
    while b.sql("SELECT count(*) FROM jobs_outbox"):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the relay does not keep up\n{b.last_words()}")
        time.sleep(0.05)
    return int(b.sql("SELECT position FROM jobs_feed_head"))


def _delays(b: Bench, crowds: list[list[Any]]) -> tuple[list[float], int]:
    """Seconds from commit to client, of a share of all; and how many were told in all."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT position, (payload->>'at')::float8, tenant FROM jobs_feed ORDER BY position"
        )
        rows = cursor.fetchall()
    found: list[float] = []
    told = 0
    for client in (client for crowd in crowds for client in crowd):
        mine = [
            (p, at) for p, at, tenant in rows if not client["tenant"] or tenant == client["tenant"]
        ]
        if client["events"] != len(mine):
            raise RuntimeError(f"a client was told {client['events']} of {len(mine)} events")
        told += client["events"]
        reached = [position for _, position in client["frames"]]
        for position, at in mine[:: 7 if client["tenant"] == "" else 1]:
            place = bisect_right(reached, position - 1)
            found.append(client["frames"][place][0] - at)
    return found, told


# ---- processes


def _crowd(b: Bench, port: int, clients: int, mode: str, number: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks.crowd", str(port), str(clients)),
            *(mode, str(number), _cookie()),
        ],
        env=b.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(crowd: subprocess.Popen[str]) -> str:
    assert crowd.stdout is not None
    return crowd.stdout.readline()


def _frames(crowd: subprocess.Popen[str], head: int, mode: str) -> list[Any]:
    """What its clients were told: when, up to which position."""
    said, _ = crowd.communicate(f"{head}\n", timeout=60)
    return list(json.loads(said))


def _cookie() -> str:
    from importlib import import_module

    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User

    user, _ = User.objects.get_or_create(username="bench", is_staff=True, is_superuser=True)
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    return f"{settings.SESSION_COOKIE_NAME}={store.session_key}"


def await_answer(port: int) -> None:
    """The server at that port of this machine shows its pages."""
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/admin/login/", timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise RuntimeError("the server does not answer") from None
            time.sleep(0.1)


def _quiet(b: Bench) -> dict[str, Any]:
    log = (b.folder / "processes.log").open("ab")
    return {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
