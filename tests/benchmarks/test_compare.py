"""Two trees are compared fairly: alternating, by medians, with a verdict that says its reasons."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import compare, report, trees
from benchmarks.compare import Line, figures, lines, order, spread
from benchmarks.processes import ROOT
from benchmarks.result import Check, Result
from benchmarks.runs import Run, Side

THIS, OTHER = Side("1234abcd"), Side("ffb49b1f")
WHERE = {"servers": "PostgreSQL 15.20 (jit on, fsync on, synchronous_commit on); Redis 7.0.15"}


def line(this: list[float], other: list[float], better_high: bool | None = True) -> Line:
    return Line("jobdesk rate", this, other, better_high)


def test_the_order_favours_neither_side_on_a_machine_that_slows_down() -> None:
    assert [(name, side) for _, name, side in order(["a", "b"], 2)] == [
        ("a", "this"), ("a", "other"), ("b", "this"), ("b", "other"),
        ("a", "other"), ("a", "this"), ("b", "other"), ("b", "this"),
    ]  # fmt: skip
    for rounds in (1, 5):
        sides = [side for *_, side in order(["a"], rounds)]
        assert sides.count("this") == sides.count("other") == rounds
    places = {side: [n for n, (*_, s) in enumerate(order(["a"], 4)) if s == side]
              for side in ("this", "other")}  # fmt: skip
    assert sum(places["this"]) == sum(places["other"])


def test_medians_decide_and_one_bad_run_does_not() -> None:
    found = line([100, 101, 20, 102, 99], [100, 100, 101, 300, 99])
    assert found.ratio == 1.0
    assert found.verdict == "within"
    assert found.to_json()["this"]["median"] == 100
    assert found.to_json()["this"]["values"] == [100, 101, 20, 102, 99]


def test_neighbours_are_paired() -> None:
    assert line([100, 50, 10], [200, 100, 20]).paired == 0.5


def test_the_spread_is_a_share_of_the_median() -> None:
    assert spread([95, 100, 105]) == 0.1
    assert spread([7]) == 0
    assert spread([0, 0]) == 0


def test_the_verdict_knows_the_direction() -> None:
    assert line([95], [100]).verdict == "within"
    assert line([105], [100]).verdict == "within"
    assert line([94], [100]).verdict == "WORSE"
    assert line([106], [100]).verdict == "better"
    assert line([94], [100], better_high=False).verdict == "better"
    assert line([106], [100], better_high=False).verdict == "WORSE"
    assert line([6], [100], better_high=None).verdict == ""


def test_figures_that_say_how_good_something_is_are_compared() -> None:
    found = figures(
        {
            "jobdesk": {"rate": 10.5, "rates": [1, 2], "jobs": 100, "p50_ms": 2, "boot_s": 1},
            "retry": {"enqueue": {"p95_ms": 3.0}, "claim_p95_ms": 4.0},
        }
    )
    assert found == {
        "jobdesk rate": 10.5, "jobdesk p50_ms": 2.0,
        "retry enqueue p95_ms": 3.0, "retry claim_p95_ms": 4.0,
    }  # fmt: skip


def test_plain_rq_and_tails_are_shown_but_not_judged() -> None:
    once = {"jobdesk": {"p50_ms": 1.0, "p99_ms": 9.0}, "rq_simple": {"rate": 5.0, "p50_ms": 1.0}}
    judged = {found.figure: found.better_high for found in lines([once], [once])}
    assert judged == {
        "jobdesk p50_ms": False, "jobdesk p99_ms": None,
        "rq_simple rate": None, "rq_simple p50_ms": None,
    }  # fmt: skip


def test_figures_that_one_side_lacks_are_left_out() -> None:
    assert lines([{"jobdesk": {"rate": 1.0, "p50_ms": 2.0}}], [{"jobdesk": {"rate": 1.0}}]) == [
        Line("jobdesk rate", [1.0], [1.0], True)
    ]


# ---- a whole comparison, without measuring


class Runs:
    """Answers of a runner: so many jobs per second by side, each run one more."""

    def __init__(self, **rates: float) -> None:
        self.rates, self.ran = rates, list[tuple[str, str]]()
        self.broken: set[tuple[str, str]] = set()
        self.others_cores = 0.05

    def __call__(self, name: str, side: Side) -> Run:
        which = "this" if side is THIS else "other"
        self.ran.append((name, which))
        if (name, which) in self.broken:
            return Run(name, broke="ImportError: cannot import name 'x'", traceback="in line 7")
        figures = {"jobdesk": {"rate": self.rates[which]}, "rq_simple": {"rate": 100.0}}
        return Run(
            name, Result(figures, [Check("x", 1, 1)], ratio=2.0), others_cores=self.others_cores,
            machine={"fsync_ms": 0.2}, versions=WHERE,
        )  # fmt: skip


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setattr(report, "OUT", tmp_path)
    yield tmp_path / "latest-compared.json"


def compared(names: list[str], runner: Runs, rounds: int = 2) -> int:
    return compare.run(names, THIS, OTHER, runner, rounds, "latest")


def test_sides_that_are_alike(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(["drain_100k"], Runs(this=980, other=1000)) == 0
    shown = capsys.readouterr().out
    assert "verdict: as good as the other within 5%: 1 within 5%\n" in shown
    assert shown.count("control") == 1
    assert "other: ffb49b1f; PostgreSQL 15.20 (jit on" in shown
    assert "runs disturbed by other programs: 0 of 4" in shown
    found = json.loads(written.read_text())
    assert [ran["side"] for ran in found["runs"]] == ["this", "other", "other", "this"]
    assert found["comparison"]["drain_100k"][0]["ratio"] == 0.98
    assert found["sides"]["this"] == {
        "label": "1234abcd", "machine": {"fsync_ms": 0.2}, "versions": WHERE
    }  # fmt: skip


def test_a_side_that_is_worse(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(["drain_100k"], Runs(this=940, other=1000)) == 1
    said = "verdict: NOT as good as the other within 5%: 0 within 5%, 1 worse (drain_100k jobdesk"
    assert said in capsys.readouterr().out


def test_a_side_that_is_better_is_good_enough(written: Path) -> None:
    assert compared(["drain_100k"], Runs(this=2000, other=1000)) == 0
    assert "1 better (drain_100k jobdesk rate 2.000)" in json.loads(written.read_text())["verdict"]


def test_what_a_side_cannot_run_is_reported_and_not_compared(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = Runs(this=1000, other=1000)
    runner.broken.add(("api_1m", "other"))
    assert compared(["api_1m", "drain_100k"], runner) == 1
    # Not tried again by either side, while the rest goes on.
    assert runner.ran.count(("api_1m", "other")) == runner.ran.count(("api_1m", "this")) == 1
    assert runner.ran.count(("drain_100k", "this")) == 2
    shown = capsys.readouterr().out
    assert "other (ffb49b1f): ImportError: cannot import name 'x'\n    in line 7" in shown
    assert "NOT as good as the other within 5%: 1 within 5%, 1 workloads broken" in shown


def test_disturbed_runs_are_told(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runner = Runs(this=1000, other=1000)
    runner.others_cores = 0.9
    assert compared(["drain_100k"], runner, rounds=1) == 0
    shown = capsys.readouterr().out
    assert "runs disturbed by other programs: 2 of 2" in shown
    assert "drain_100k             other, run 1: 0.90 cores" in shown
    assert "though 2 of 2 runs were disturbed" in shown


# ---- the other tree


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout of git")
def test_another_commit_is_measured_by_the_benchmarks_of_this_tree(tmp_path: Path) -> None:
    trees.unpack("HEAD", tmp_path)
    assert (tmp_path / "jobs" / "__init__.py").exists()
    for file in (ROOT / "benchmarks").glob("*.py"):
        assert (tmp_path / "benchmarks" / file.name).read_bytes() == file.read_bytes()
    assert trees.packages(tmp_path).startswith("['>=3.11'")


def test_trees_that_need_the_same_packages_share_their_python(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    assert trees.python_for(tmp_path) == Path(sys.executable)
    same = trees.packages(tmp_path)
    with (tmp_path / "constraints.txt").open("a") as constraints:
        constraints.write("redis==5.0.0\n")
    assert trees.packages(tmp_path) != same


def test_this_tree_is_named_by_its_commit() -> None:
    assert trees.this().label
    assert trees.this().root == ROOT
