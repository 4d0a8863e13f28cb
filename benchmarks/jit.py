"""What just-in-time compiling costs: the same server with jit on, as it is by default, and off.

The engine's statements are many and short. One that the planner takes for expensive is compiled
in every session, which takes longer than the work itself.
"""

from __future__ import annotations

import statistics

from benchmarks import drains, latency
from benchmarks.bench import Bench
from benchmarks.result import Check, Figures, Result, median_run, paired_ratio

REPEATS = 3
WINDOW = 30.0


def on_and_off(b: Bench) -> Result:
    """Latency and drain with jit on beside the same with jit off, in turns."""
    if not b.sql("SELECT pg_jit_available()"):
        return Result({"server": {"jit": "not in this build; SERVERS=stock has it"}})
    size, repeats = (1000, 1) if b.quick else (10_000, REPEATS)
    seconds = 2 if b.quick else 10
    starts: dict[str, list[Figures]] = {"on": [], "off": []}
    runs: dict[str, list[Figures]] = {"on": [], "off": []}
    try:
        for _ in range(repeats):
            for jit in ("on", "off"):
                b.sql(f"ALTER ROLE CURRENT_USER SET jit = {jit}")
                starts[jit].append(latency.measure_engine(b, seconds))
                runs[jit].append(drains.quietest(b, lambda: drains.drain_engine(b, size, WINDOW)))
    finally:
        b.sql("ALTER ROLE CURRENT_USER RESET jit")
    slower = statistics.median(
        on["p50_ms"] / off["p50_ms"] for on, off in zip(starts["on"], starts["off"], strict=True)
    )
    ratio = paired_ratio(runs["on"], runs["off"])
    checks = [
        Check("p50 x jit off", round(slower, 2), 1.3, lower_is_better=True),
        Check("drain x jit off", ratio, 0.85),
    ]
    figures = {
        f"jit_{jit}": {**median_run(runs[jit]), **_middle(starts[jit])} for jit in ("on", "off")
    }
    return Result(figures, checks, ratio)


def _middle(found: list[Figures]) -> Figures:
    """Return the percentiles of the run with the median p50."""
    run = sorted(found, key=lambda figures: float(figures["p50_ms"]))[(len(found) - 1) // 2]
    return {name: run[name] for name in ("p50_ms", "p95_ms", "p99_ms")}
