"""The table that people read and the file that programs read."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from benchmarks.bench import QUIET, Bench
from benchmarks.result import Check, Result

OUT = Path(os.environ.get("BENCH_REPORTS") or Path(__file__).resolve().parent / "out")
_PACKAGES = ("django-jobdesk", "django", "psycopg", "redis", "rq", "django-rq", "pydantic")
_MARKS = {"aim": "✔ aim", "must": "✔ must", "MISSED": "✘ missed"}
_ROW = "{:<22} {:<40} {:>12} {:>10} {:>10}  {}"


def machine(b: Bench) -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "fsync_ms": b.fsync_ms,
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions(b: Bench) -> dict[str, str]:
    found = {name: version(name) for name in _PACKAGES}
    found["python"] = platform.python_version()
    found["postgresql"] = str(b.sql("SHOW server_version"))
    found["valkey"] = str(b.redis.info("server").get("valkey_version", "?"))
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def head() -> str:
    line = _ROW.format("workload", "figure", "measured", "must", "aim", "")
    return f"{line}\n{'-' * len(line)}"


def rows(name: str, result: Result) -> str:
    """The lines of one workload: what each contestant did, then the checks."""
    lines = []
    for who, figures in result.figures.items():
        for key, value in figures.items():
            if key in _SHOWN and (key != "others_cores" or value > QUIET):
                lines.append(_ROW.format(name, f"{who} {_SHOWN[key]}", _number(value), "", "", ""))
                name = ""
    lines += [_check(check) for check in result.checks]
    return "\n".join(line.rstrip() for line in lines)


_SHOWN = {
    "rate": "per second",
    "p50_ms": "p50 in ms",
    "p95_ms": "p95 in ms",
    "p99_ms": "p99 in ms",
    "wall_s": "seconds in all",
    "pss_mb": "MB",
    "others_cores": "cores used by strangers",
}


def _check(check: Check) -> str:
    sign = "≤" if check.lower_is_better else "≥"
    limits = ["" if t is None else f"{sign} {_number(t)}" for t in (check.must, check.aim)]
    value = f"{_number(check.value)}{check.unit}"
    return _ROW.format("", f"  {check.what}", value, *limits, _MARKS[check.verdict])


def _number(value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write(path: Path, content: dict[str, Any]) -> None:
    """The file holds the content; workloads measured earlier stay, marked with their time."""
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {}
    content["workloads"] = {**known.get("workloads", {}), **content["workloads"]}
    path.write_text(json.dumps(content, indent=2) + "\n")
