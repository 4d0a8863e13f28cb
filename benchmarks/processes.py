"""The processes under test: starting, watching and ending them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from config.embedded.server import LAUNCH

ROOT = Path(__file__).resolve().parent.parent


class Processes:
    """A group of commands; leaving the ``with`` block ends them and all their descendants."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self._environment, self._log = dict(environment), log
        self._started: list[subprocess.Popen[bytes]] = []
        self.started_at = 0.0
        self.ended_seconds = 0.0
        """Processor time of killed descendants, which is not in that of their parents."""

    def start(self, *commands: Sequence[str]) -> None:
        """The commands run, each in a session of its own, and end when this process ends."""
        self.started_at = time.monotonic()
        bond = [str(os.getpid()), str(int(signal.SIGKILL)), str(os.geteuid()), str(os.getegid())]
        with self._log.open("ab") as log:
            for command in commands:
                self._started.append(
                    subprocess.Popen(
                        [sys.executable, "-I", "-S", str(LAUNCH), *bond, *command],
                        cwd=ROOT,
                        env=self._environment,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )

    def alive(self) -> bool:
        return all(process.poll() is None for process in self._started)

    def tree(self) -> list[psutil.Process]:
        """The processes and their descendants."""
        found: list[psutil.Process] = []
        for process in self._started:
            try:
                parent = psutil.Process(process.pid)
                found += [parent, *parent.children(recursive=True)]
            except psutil.Error:
                continue
        return found

    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, self.tree()))

    def pss_mb(self) -> tuple[float, int]:
        """Memory, shared pages divided by their users, and the number of processes."""
        tree = self.tree()
        return sum(pss_kb(process.pid) for process in tree) / 1024, len(tree)

    def wait_idle(self, patience: float = 30.0) -> None:
        """The processes have come up and use next to no processor time."""
        deadline = time.monotonic() + patience
        time.sleep(1.5)
        last = self.cpu_seconds()
        while time.monotonic() < deadline:
            time.sleep(0.5)
            current = self.cpu_seconds()
            if current - last < 0.05:
                return
            last = current

    def kill(self) -> None:
        """All of them are gone."""
        direct = {started.pid for started in self._started}
        for process in self.tree():
            try:
                if process.pid not in direct:
                    self.ended_seconds += cpu_seconds(process)
                process.kill()
            except psutil.Error:
                continue
        for started in self._started:
            started.wait()
        self._started.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def cpu_seconds(process: psutil.Process) -> float:
    """Processor time that the process and its ended children have used."""
    try:
        t = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(t.user + t.system + t.children_user + t.children_system)


def pss_kb(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
