"""The foreman: starts the programs of one machine, restarts what dies, and ends them together.

It has one thread and no connection. Every program is a child of its own session, so that a
Ctrl-C reaches the foreman alone, which passes it on in order; and none outlives the foreman,
however that ends.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jobs import conf
from jobs.engine import process

PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds until a program that died is started again, longer each time."""
STEADY = 30.0
"""Seconds after which a program counts as steady, so that the pauses start over."""
_LOOK_INTERVAL = 0.2
_MARGIN = 10.0
"""Seconds that the programs may take to end beyond the drain."""
_HURRY = 5.0


@dataclass(frozen=True, slots=True)
class Program:
    """Something to be kept running."""

    name: str
    command: tuple[str, ...]


def manage(name: str, *arguments: str) -> Program:
    """A management command of this project, as a program."""
    script = Path(sys.argv[0])
    if script.name == "manage.py":
        return Program(name, (sys.executable, str(script), *arguments))
    return Program(name, (sys.executable, "-m", "django", *arguments))


@dataclass(slots=True)
class _Running:
    program: Program
    child: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    again_at: float = 0.0
    unread: bytes = b""
    clean: bool = True
    """Whether it ended when it was asked to, and had not to be killed."""
    pipe: int = -1


class Foreman:
    """``run`` is its whole life."""

    def __init__(self, programs: Sequence[Program], write: Callable[[str], object]) -> None:
        self._running = [_Running(program) for program in programs]
        self._write = write
        self._width = max(len(program.name) for program in programs)
        self._selector = selectors.DefaultSelector()
        self._signals = 0
        self._obeyed = 0
        self._kill_at: float | None = None

    def run(self, done: Callable[[], bool] | None = None) -> int:
        """Keeps the programs running until asked to stop, or until ``done`` answers true.

        Answers 0 when all of them ended as they were asked to, else 1.
        """
        before = self._install_signals()
        try:
            while not self._is_over():
                self._start_missing()
                self._read()
                self._bury()
                if self._signals == 0 and done is not None and done():
                    self._signals = 1
                self._obey()
        finally:
            self._kill()
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(-1)
            self._selector.close()
        return 0 if all(running.clean for running in self._running) else 1

    def pids(self) -> dict[str, int]:
        """The process ids of the programs that run."""
        return {r.program.name: r.child.pid for r in self._running if r.child is not None}

    # ---- programs

    def _start_missing(self) -> None:
        if self._kill_at is not None:
            return
        moment = time.monotonic()
        for running in self._running:
            if running.child is None and moment >= running.again_at:
                self._start(running)

    def _start(self, running: _Running) -> None:
        running.child = subprocess.Popen(
            running.program.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            # There is one thread here, so the child may run Python before it becomes the program.
            preexec_fn=partial(process.die_with_parent, os.getpid()),
        )
        assert running.child.stdout is not None  # noqa: S101 - a pipe was asked for
        running.started = time.monotonic()
        running.pipe = running.child.stdout.fileno()
        os.set_blocking(running.pipe, False)
        self._selector.register(running.pipe, selectors.EVENT_READ, running)
        self.say(f"{running.program.name} is process {running.child.pid}")

    def _bury(self) -> None:
        for running in self._running:
            if running.child is None or running.child.poll() is None:
                continue
            self._drain(running, to_the_end=True)
            code = running.child.returncode
            how = process.code_description(code)
            self._forget(running)
            if self._kill_at is not None:
                running.clean = code in (0, -signal.SIGTERM, -signal.SIGINT)
                self.say(f"{running.program.name} {how}")
                continue
            steady = time.monotonic() - running.started >= STEADY
            running.deaths = 1 if steady else running.deaths + 1
            pause = PAUSES[min(running.deaths, len(PAUSES)) - 1]
            running.again_at = time.monotonic() + pause
            self.say(f"{running.program.name} {how}; starting it again in {pause:g} s")

    def _forget(self, running: _Running) -> None:
        assert running.child is not None and running.child.stdout is not None  # noqa: S101
        self._selector.unregister(running.pipe)
        running.child.stdout.close()
        running.child, running.pipe = None, -1

    # ---- what they say

    def _read(self) -> None:
        for key, _ in self._selector.select(_LOOK_INTERVAL):
            if isinstance(key.data, _Running):
                self._drain(key.data)
            else:
                os.read(key.fd, 4096)

    def _drain(self, running: _Running, to_the_end: bool = False) -> None:
        while True:
            try:
                chunk = os.read(running.pipe, 65536)
            except BlockingIOError:
                break
            *lines, running.unread = (running.unread + chunk).split(b"\n")
            for line in lines:
                self._print(running.program.name, line.decode(errors="replace"))
            if not chunk:
                time.sleep(0.01)  # it has closed its output and is about to end
                break
        if to_the_end and running.unread:
            self._print(running.program.name, running.unread.decode(errors="replace"))
            running.unread = b""

    def say(self, line: str) -> None:
        """Print a line of the foreman's own."""
        self._print("run", line)

    def _print(self, name: str, line: str) -> None:
        self._write(f"{name.ljust(self._width)} | {line}\n")

    # ---- the end

    def _install_signals(self) -> dict[int, Any]:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        self._selector.register(reading, selectors.EVENT_READ, None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        before: dict[int, Any] = {}
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            before[number] = signal.signal(number, self._on_signal)
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return before

    def _on_signal(self, *_: object) -> None:
        self._signals += 1

    def _obey(self) -> None:
        """Every signal is passed on: the first as SIGTERM, the second makes the workers hurry."""
        moment = time.monotonic()
        while self._obeyed < self._signals:
            self._obeyed += 1
            # Of two that are alike, a program that has not yet heard the first would hear one.
            number, patience = signal.SIGINT, _HURRY
            if self._obeyed == 1:
                self.say("ending")
                number = signal.SIGTERM
                patience = conf.settings().DRAIN + _MARGIN
            self._kill_at = min(self._kill_at or moment + patience, moment + patience)
            for running in self._running:
                if running.child is not None:
                    running.child.send_signal(number)
        if self._kill_at is not None and moment >= self._kill_at:
            self._kill()

    def _kill(self) -> None:
        for running in self._running:
            if running.child is not None and running.child.poll() is None:
                self.say(f"{running.program.name} did not end; killing it")
                running.child.kill()
                running.child.wait()

    def _is_over(self) -> bool:
        return self._kill_at is not None and all(r.child is None for r in self._running)
