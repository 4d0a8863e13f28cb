"""Two sides measured in turns: medians, how far the runs spread, and ratios.

The order is A B B A A B B A …: neighbours are compared under the same conditions, and a machine
that steadily becomes slower or faster favours neither side, which it would with A B A B. All
workloads are run once by both sides before any is run again, so that a busy quarter of an hour
falls on one or two of five runs of each instead of all runs of one.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import report
from benchmarks.bench import QUIET
from benchmarks.result import Figures
from benchmarks.runs import Run, Side

TOLERANCE = 0.05
CONTROLS = ("rq_", "django_rq")
"""Contestants that have nothing to do with the tree: they show what the machine did."""
BETTER_HIGH = {"rate": True, "p50_ms": False, "wall_s": False, "pss_mb": False}
"""The figures that are judged, and whether more is better."""
SHOWN = (*BETTER_HIGH, "p95_ms", "p99_ms", "cpu_ms_per_job", "queries", "ratio")

Runner = Callable[[str, Side], Run]


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of a workload, measured several times by each side."""

    figure: str
    this: list[float]
    other: list[float]
    better_high: bool | None
    """None where it is not judged."""

    @property
    def ratio(self) -> float:
        """This tree's median as a share of the other's."""
        return _share(statistics.median(self.this), statistics.median(self.other))

    @property
    def paired(self) -> float:
        """The median of the ratios of neighbouring runs."""
        pairs = zip(self.this, self.other, strict=True)
        return statistics.median(_share(ours, theirs) for ours, theirs in pairs)

    @property
    def verdict(self) -> str:
        if self.better_high is None:
            return ""
        if abs(self.ratio - 1) <= TOLERANCE + 1e-9:
            return "within"
        return "better" if (self.ratio > 1) == self.better_high else "WORSE"

    def to_json(self) -> dict[str, Any]:
        medians = {"median": statistics.median(self.this), "spread": spread(self.this)}
        theirs = {"median": statistics.median(self.other), "spread": spread(self.other)}
        return {
            **asdict(self),
            "this": {"values": self.this, **medians},
            "other": {"values": self.other, **theirs},
            "ratio": self.ratio,
            "paired": self.paired,
            "verdict": self.verdict,
        }


def _share(ours: float, theirs: float) -> float:
    if not theirs:
        return 1.0 if ours == theirs else float("inf")
    return round(ours / theirs, 4)


def spread(values: Sequence[float]) -> float:
    """Return how far apart the lowest and the highest are, as a share of the median."""
    middle = statistics.median(values)
    return round((max(values) - min(values)) / middle, 4) if middle else 0.0


def order(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str, str]]:
    """Yield round, workload and side of each run, in the order of running."""
    for turn in range(rounds):
        for name in names:
            for side in ("this", "other") if turn % 2 == 0 else ("other", "this"):
                yield turn, name, side


def figures(found: Figures, path: str = "") -> dict[str, float]:
    """Return the figures that are compared, by the names of their parts and their own."""
    flat: dict[str, float] = {}
    for key, value in found.items():
        name = f"{path} {key}".strip()
        if isinstance(value, dict):
            flat |= figures(value, name)
        elif _kind(key) and isinstance(value, int | float):
            flat[name] = float(value)
    return flat


def _kind(key: str) -> str | None:
    """Return which of the figures it is: ``claim_p95_ms`` is a ``p95_ms``."""
    return next((known for known in SHOWN if key == known or key.endswith(f"_{known}")), None)


def lines(this: Sequence[Figures], other: Sequence[Figures]) -> list[Line]:
    """Return what both sides measured in each of their runs, figure by figure."""
    ours, theirs = [figures(run) for run in this], [figures(run) for run in other]
    shared = [name for name in ours[0] if all(name in run for run in (*ours, *theirs))]
    return [
        Line(name, [run[name] for run in ours], [run[name] for run in theirs], _judged(name))
        for name in shared
    ]


def _judged(name: str) -> bool | None:
    key = _kind(name.rpartition(" ")[2])
    return None if key is None or name.startswith(CONTROLS) else BETTER_HIGH.get(key)


def run(
    names: Sequence[str], this: Side, other: Side, run: Runner, rounds: int, report_name: str
) -> int:
    """Run all in turns and print what came of it; return 1 where a side is worse, or broke."""
    sides, done = {"this": this, "other": other}, Compared(names, this, other)
    runs = 2 * len(names) * rounds
    print(f"this: {this.label}\nother: {other.label}\norder: ABBA, {rounds} runs of each side")
    for number, (turn, name, side) in enumerate(order(names, rounds), 1):
        if name in done.broken:
            continue
        found = run(name, sides[side])
        done.add(turn, side, found)
        print(f"{number:>3}/{runs} {name} {side}: {_said(found)}", flush=True)
        report.save(report.OUT / f"{report_name}-compared.json", done.to_json())
    print(f"\n{done.table()}\n\n{done.remarks()}")
    print(f"\nwritten: {report.OUT / f'{report_name}-compared.json'}")
    return int(done.is_worse)


