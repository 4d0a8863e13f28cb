"""Operations of an ERP: how fast a mirror is filled, what that takes, and how many writes end."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from benchmarks import bench, records
from benchmarks.agents import AGENTS, SLOTS
from benchmarks.bench import Bench, manage
from benchmarks.emails import await_port
from benchmarks.processes import ROOT
from benchmarks.result import Check, Figures, Result
from benchmarks.stage import free_port

LATENCY = 50
"""Milliseconds of a call of the ERP."""
WORKER = manage(
    *("jobs", "worker", "--queues", "erp-write", "--processes", "2"),
    *("--concurrency", str(SLOTS // 2)),
)


def mirror(b: Bench) -> Result:
    """The first sync of 5,000 customers and an unchanged one; beside rows stored one by one."""
    size = 500 if b.quick else 5000
    ours, plain = _alone(b, "sync", size), _alone(b, "rows", size)
    ratio = round(plain["first_s"] / ours["first_s"], 2)
    again = round(ours["again_s"] / ours["first_s"], 3)
    checks = [
        Check("x rows stored one by one", ratio, 5),
        Check("x the first sync, when nothing has changed", again, 0.4, None, True),
    ]
    return Result({"jobdesk": ours, "update_or_create": plain}, checks, ratio)


def memory(b: Bench) -> Result:
    """The memory of a sync of 50,000 customers; beside one of 500."""
    size = 5000 if b.quick else 50_000
    large, small = _alone(b, "memory", size), _alone(b, "memory", 500)
    more = round(large["peak_mb"] - small["peak_mb"], 1)
    check = Check("more than with 500 rows", more, 30, None, True, " MB")
    return Result({"jobdesk": large, "jobdesk_500": small}, [check])


def writes(b: Bench) -> Result:
    """600 orders of 60 agents in ten slots; beside ten threads that make the same calls."""
    size = AGENTS * (2 if b.quick else 10)
    plain, ours = _threads(b, size), _drain(b, size)
    ratio = round(ours["rate"] / plain["rate"], 2)
    check = Check(f"x {SLOTS} bare threads", ratio, 0.8)
    return Result({"jobdesk": ours, "threads": plain}, [check], ratio)


def _alone(b: Bench, what: str, size: int) -> Figures:
    """Return what one process measures with that many rows and an ERP without delay."""
    port = free_port()
    _clear(b, port)
    processes, _out = b.stage()
    with processes:
        processes.start(_erp(port, 0, size))
        await_port(port)
        b.wait_quiet()
        with b.watching() as seen:
            found = _run(b, port, what, size)
    return {**{name: round(value, 3) for name, value in found.items()}, "rows": size, **seen}


def _threads(b: Bench, size: int) -> Figures:
    port = free_port()
    _clear(b, port)
    processes, _out = b.stage()
    with processes:
        processes.start(_erp(port, LATENCY, 0))
        await_port(port)
        b.wait_quiet()
        with b.watching() as seen:
            found = _run(b, port, "threads", size)
    return {"rate": round(found["rate"], 1), "operations": size, **seen}


def _drain(b: Bench, size: int) -> Figures:
    port = free_port()
    _clear(b, port)
    processes, out = b.stage(_variables(port))
    with processes:
        processes.start(_erp(port, LATENCY, 0))
        await_port(port)
        _run(b, port, "backlog", size)
        processes.start(bench.dispatcher(), manage("jobs", "relay"), WORKER)
        out.wait_for(1, 60.0)
        with b.watching() as seen:
            out.wait_for(size, 120.0 + size / 2)
        _completed(b, size)
        taken = [moment for _, moment in out.times(records.TAKEN)]
    skipped = size // 10  # the workers were coming up
    rate = (size - 1 - skipped) / (taken[-1] - taken[skipped])
    return {"rate": round(rate, 1), "operations": size, **seen}


def _completed(b: Bench, size: int, patience: float = 60.0) -> None:
    """Every order is in the ERP once, and its operation says so."""
    query = (
        "SELECT count(*) FROM operations_operation "
        "WHERE type = 'submit-order' AND phase = 'completed'"
    )
    deadline = time.monotonic() + patience
    while (done := b.sql(query)) != size:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{done} of {size} orders are complete\n{b.last_words()}")
        time.sleep(0.05)


# ---- the stage


def _variables(port: int) -> dict[str, str]:
    return {"ERP_URL": f"http://127.0.0.1:{port}", "HTTP_ALLOW": "127.0.0.0/8"}


def _erp(port: int, latency: int, customers: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.erp", *map(str, (port, latency, customers))]


def _clear(b: Bench, port: int) -> None:
    """The tables of the app are there, and empty like the others."""
    _call(b, port, *manage("migrate", "--verbosity", "0"))
    b.reset()
    b.sql("TRUNCATE operations_agent, jobs_breaker CASCADE")


def _run(b: Bench, port: int, what: str, count: int) -> dict[str, float]:
    said = _call(b, port, sys.executable, "-m", "benchmarks.agents", what, str(count))
    found: dict[str, float] = json.loads(said)
    return found


def _call(b: Bench, port: int, *command: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env={**b.environment, **_variables(port)}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:4])} failed\n{done.stderr[-2000:]}")
    return done.stdout
