"""The table that people read and the file that programs read."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks.bench import QUIET
from benchmarks.result import Check
from benchmarks.runs import Run
from config.embedded import choice

OUT = Path(os.environ.get("BENCH_REPORTS") or Path(__file__).resolve().parent / "out")
_MARKS = {"aim": "✔ aim", "must": "✔ must", "MISSED": "✘ missed"}


def name(*, quick: bool) -> str:
    """Return the name of the report; each choice of servers has one of its own."""
    servers = choice.chosen()
    return ("quick" if quick else "latest") + ("" if servers == "embedded" else f"-{servers}")


def head(run: Run) -> str:
    """What was measured on, and the head of the table."""
    line = f"{'workload':<22} {_row('figure', 'measured', 'must', 'aim')}"
    where = [f"servers: {run.versions['servers']}", fsync(run)]
    return "\n".join([*where, "", line, "-" * len(line)])


def fsync(run: Run) -> str:
    return f"fsync of the data folder: {run.machine['fsync_ms']:.3f} ms"


def rows(run: Run) -> str:
    """The lines of one workload: what each contestant did, then the checks."""
    if run.result is None:
        return f"{run.workload:<22} BROKE: {run.broke}"
    lines = []
    for who, figures in run.result.figures.items():
        for key, value in figures.items():
            if key in _SHOWN and (key != "others_cores" or value > QUIET):
                lines.append(_row(f"{who} {_SHOWN[key]}", number(value)))
    lines += [_check(check) for check in run.result.checks]
    if run.others_cores > QUIET >= run.result.disturbance:
        lines.append(_row(_SHOWN["others_cores"], number(run.others_cores)))
    return "\n".join(
        f"{name:<22} {line}" for name, line in zip_longest([run.workload], lines, fillvalue="")
    )


def closing(runs: Sequence[Run]) -> str:
    """What is to be looked at: bars that were missed, and workloads that broke."""
    missed = [(run, check) for run in runs if run.result for check in run.result.missed]
    lines = ["", f"missed bars: {len(missed) or 'none'}"]
    lines += [f"{run.workload:<22} {_check(check)}" for run, check in missed]
    disturbed = [run for run in runs if run.others_cores > QUIET]
    if disturbed:
        lines += ["", f"disturbed by other programs: {len(disturbed)}, whose figures count less"]
        lines += [f"{run.workload:<22} {run.others_cores:.2f} cores" for run in disturbed]
    broken = [run for run in runs if run.result is None]
    if broken:
        lines += ["", f"broken: {len(broken)}"]
    for run in broken:
        lines += [f"{run.workload:<22} {run.broke}", *indented(run.traceback)]
    return "\n".join(lines)


def indented(text: str, most: int = 12) -> list[str]:
    return [f"    {line}" for line in text.strip().splitlines()[-most:]]


_SHOWN = {
    "rate": "per second",
    "p50_ms": "p50 in ms",
    "p95_ms": "p95 in ms",
    "p99_ms": "p99 in ms",
    "wall_s": "seconds in all",
    "pss_mb": "MB",
    "jit": "jit",
    "others_cores": "cores used by strangers",
}


def _check(check: Check) -> str:
    sign = "≤" if check.lower_is_better else "≥"
    must, aim = ("" if t is None else f"{sign} {number(t)}" for t in (check.must, check.aim))
    value = f"{number(check.value)}{check.unit}"
    return _row(f"  {check.what}", value, must, aim, _MARKS[check.verdict])


def _row(what: str, measured: str, must: str = "", aim: str = "", mark: str = "") -> str:
    return f"{what:<42} {measured:>12} {must:>10} {aim:>10}  {mark}".rstrip()


def number(value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write(path: Path, content: dict[str, Any]) -> None:
    """The file holds the content; workloads measured earlier stay, marked with their time."""
    known = json.loads(path.read_text()) if path.exists() else {}
    content["workloads"] = {**known.get("workloads", {}), **content["workloads"]}
    save(path, content)


def save(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
