"""What a workload found out, and whether that is good enough."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Check:
    """One figure against its targets: ``must`` is promised, ``aim`` is wished for."""

    what: str
    value: float
    must: float
    aim: float | None = None
    lower_is_better: bool = False
    unit: str = ""

    @property
    def verdict(self) -> str:
        if not self._reaches(self.must):
            return "MISSED"
        return "must" if self.aim is None or not self._reaches(self.aim) else "aim"

    def _reaches(self, target: float) -> bool:
        return self.value <= target if self.lower_is_better else self.value >= target

    def to_json(self) -> Figures:
        return {**asdict(self), "verdict": self.verdict}

    @classmethod
    def from_json(cls, known: Figures) -> Self:
        return cls(**{key: value for key, value in known.items() if key != "verdict"})


@dataclass(frozen=True, slots=True)
class Result:
    """``figures`` by contestant: ``jobdesk``, ``rq_simple``, ``rq_worker`` …"""

    figures: dict[str, Figures]
    checks: list[Check] = field(default_factory=list)
    ratio: float | None = None

    @property
    def missed(self) -> list[Check]:
        return [check for check in self.checks if check.verdict == "MISSED"]

    @property
    def disturbance(self) -> float:
        """The most cores that other programs used during any part that was watched."""
        found = [part["others_cores"] for part in self.figures.values() if "others_cores" in part]
        return max(found, default=0.0)

    def to_json(self) -> Figures:
        found: Figures = dict(self.figures)
        if self.ratio is not None:
            found["ratio"] = self.ratio
        found["checks"] = [check.to_json() for check in self.checks]
        return found

    @classmethod
    def from_json(cls, known: Figures) -> Self:
        figures = {key: value for key, value in known.items() if key not in ("ratio", "checks")}
        checks = [Check.from_json(check) for check in known["checks"]]
        return cls(figures, checks, known.get("ratio"))


def median_run(runs: Sequence[Figures]) -> Figures:
    """The run with the median rate, which also lists the rates of all."""
    ordered = sorted(runs, key=lambda run: run["rate"])
    chosen = dict(ordered[(len(ordered) - 1) // 2])
    if len(runs) > 1:
        chosen["rate"] = round(statistics.median(run["rate"] for run in runs), 1)
        chosen["rates"] = [run["rate"] for run in runs]
    return chosen


def paired_ratio(ours: Sequence[Figures], baseline: Sequence[Figures]) -> float:
    """The median of the ratios of neighbours: a busy moment of the machine hits both alike."""
    ratios = [float(a["rate"] / b["rate"]) for a, b in zip(ours, baseline, strict=True)]
    return round(statistics.median(ratios), 2)


def spread(seconds: Sequence[float]) -> Figures:
    """How long it took, in milliseconds: the median, the slowest, and what lies between."""
    times = [1000 * value for value in seconds]
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    return {
        **{name: round(quantile(times, share), 3) for name, share in shares.items()},
        "max_ms": round(max(times), 3),
        "measured": len(times),
    }


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
