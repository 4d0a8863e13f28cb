"""Questions about processes that are not our children."""

import os
import signal
import subprocess
import time
from pathlib import Path

PROC = Path("/proc/self/cmdline")


def command_line(pid: int) -> str:
    """The command of a living process; empty when there is none."""
    if PROC.exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            return ""
    shown = subprocess.run(
        ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return shown.stdout.strip()


def children(pid: int) -> list[int]:
    """The direct children of ``pid``, where the system can tell."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, listing.read_text().split())
        except OSError:
            continue
    return found


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def end_orphan(pid: int, mark: str, polite: signal.Signals, patience: float = 20) -> None:
    """No process ``pid`` with ``mark`` in its command line runs any more."""
    if mark not in command_line(pid):
        return
    send(pid, polite)
    deadline = time.monotonic() + patience
    while mark in command_line(pid):
        if time.monotonic() > deadline:
            send(pid, signal.SIGKILL)
        time.sleep(0.02)
