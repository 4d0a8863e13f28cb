"""Tiers, and the lanes in which they run side by side: one lane for each processor."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
PATIENCE = 60.0
"""So many seconds a tier has to tidy up once it was interrupted."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Tier:
    """A command that must succeed; one that is ``wide`` uses all lanes."""

    name: str
    command: str
    share: str
    after: Sequence[str] = ()
    wide: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    venv: str = ".venv"

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower())


@dataclass
class Run:
    """A tier that runs, or has run."""

    tier: Tier
    process: subprocess.Popen[bytes]
    output: Path
    lanes: int
    begun: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    code: int | None = None

    @property
    def core_minutes(self) -> float:
        """Wall-clock time, once for every lane that nothing else could use meanwhile.

        Processor time would leave out what waits: for servers, locks, browsers and timeouts.
        """
        return self.seconds * self.lanes / 60

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def ended(self) -> bool:
        self.code = self.process.poll()
        self.seconds = time.monotonic() - self.begun
        return self.code is not None

    def interrupt(self) -> None:
        """End it, and leave nothing behind: let it clean up, then kill what remains."""
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


class Lanes:
    """Runs tiers in their order, each when those it comes after have passed."""

    def __init__(self, tiers: Sequence[Tier], lanes: int, output: Path) -> None:
        self.waiting, self.count, self.output = list(tiers), lanes, output
        self.running: dict[int, Run] = {}
        self.ended: list[Run] = []

    def run(self) -> None:
        """Run every tier; one that failed keeps only those from running that come after it."""
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.mkdir(parents=True)
        try:
            while self._begin() or self.running:
                self._look()
        finally:
            self._end()

    def passed(self) -> set[str]:
        return {run.tier.name for run in self.ended if run.code == 0}

    def _begin(self) -> bool:
        """Start what can start now."""
        began = False
        while (tier := self._next()) is not None:
            lane = min(set(range(self.count)) - set(self.running))
            self.waiting.remove(tier)
            self.running[lane] = self._start(tier, lane)
            began = True
        return began

    def _next(self) -> Tier | None:
        """The first that is ready, if there is room; what is wide waits until all others ended."""
        if len(self.running) == self.count or any(run.tier.wide for run in self.running.values()):
            return None
        passed = self.passed()
        ready = [tier for tier in self.waiting if set(tier.after) <= passed]
        narrow = [tier for tier in ready if not tier.wide]
        return next(iter(narrow if self.running else narrow or ready), None)

    def _start(self, tier: Tier, lane: int) -> Run:
        say(f"... {tier.name}: {described(tier)}")
        output = self.output / f"{tier.slug}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["/bin/sh", "-c", tier.command],
                cwd=CHECKOUT,
                env=environment(tier, self.output, lane),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Run(tier, process, output, self.count if tier.wide else 1)

    def _look(self) -> None:
        time.sleep(0.05)
        for lane, run in list(self.running.items()):
            if run.ended():
                del self.running[lane]
                self.ended.append(run)
                show(run, "FAILED" if run.code else "passed")

    def _end(self) -> None:
        """End whatever still runs; only an interruption leaves something."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
        left = list(self.running.values())
        enders = [threading.Thread(target=run.interrupt) for run in left]
        for ender in enders:
            ender.start()
        for ender in enders:
            ender.join()
        for run in left:
            show(run, "ended early")
        for number, handler in before.items():
            signal.signal(number, handler)


def environment(tier: Tier, output: Path, lane: int) -> dict[str, str]:
    """Return a tier's environment; servers of a lane are not seen from another."""
    return {
        **os.environ,
        "EXAMPLES": "same",
        "JOBDESK_DATA": str(CHECKOUT / ".data" / f"lane-{lane}"),
        # Where pytest notes which tests have failed.
        "PYTEST_ADDOPTS": f"-o cache_dir={output / tier.slug}",
        **tier.env,
    }


def described(tier: Tier) -> str:
    return " ".join([*(f"{name}={value}" for name, value in tier.env.items()), tier.command])


def show(run: Run, how: str) -> None:
    title = f"{run.tier.name}: {how} after {run.seconds:.0f} s"
    say(f"\n=== {title}\n{run.text().rstrip()}\n--- {title}\n")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
