"""Small facts about processes that supervisor, keeper and executors share."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from django.db import connections

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """This process is killed when its parent dies, even if that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def on_hangup(act: Callable[..., object]) -> None:
    """Call ``act`` when the terminal is gone, unless nohup had that ignored."""
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, act)


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
    return code_description(os.waitstatus_to_exitcode(status))


def code_description(code: int) -> str:
    """Return how a child ended, in words, from its exit code, or a signal's negative number."""
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


def address_space() -> int:
    """Return the bytes of this process's address space."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def tasks_of_user() -> int:
    """Return how many processes and threads the user of this process has on this machine."""
    tasks = 0
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                tasks += os.stat(f"/proc/{name}/task").st_nlink - 2
    return tasks
