"""Small facts about processes that supervisor, keeper and executors share."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

from django.db import connections

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """This process is killed when its parent dies, even if that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def close_connections() -> None:
    """No database connection is open: a fork may follow."""
    connections.close_all()


def forget_connections() -> None:
    """This process starts without the connections of its parent, and leaves those alone.

    Closing an inherited connection would end the parent's session; forgetting it does not.
    """
    for conn in connections.all(initialized_only=True):
        conn.connection = None


def exit_description(status: int) -> str:
    """How a child ended, in words, from its wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exited with code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


def memory_mb() -> float:
    """Resident memory of this process in MiB; 0 where the system does not tell."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return 0.0