def _said(found: Run) -> str:
    if found.result is None:
        return f"BROKE: {found.broke}"
    judged = figures(found.result.figures)
    parts = [f"{name} {judged[name]:g}" for name in judged if _judged(name) is not None][:3]
    disturbed = f", disturbed ({found.others_cores:.2f} cores)" if _disturbed(found) else ""
    return f"{', '.join(parts)} ({found.took_s:.0f} s{disturbed})"


def _disturbed(found: Run) -> bool:
    return found.others_cores > QUIET


class Compared:
    """What two sides have measured so far."""

    def __init__(self, names: Sequence[str], this: Side, other: Side) -> None:
        self._names, self._labels = names, {"this": this.label, "other": other.label}
        self._runs: list[tuple[int, str, Run]] = []

    def add(self, turn: int, side: str, found: Run) -> None:
        self._runs.append((turn, side, found))

    @property
    def broken(self) -> dict[str, tuple[str, Run]]:
        """The workloads that a side could not finish, with that side and its run."""
        return {run.workload: (side, run) for _, side, run in self._runs if run.result is None}

    def lines(self, name: str) -> list[Line]:
        """Return the comparison of one workload, of rounds that both sides have finished."""
        by_side: dict[str, list[Figures]] = {"this": [], "other": []}
        for _, side, run in self._runs:
            if run.workload == name and run.result is not None:
                ratio = {} if run.result.ratio is None else {"ratio": run.result.ratio}
                by_side[side].append({**run.result.figures, **ratio})
        both = min(map(len, by_side.values()))
        if not both or name in self.broken:
            return []
        return lines(by_side["this"][:both], by_side["other"][:both])

    @property
    def is_worse(self) -> bool:
        return bool(self.broken) or any(
            line.verdict == "WORSE" for name in self._names for line in self.lines(name)
        )

    def table(self) -> str:
        row = "{:<18} {:<34} {:>10} {:>7} {:>10} {:>7} {:>7} {:>7}  {}"
        head = ("workload", "figure", "this", "spread", "other", "spread", "ratio", "paired", "")
        shown = [row.format(*head).rstrip()]
        shown.append("-" * len(shown[0]))
        for name in self._names:
            title = name
            for line in self.lines(name):
                control = "control" if line.figure.startswith(CONTROLS) else ""
                shown.append(
                    row.format(
                        title, line.figure,
                        report.number(statistics.median(line.this)), f"{spread(line.this):.1%}",
                        report.number(statistics.median(line.other)), f"{spread(line.other):.1%}",
                        f"{line.ratio:.3f}", f"{line.paired:.3f}", line.verdict or control,
                    ).rstrip()
                )  # fmt: skip
                title = ""
        return "\n".join(shown)

    def remarks(self) -> str:
        """Say what the figures rest on, and whether the sides are within the tolerance."""
        said = []
        for side, label in self._labels.items():
            found = next((r for _, s, r in self._runs if s == side and r.versions), None)
            where = f"; {found.versions['servers']}; {report.fsync(found)}" if found else ""
            said.append(f"{side}: {label}{where}")
        disturbed = [(turn, side, run) for turn, side, run in self._runs if _disturbed(run)]
        said += ["", f"runs disturbed by other programs: {len(disturbed)} of {len(self._runs)}"]
        said += [
            f"{run.workload:<22} {side}, run {turn + 1}: {run.others_cores:.2f} cores"
            for turn, side, run in disturbed
        ]
        if self.broken:
            said += ["", f"broken, and so not compared: {len(self.broken)}"]
        for name, (side, run) in self.broken.items():
            said += [f"{name:<22} {side} ({self._labels[side]}): {run.broke}"]
            said += report.indented(run.traceback)
        return "\n".join([*said, "", self.verdict()])

    def verdict(self) -> str:
        judged = [(name, line) for name in self._names for line in self.lines(name)]
        by = {word: [(n, line) for n, line in judged if line.verdict == word]
              for word in ("within", "better", "WORSE")}  # fmt: skip
        parts = [f"{len(by['within'])} within {TOLERANCE:.0%}"]
        for word in ("better", "WORSE"):
            if by[word]:
                names = (f"{name} {line.figure} {line.ratio:.3f}" for name, line in by[word])
                parts.append(f"{len(by[word])} {word.lower()} ({', '.join(names)})")
        if self.broken:
            parts.append(f"{len(self.broken)} workloads broken")
        disturbed = sum(_disturbed(run) for *_, run in self._runs)
        if disturbed:
            parts.append(f"though {disturbed} of {len(self._runs)} runs were disturbed")
        answer = "NOT as good as" if self.is_worse else "as good as"
        return f"verdict: {answer} the other within {TOLERANCE:.0%}: {', '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "sides": {
                side: {"label": label, **self._where(side)} for side, label in self._labels.items()
            },
            "order": "ABBA",
            "tolerance": TOLERANCE,
            "runs": [
                {"round": turn + 1, "side": side, "workload": run.workload, **run.to_json()}
                for turn, side, run in self._runs
            ],
            "comparison": {
                name: [line.to_json() for line in self.lines(name)] for name in self._names
            },
            "verdict": self.verdict(),
        }

    def _where(self, side: str) -> dict[str, Any]:
        found = next((r for _, s, r in self._runs if s == side and r.versions), None)
        return {"machine": found.machine, "versions": found.versions} if found else {}
