"""The gate: every tier of tests and checks, as many side by side as there are processors.

A tier's output is kept, and printed whole when the tier has ended. The first one that fails ends
the others; what failed is printed last. Ctrl-C ends everything, and leaves nothing behind.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
OUTPUT = CHECKOUT / "build" / "gate"
PATIENCE = 60.0
"""So many seconds a tier has to tidy up once it was interrupted."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BROWSER = "apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null"
FAILING = re.compile(r"(?:FAILED|ERROR) \S+\.py|\S+: error:|make: \*\*\*")


@dataclass(frozen=True)
class Tier:
    name: str
    command: str
    after: Sequence[str] = ()


@dataclass
class Run:
    """A tier that runs, or has run."""

    tier: Tier
    process: subprocess.Popen[bytes]
    output: Path
    begun: float = field(default_factory=time.monotonic)

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def interrupt(self) -> None:
        """Nothing of it is left: what can be told to tidy up has done so."""
        self._signal(signal.SIGINT)
        end = time.monotonic() + PATIENCE
        while self._signal(0) and time.monotonic() < end:
            self.process.poll()
            time.sleep(0.05)
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True


class Gate:
    """Runs tiers in their order, each when those it comes after have passed."""

    def __init__(self, tiers: Sequence[Tier], lanes: int, output: Path | None = None) -> None:
        self.waiting, self.lanes, self.output = list(tiers), range(lanes), output or OUTPUT
        self.running: dict[int, Run] = {}
        self.passed: dict[str, float] = {}
        self.failed: list[Run] = []

    def run(self) -> bool:
        """Whether all have passed."""
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.mkdir(parents=True)
        try:
            while (self.waiting or self.running) and not self.failed:
                self._begin()
                self._look()
        finally:
            self._end()
        return not self.failed

    def _begin(self) -> None:
        for lane in self.lanes:
            if lane in self.running:
                continue
            ready = (tier for tier in self.waiting if set(tier.after) <= set(self.passed))
            if tier := next(ready, None):
                self.waiting.remove(tier)
                self.running[lane] = self._start(tier, lane)

    def _start(self, tier: Tier, lane: int) -> Run:
        say(f"... {tier.name}: {tier.command}")
        output = self.output / f"{re.sub(r'[^a-z0-9]+', '-', tier.name.lower())}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["/bin/sh", "-c", tier.command],
                cwd=CHECKOUT,
                env={
                    **os.environ,
                    "EXAMPLES": "same",
                    # Servers of its own: nothing that one tier does can be seen by another.
                    "JOBDESK_DATA": str(CHECKOUT / ".data" / f"lane-{lane}"),
                },
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Run(tier, process, output)

    def _look(self) -> None:
        time.sleep(0.05)
        for lane, run in list(self.running.items()):
            if (code := run.process.poll()) is None:
                continue
            del self.running[lane]
            if code:
                self.failed.append(run)
            else:
                self.passed[run.tier.name] = time.monotonic() - run.begun
                self._show(run, "passed")

    def _end(self) -> None:
        """Whatever still runs is ended, and what failed is told last."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
        left = list(self.running.values())
        enders = [threading.Thread(target=run.interrupt) for run in left]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()
        for run in left:
            self._show(run, "ended early")
        for run in self.failed:
            self._show(run, "FAILED")
        self._sum_up(left)
        for number, handler in before.items():
            signal.signal(number, handler)

    def _show(self, run: Run, how: str) -> None:
        title = f"{run.tier.name}: {how} after {time.monotonic() - run.begun:.0f} s"
        say(f"\n=== {title}\n{run.text().rstrip()}\n--- {title}\n")

    def _sum_up(self, left: Sequence[Run]) -> None:
        say("=== The gate")
        for name, seconds in self.passed.items():
            say(f"passed       {seconds:5.0f} s  {name}")
        for run in left:
            say(f"ended early           {run.tier.name}")
        for tier in self.waiting:
            say(f"not begun             {tier.name}")
        for run in self.failed:
            say(f"FAILED                {run.tier.name}  ({run.tier.command})")
            for line in run.text().splitlines():
                if FAILING.match(line):
                    say(f"    {line}")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def newest_python() -> str | None:
    """An interpreter that gets the newest Django, which needs Python 3.12."""
    for name in ("3.13", "3.12"):
        installed = sorted(Path.home().glob(f".pyenv/versions/{name}.*/bin/python3"))
        for path in (shutil.which(f"python{name}"), *map(str, installed)):
            if path and can_make_a_venv(path):
                return path
    return None


def can_make_a_venv(python: str) -> bool:
    command = [python, "-c", "import venv, ensurepip"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def tiers(newest: str | None) -> list[Tier]:
    """The tiers in the order in which they begin, as far as lanes are free."""
    usual = ["Setup"]
    browser = [Tier("Browser", BROWSER)] if shutil.which("chromium") is None else []
    has_browser = [tier.name for tier in browser]
    new = f"VENV=.venv-newest PYTHON={shlex.quote(newest)}" if newest else ""
    newer = [
        Tier("Tests, newest Django", f"make test {new}", ["Setup, newest Django"]),
        *(
            Tier(
                f"Browser tests, newest Django, {theme}",
                f"make test-browser THEME={theme} {new}",
                ["Setup, newest Django", *has_browser],
            )
            for theme in ("stock", "unfold")
        ),
    ]
    return [
        Tier("Setup", "make setup"),
        *browser,
        *([Tier("Setup, newest Django", f"make setup {new}", usual)] if newest else []),
        Tier("Check", "make check", usual),
        Tier("Slow tests", "make test-slow", usual),
        *(newer if newest else []),
        Tier("Tests", "make test", usual),
        Tier("Browser tests", "make test-browser", [*usual, *has_browser]),
    ]


def main() -> int:
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    newest = newest_python()
    if newest is None:
        say("NOT RUN: tests with the newest Django, because there is no Python 3.12 or 3.13 here")
    gate = Gate(tiers(newest), lanes=max(1, min(os.cpu_count() or 1, 4)))
    try:
        return 0 if gate.run() else 1
    except KeyboardInterrupt:
        say("\ninterrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main())
