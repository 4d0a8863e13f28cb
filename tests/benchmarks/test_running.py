"""A workload that breaks is listed and does not end the run; missed bars come last."""

import json
import os
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path

import psycopg
import pytest

from benchmarks import machine, one, report, servers
from benchmarks.__main__ import main, measure
from benchmarks.bench import Bench, beside
from benchmarks.one import measured
from benchmarks.processes import ROOT
from benchmarks.result import Check, Result
from benchmarks.runs import Run, Side, run
from benchmarks.stage import Running, Stage
from benchmarks.workloads import Workload

WHERE = {"servers": "PostgreSQL 18.4 (jit off, fsync on, synchronous_commit on); Valkey 9.1"}
GOOD = Result(
    {"jobdesk": {"rate": 70.0, "others_cores": 0.1}},
    [Check("x plain", 0.7, 0.8), Check("x rq", 30, 18)],
)


def good(name: str, *, others_cores: float = 0.1) -> Run:
    machine = {"fsync_ms": 0.1}
    return Run(name, GOOD, machine=machine, versions=WHERE, others_cores=others_cores)


@pytest.fixture(autouse=True)
def reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(report, "OUT", tmp_path / "reports")
    return tmp_path / "reports"


def test_a_workload_that_breaks_does_not_end_the_run(
    capsys: pytest.CaptureFixture[str], reports: Path
) -> None:
    ran: list[str] = []

    def runner(name: str) -> Run:
        ran.append(name)
        if name == "api_1m":
            return Run(name, broke="RuntimeError: answered 409", traceback="where\nit happened")
        return good(name)

    assert measure(["drain_10k", "api_1m", "email_send"], runner, "quick") == 1
    assert ran == ["drain_10k", "api_1m", "email_send"]
    shown = capsys.readouterr().out
    assert WHERE["servers"] in shown
    closing = shown[shown.index("missed bars: 2") :]
    assert [line.split()[0] for line in closing.splitlines()[1:3]] == ["drain_10k", "email_send"]
    assert "0.7" in closing and "≥ 0.8" in closing and "x rq" not in closing
    assert "broken: 1\napi_1m" in closing and "    it happened" in closing
    written = json.loads((reports / "quick.json").read_text())
    assert written["workloads"]["api_1m"]["broke"] == "RuntimeError: answered 409"
    assert written["workloads"]["email_send"]["jobdesk"]["rate"] == 70.0
    assert written["versions"] == WHERE


def test_a_run_without_breakage_ends_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure(["drain_10k"], good, "quick") == 0
    shown = capsys.readouterr().out
    assert "broken" not in shown and "disturbed" not in shown


def test_disturbed_workloads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure(["drain_10k"], lambda name: good(name, others_cores=0.8), "quick") == 0
    shown = capsys.readouterr().out
    assert "disturbed by other programs: 1" in shown and "0.80 cores" in shown


def test_a_workload_that_broke_replaces_what_it_found_earlier(reports: Path) -> None:
    measure(["drain_10k"], good, "quick")
    measure(["drain_10k"], lambda name: Run(name, broke="KeyError: 'x'"), "quick")
    found = json.loads((reports / "quick.json").read_text())["workloads"]["drain_10k"]
    assert found["broke"] == "KeyError: 'x'" and "jobdesk" not in found


def test_any_exception_of_a_workload_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(b: Bench) -> Result:
        raise KeyError("no such page")

    monkeypatch.setattr(one, "_set_up_django", lambda b: None)
    monkeypatch.setattr(machine, "machine", lambda b: {})
    monkeypatch.setattr(machine, "versions", lambda b: WHERE)
    server = Running("redis://127.0.0.1:1/0", "", os.getpid(), tmp_path, tmp_path / "log")
    found = measured(Workload("x", "", fail), Bench(Stage(tmp_path, server, server, 0.1), True))
    assert found["broke"] == "KeyError: 'no such page'"
    assert "in fail" in found["traceback"]


def test_a_process_that_dies_is_a_broken_workload(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = Running("redis://127.0.0.1:1/0", "", os.getpid(), tmp_path, tmp_path / "log")
    stage = nullcontext(Stage(tmp_path, server, server, 0.1))
    monkeypatch.setattr(servers, "opened", lambda: stage)
    found = run("no_such_workload", Side("this tree"), quick=True)
    assert found.result is None and "KeyError: 'no_such_workload'" in found.broke


def test_wrong_arguments_are_refused_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, reason in (
        (["drain_10k", "--against", "nothing-like-this"], "no commit is called"),
        (["drain_10k", "--against", "HEAD", "--runs", "0"], "--runs must be at least 1"),
        (["drain_10k", "--against-setting", "jit"], "a setting is written NAME=VALUE, not 'jit'"),
    ):
        assert main(arguments) == 2
        assert reason in capsys.readouterr().err
    monkeypatch.setenv("SERVERS", "oracle")
    assert main(["drain_10k"]) == 2
    assert "SERVERS=oracle is not one of" in capsys.readouterr().err


def test_plain_rq_has_a_redis_database_of_its_own() -> None:
    assert beside("redis://127.0.0.1:6379/0") == "redis://127.0.0.1:6379/1"
    with pytest.raises(ValueError, match="does not name database 0"):
        beside("redis://127.0.0.1:6379/5")


def test_settings_reach_every_connection() -> None:
    server = Running("postgresql://a@h:1/d", "", 1, Path("/a"), Path("/a/log"))
    stage = Stage(Path("/a"), server, server, 0.1)
    changed = stage.with_settings({"jit": "off"})
    assert changed.postgres.url == "postgresql://a@h:1/d?options=-c%20jit%3Doff"
    assert Stage.from_json(changed.to_json()) == changed


@pytest.mark.slow
def test_what_killed_processes_still_do_cannot_block_the_next_run() -> None:
    with (
        servers.opened() as stage,
        psycopg.connect(stage.postgres.url) as left,
        closing(Bench(stage, quick=True)) as b,
    ):
        b.sql("CREATE TABLE taken ()")
        left.execute("SELECT count(*) FROM taken")
        b.disconnect_others()
        b.sql("SET lock_timeout = '1s'")
        b.sql("DROP TABLE taken")
        with pytest.raises(psycopg.OperationalError):
            left.execute("SELECT 1")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workloads_that_fill_the_same_tables_run_one_after_the_other(tmp_path: Path) -> None:
    benchmarks(tmp_path, "--quick", "api_1m", "admin_1m")
    found = json.loads((tmp_path / "quick.json").read_text())["workloads"]
    assert found["api_1m"]["jobdesk"]["replay"]["measured"] == 3
    assert "overview" in found["admin_1m"]["jobdesk"]


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout of git")
def test_this_tree_is_compared_with_a_commit(tmp_path: Path) -> None:
    benchmarks(tmp_path, "--quick", "drain_10k", "--against", "HEAD", "--runs", "1", fine=(0, 1))
    found = json.loads((tmp_path / "quick-compared.json").read_text())
    assert [ran["side"] for ran in found["runs"]] == ["this", "other"]
    assert all(ran["jobdesk"]["jobs"] == 1000 for ran in found["runs"])
    assert found["comparison"]["drain_10k"][0]["figure"] == "jobdesk rate"
    assert not list((ROOT / "build" / "bench").glob("*-*/manage.py"))


def benchmarks(folder: Path, *arguments: str, fine: tuple[int, ...] = (0,)) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env={**os.environ, "BENCH_REPORTS": str(folder)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode in fine, ran.stdout + ran.stderr
