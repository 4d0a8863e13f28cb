"""The benchmarks run, say clearly what they cannot do, and read PostgreSQL's log rightly."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import emails
from benchmarks.__main__ import main
from benchmarks.aged import statement_durations
from benchmarks.limits import most_at_once
from benchmarks.result import Check, median_run, paired_ratio, spread
from benchmarks.workloads import WORKLOADS
from emailgw.handlers import RATE
from tests.admin.screens import NAMES

ROOT = Path(__file__).resolve().parent.parent.parent


def test_list_names_every_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [workload.name for workload in WORKLOADS]
    assert {"drain_10k", "enqueue_single", "latency_50", "backlog_1m", "memory"} <= set(listed)
    assert {"batch_100k", "fairness_flood", "wake_100ms", "retention_1m"} <= set(listed)
    assert len(set(listed)) == len(listed)


def test_the_documents_name_every_workload() -> None:
    rows = re.findall(
        r"^\| (`[^|]+) \|", (ROOT / "docs" / "measuring.md").read_text(), re.MULTILINE
    )
    assert re.findall(r"`([^`]+)`", " ".join(rows)) == [workload.name for workload in WORKLOADS]


def test_mails_are_measured_by_the_pace_of_their_handler() -> None:
    assert RATE.per_second == emails.PACE


def test_an_unknown_name_ends_with_the_likely_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drain_10"]) == 2
    assert "no workload is called 'drain_10'; did you mean 'drain_10k'?" in capsys.readouterr().err


def quick(folder: Path, name: str) -> dict[str, Any]:
    """What a workload finds at its quick size; other runs write their reports elsewhere."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", name],
        cwd=ROOT,
        env={**os.environ, "BENCH_REPORTS": str(folder)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [report] = folder.glob("quick*.json")  # named after the servers, too
    found: dict[str, Any] = json.loads(report.read_text())["workloads"][name]
    return found


def test_a_workload_runs_beside_its_baseline(tmp_path: Path) -> None:
    found = quick(tmp_path, "drain_10k")
    assert found["jobdesk"]["jobs"] == 1000
    assert found["rq_simple"]["rate"] > 0
    assert found["ratio"] == pytest.approx(
        found["jobdesk"]["rate"] / found["rq_simple"]["rate"], abs=0.01
    )


@pytest.mark.slow
def test_handovers_of_a_key_and_of_limits_are_measured(tmp_path: Path) -> None:
    found = quick(tmp_path, "wake_100ms")
    chains = {who: chain for who, chain in found.items() if who.startswith("jobdesk")}
    measured = {who: chain["measured"] for who, chain in chains.items()}
    # Ten jobs in each chain; the first of each took nothing over.
    assert measured == {
        "jobdesk exclusive key": 9,
        "jobdesk limit of 1": 9,
        "jobdesk limit of 1 per key": 9,
    }
    assert len([check for check in found["checks"] if check["must"] == 100]) == 6


@pytest.mark.slow
def test_jobs_that_pass_a_limit_never_exceed_it(tmp_path: Path) -> None:
    found = quick(tmp_path, "drain_limited")
    parts = {who: part for who, part in found.items() if who.startswith("jobdesk")}
    assert {who: part["jobs"] for who, part in parts.items()} == {
        "jobdesk 1 ms": 500,
        "jobdesk 1 ms unlimited": 500,
        "jobdesk 50 ms": 40,
        "jobdesk 50 ms unlimited": 40,
    }
    assert all(1 <= part["most_at_once"] <= 8 for part in parts.values())


def test_overlapping_jobs_are_counted_and_neighbours_are_not() -> None:
    assert most_at_once([(0.0, 1.0), (0.5, 2.0), (0.9, 3.0), (2.0, 4.0)]) == 3
    assert most_at_once([(0.0, 1.0), (1.0, 2.0)]) == 1


def test_a_spread_is_told_in_milliseconds() -> None:
    found = spread([n / 1000 for n in range(100, 0, -1)])
    assert found == {
        "p50_ms": 51.0, "p95_ms": 96.0, "p99_ms": 100.0, "max_ms": 100.0, "measured": 100
    }  # fmt: skip


def test_a_check_knows_which_target_it_reached() -> None:
    assert Check("", 30, must=18, aim=28).verdict == "aim"
    assert Check("", 20, must=18, aim=28).verdict == "must"
    assert Check("", 17, must=18, aim=28).verdict == "MISSED"
    assert Check("", 1.02, must=1.1, aim=1.05, lower_is_better=True).verdict == "aim"
    assert Check("", 6, must=5, aim=8, lower_is_better=True).verdict == "MISSED"
    assert Check("", 1.20, must=1.1, aim=1.05, lower_is_better=True).verdict == "MISSED"


def test_medians_of_runs_and_of_pairs() -> None:
    ours = [{"rate": 100.0}, {"rate": 10.0}, {"rate": 90.0}]
    plain = [{"rate": 10.0}, {"rate": 1.0}, {"rate": 5.0}]
    assert median_run(ours)["rate"] == 90.0
    assert median_run(ours)["rates"] == [100.0, 10.0, 90.0]
    assert paired_ratio(ours, plain) == 10.0


LOG = """\
2026-11-18 10:00:00.000 UTC [11] jobdesk LOG:  duration: 0.500 ms  parse <unnamed>:
\tSELECT *
\tFROM jobs_claim($1, $2, $3, $4, $5)
2026-11-18 10:00:00.000 UTC [22] jobdesk LOG:  duration: 2.000 ms  statement: SELECT 1
2026-11-18 10:00:00.001 UTC [11] jobdesk LOG:  duration: 1.000 ms  bind <unnamed>:
\tSELECT *
\tFROM jobs_claim($1, $2, $3, $4, $5)
2026-11-18 10:00:00.001 UTC [22] jobdesk LOG:  duration: 0.1 ms  parse <unnamed>: SELECT jobs_dispatch($1)
2026-11-18 10:00:00.001 UTC [22] jobdesk LOG:  duration: 0.2 ms  execute <unnamed>: SELECT jobs_dispatch($1)
2026-11-18 10:00:00.002 UTC [11] jobdesk LOG:  duration: 4.000 ms  execute <unnamed>:
\tSELECT *
\tFROM jobs_claim($1, $2, $3, $4, $5)
2026-11-18 10:00:00.003 UTC [11] jobdesk LOG:  checkpoint starting: time
"""  # noqa: E501 - as PostgreSQL writes it


def test_a_statements_duration_is_that_of_all_its_steps() -> None:
    found = statement_durations(LOG.splitlines(keepends=True))
    assert found["claim"] == [pytest.approx(5.5)]
    assert found["dispatch"] == [pytest.approx(0.3)]


def test_every_screen_of_the_admin_is_measured(tmp_path: Path) -> None:
    found = quick(tmp_path, "admin_1m")["jobdesk"]
    assert list(found) == NAMES
    assert all(0 < figures["queries"] <= 40 for figures in found.values())
