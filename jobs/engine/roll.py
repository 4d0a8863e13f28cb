"""The roll of workers: each says now and then that it is there, and reads what is asked of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress

from jobs import conf
from jobs.engine import sql

FORGOTTEN_AFTER = 24 * 3600.0
"""Seconds that a worker stays on the roll after it was seen last."""

_ANNOUNCE = """
INSERT INTO jobs_worker AS w (name, host, pid, version, queues, slots, memory)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name) DO UPDATE SET seen_at = jobs_clock(), memory = excluded.memory, ended_at = NULL,
  version = excluded.version, queues = excluded.queues, slots = excluded.slots,
  host = excluded.host, pid = excluded.pid,
  started_at = CASE WHEN (w.host, w.pid) = (excluded.host, excluded.pid) AND w.ended_at IS NULL
    THEN w.started_at ELSE jobs_clock() END,
  asked = CASE WHEN (w.host, w.pid) = (excluded.host, excluded.pid) AND w.ended_at IS NULL
    THEN w.asked ELSE '' END,
  asked_by = CASE WHEN (w.host, w.pid) = (excluded.host, excluded.pid) AND w.ended_at IS NULL
    THEN w.asked_by ELSE '' END,
  asked_at = CASE WHEN (w.host, w.pid) = (excluded.host, excluded.pid) AND w.ended_at IS NULL
    THEN w.asked_at END
"""


def announce(name: str, pid: int, queues: Sequence[str], slots: int) -> None:
    """The worker whose supervisor is this process is there."""
    sql.run(
        _ANNOUNCE,
        [
            name,
            socket.gethostname(),
            pid,
            conf.settings().VERSION,
            list(queues),
            slots,
            family_memory(pid),
        ],
    )


def asked(name: str) -> str:
    """What the worker is asked to do: ``drain``, ``stop`` or nothing."""
    found = sql.bound_rows("SELECT asked FROM jobs_worker WHERE name = %s", [name])
    return found[0][0] if found else ""


def leave(name: str) -> None:
    """The worker has ended, as it was meant to."""
    sql.run("UPDATE jobs_worker SET ended_at = jobs_clock() WHERE name = %s", [name])


def forget_lost(older_than: float = FORGOTTEN_AFTER) -> int:
    """Workers that nobody has seen for so long are off the roll."""
    return sql.run(
        "DELETE FROM jobs_worker WHERE seen_at < jobs_clock() - %s * interval '1 s'", [older_than]
    )


def family_memory(pid: int) -> float:
    """MiB that a process and its children hold resident; 0 where the system does not tell."""
    total = 0
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/task/{pid}/children") as listed:
            children = listed.read().split()
        for one in (str(pid), *children):
            with suppress(OSError), open(f"/proc/{one}/statm") as statm:
                resident, shared = map(int, statm.read().split()[1:3])
                total += resident - shared
    return total * os.sysconf("SC_PAGE_SIZE") / 2**20
