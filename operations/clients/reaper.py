"""Ends the browsers of a process that has died. Runs as a program: ``python reaper.py MARK``.

A Chromium may survive the death of the process that started it, so each carries a mark in its
environment. This program waits until its standard input ends, which happens with the process that
started it, however that dies, and kills what has its mark and is still there. It imports nothing of
the project, so that it needs little memory.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

NAME = "OPERATIONS_BROWSER"
PATIENCE = 2.0
"""Seconds in which the browser may end by itself."""
PROC = Path("/proc")


def owner() -> str:
    """Return a mark of this process, which no later process with its number has."""
    return f"{os.getpid()}.{started(os.getpid())}"


def started(pid: int) -> str:
    """Return the moment at which a process started; empty if it has ended."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def marked(mark: str = "") -> Iterator[tuple[int, str]]:
    """Yield processes with this mark, or with one that begins so, and their marks."""
    wanted = f"{NAME}={mark}".encode()
    for entry in PROC.iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            for line in (entry / "environ").read_bytes().split(b"\0"):
                if line.startswith(wanted) and started(int(entry.name)):
                    yield int(entry.name), line.partition(b"=")[2].decode()


def orphans() -> Iterator[tuple[int, str]]:
    """Yield browsers whose owner has died."""
    for pid, mark in marked():
        number, _dot, rest = mark.partition(".")
        if started(int(number)) != rest.partition(".")[0]:
            yield pid, mark


def kill(pids: list[int]) -> None:
    """Kill these processes, with the groups that they lead: helpers of a browser hide marks."""
    for pid in pids:
        with suppress(OSError):
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def end(mark: str) -> None:
    """Kill everything with this mark, until there is nothing more."""
    for _ in range(50):
        found = [pid for pid, _mark in marked(mark)]
        if not found:
            return
        kill(found)
        time.sleep(0.1)


def main() -> None:
    """Wait for the end of the owner, and end its browsers."""
    mark = sys.argv[1]
    while os.read(0, 1024):
        pass
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and any(marked(mark)):
        time.sleep(0.1)
    end(mark)


if __name__ == "__main__":
    main()
