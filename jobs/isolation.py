"""What a handler that runs in a process of its own may use."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from jobs.backoff import seconds
from jobs.errors import HandlerError

Isolated = Literal["process"]

DEFAULT_MEMORY = "1GB"
DEFAULT_FILES = 256
DEFAULT_PROCESSES = 64
_UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30}
_SIZE = re.compile(r"(\d+) ?(KB|MB|GB)", re.ASCII)
_LEAST_MEMORY, _MOST_MEMORY = 16 * 2**20, 2**50
_LONGEST_CPU = 366 * 86400.0


@dataclass(frozen=True, slots=True)
class Isolation:
    """The limits of the process; ``jobs.engine.isolated`` sets them."""

    memory: int
    """Bytes of address space beyond what the worker's own code takes."""
    cpu: float | None
    """Seconds of processor time; None leaves it to the timeout."""
    files: int
    """Files and sockets that it may have open."""
    processes: int
    """Processes and threads that it may start; for root the system sets no limit."""


def parse(
    isolation: object, memory: object, cpu: object, files: object, processes: object
) -> Isolation | None:
    """Return the limits that a handler declares; raise HandlerError that names a wrong option."""
    if isolation is None:
        given = {"memory": memory, "cpu": cpu, "files": files, "processes": processes}
        for name in (name for name, value in given.items() if value is not None):
            raise HandlerError(f"handler: {name} means nothing without isolation='process'")
        return None
    if isolation != "process":
        raise HandlerError(f"handler: isolation must be 'process' or None, got {isolation!r}")
    return Isolation(
        memory=_bytes(DEFAULT_MEMORY if memory is None else memory),
        cpu=None if cpu is None else _cpu(cpu),
        files=_count("files", DEFAULT_FILES if files is None else files, 16),
        processes=_count("processes", DEFAULT_PROCESSES if processes is None else processes, 0),
    )


def _bytes(memory: object) -> int:
    size = memory
    if isinstance(memory, str) and (found := _SIZE.fullmatch(memory)):
        size = int(found[1]) * _UNITS[found[2]]
    if isinstance(size, bool) or not isinstance(size, int):
        raise HandlerError(
            f"handler: memory must be bytes or text like '512MB' or '2GB', got {memory!r}"
        )
    if not _LEAST_MEMORY <= size <= _MOST_MEMORY:
        raise HandlerError(f"handler: memory must lie between 16MB and a petabyte, got {memory!r}")
    return size


def _cpu(cpu: object) -> float:
    try:
        given = seconds(cpu)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        given = math.nan
    if isinstance(cpu, bool | str) or not 0 < given <= _LONGEST_CPU:
        raise HandlerError(
            f"handler: cpu must be seconds or a timedelta, positive and at most 366 days, "
            f"got {cpu!r}"
        )
    return given


def _count(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1_000_000:
        raise HandlerError(
            f"handler: {name} must be a whole number from {least} to 1000000, got {value!r}"
        )
    return value
