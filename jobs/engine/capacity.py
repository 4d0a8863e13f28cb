"""How many database connections the processes of a fleet hold at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONCURRENCY = 8
"""Handlers that an executor runs at the same time by default."""
_POOL_DEFAULT = 4
"""Size of a pool that is given none."""


def of_executor(slots: int) -> int:
    """Return the connections of an executor: one per slot, one to claim, one to settle."""
    return slots + 2


def of_worker(processes: int, slots: int) -> int:
    """Return the connections of a worker: those of its executors, and its keeper's."""
    return processes * of_executor(slots) + 1


def pool_size(database: Mapping[str, Any]) -> int | None:
    """Return how many connections the pool of an entry of DATABASES has; None without a pool."""
    pool = database.get("OPTIONS", {}).get("pool")
    if not pool:
        return None
    given = pool if isinstance(pool, Mapping) else {}
    smallest = given.get("min_size", _POOL_DEFAULT)
    return int(given.get("max_size") or smallest)


def pool_problem(database: Mapping[str, Any], slots: int) -> str:
    """Return what is wrong with the size of the pool, for executors with this many slots."""
    size, needed = pool_size(database), of_executor(slots)
    if size is None or size >= needed:
        return ""
    return (
        f"the pool of {size} connections is too small for executors that run {slots} jobs at a "
        f"time: they need {needed} ({slots} for the jobs, 2 to take and to settle them)"
    )
