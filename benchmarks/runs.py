"""Running one workload: fresh servers, and a process of its own that measures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import servers
from benchmarks.one import STAGE
from benchmarks.processes import ROOT
from benchmarks.result import Result
from benchmarks.stage import Stage
from config.embedded import EmbeddedError
from config.embedded.server import LAUNCH

PATIENCE = 3600.0
"""Seconds after which a workload is taken for one that hangs."""


@dataclass(frozen=True, slots=True)
class Side:
    """Whose library is measured, by which Python, with which settings of PostgreSQL."""

    label: str
    root: Path = ROOT
    python: Path = Path(sys.executable)
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a workload found, or why it broke."""

    workload: str
    result: Result | None = None
    broke: str = ""
    traceback: str = ""
    others_cores: float = 0.0
    took_s: float = 0.0
    measured_at: str = ""
    machine: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        found = self.result.to_json() if self.result else {"broke": self.broke}
        return {
            **found,
            "others_cores": self.others_cores,
            "measured_at": self.measured_at,
            "took_s": self.took_s,
        }


def run(workload: str, side: Side, *, quick: bool) -> Run:
    """Run the workload once, on servers of its own."""
    began, at = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    try:
        with servers.opened() as stage:
            found = _measure(workload, side, stage, quick)
    except (EmbeddedError, OSError) as error:
        found = {"broke": f"the servers did not start: {error}"}
    if "result" in found:
        found["result"] = Result.from_json(found["result"])
    return Run(workload, **found, took_s=round(time.monotonic() - began, 1), measured_at=at)


def _measure(workload: str, side: Side, stage: Stage, quick: bool) -> dict[str, Any]:
    """Let a process of the side measure; return what it reports."""
    report, log = stage.folder / "report.json", stage.folder / "driver.log"
    bond = [str(os.getpid()), str(int(signal.SIGTERM)), str(os.geteuid()), str(os.getegid())]
    command = [str(side.python), "-m", "benchmarks.one", workload, str(report)]
    with log.open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAUNCH), *bond, *command]
            + (["--quick"] if quick else []),
            cwd=side.root,
            env={
                **os.environ,
                "PYTHONPATH": str(side.root),
                STAGE: stage.with_settings(side.settings).to_json(),
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            driver.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return {"broke": f"not over after {PATIENCE:g} s"}
        finally:
            end(driver)
    if report.exists():
        found: dict[str, Any] = json.loads(report.read_text())
        return found
    said = log.read_text(errors="replace").strip()
    last = said.splitlines()[-1] if said else f"ended with {driver.returncode}, without a word"
    return {"broke": last, "traceback": said}


def end(process: subprocess.Popen[bytes], patience: float = 20.0) -> None:
    """Ask the process to end, and kill it when it does not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
