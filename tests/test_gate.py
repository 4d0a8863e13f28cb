"""The gate runs every tier, hides no failure, keeps to its budget and leaves nothing behind."""

from __future__ import annotations

import importlib
import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.admin import screens as admin
from tests.emailgw import filling
from tests.wait import wait_until

CHECKOUT = Path(__file__).resolve().parents[1]
SCRIPTS = CHECKOUT / ".ci"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return module("gate", monkeypatch)


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return module("verdict", monkeypatch)


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module(name)


def tier(gate: ModuleType, name: str, command: str, *after: str, **more: Any) -> Any:
    return gate.Tier(name, command, "check", after, **more)


def run(gate: ModuleType, folder: Path, *tiers: Any, lanes: int = 2) -> Any:
    """Run the tiers, tell what came of it, and return the verdict."""
    output = folder / "out"
    ran = gate.Lanes(tiers, lanes, output)
    ran.run()
    verdict = gate.Verdict(ran.ended, ran.waiting, output)
    verdict.repeat()
    verdict.tell()
    return verdict


# A tier that says so when it is interrupted, and would else go on for ever.
STUBBORN = "trap 'echo tidied; exit 0' INT; touch {folder}/begun; while :; do sleep 0.05; done"


def test_tiers_run_side_by_side_and_after_those_they_need(
    gate: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    meet = "touch {0}/{1}; until test -e {0}/{2}; do sleep 0.01; done"
    assert run(
        gate,
        tmp_path,
        tier(gate, "First", f"touch {tmp_path}/first"),
        tier(gate, "Second", f"test -e {tmp_path}/first; echo $JOBDESK_DATA", "First"),
        tier(gate, "Left", meet.format(tmp_path, "left", "right"), "First"),
        tier(gate, "Right", meet.format(tmp_path, "right", "left"), "Second"),
    ).passed()
    told = capfd.readouterr().out
    assert re.findall(r"^passed +\d+ s  (\w+)$", told, re.MULTILINE)[:2] == ["First", "Second"]
    assert re.search(r"^/.+lane-[01]$", told, re.MULTILINE)


def test_a_wide_tier_has_all_lanes_and_is_counted_for_all(gate: ModuleType, tmp_path: Path) -> None:
    alone = f"test ! -e {tmp_path}/busy; touch {tmp_path}/busy; sleep 0.2; rm {tmp_path}/busy"
    tiers = [tier(gate, name, alone, wide=True) for name in ("One", "Two")]
    ended = run(gate, tmp_path, *tiers).ended
    assert [one.code for one in ended] == [0, 0]
    assert ended[0].core_minutes == pytest.approx(ended[0].seconds * 2 / 60)


def test_every_failure_is_told_and_keeps_only_what_needs_it_from_running(
    gate: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fail = "echo all of it; echo 'FAILED tests/{0}.py::test - no'; exit 3"
    verdict = run(
        gate,
        tmp_path,
        tier(gate, "One", fail.format("one")),
        tier(gate, "Two", fail.format("two")),
        tier(gate, "Needs one", "echo never", "One"),
        tier(gate, "Good", "echo '=== 5 passed, 2 deselected in 1.23s ==='"),
    )
    assert not verdict.passed()
    last = capfd.readouterr().out.rpartition("=== The gate\n")[2].splitlines()
    assert [re.sub(r" +\d+ s", "", line) for line in last] == [
        "passed  Good: 5 passed, 2 deselected in 1.23s",
        "NOT RUN            Needs one",
        "FAILED  One",
        "    FAILED tests/one.py::test - no",
        "FAILED  Two",
        "    FAILED tests/two.py::test - no",
    ]


def test_the_tests_that_failed_are_known(
    gate: ModuleType, verdict: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text("def test_a(): pass\ndef test_b(): assert False\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = f"{sys.executable} -m pytest {tmp_path}/test_it.py; echo 'make: *** [x] Error 1'; ! :"
    tiers = [tier(gate, "Broken", command, env=alone, venv="/nowhere")]
    lanes = gate.Lanes(tiers, 1, tmp_path / "out")
    lanes.run()
    assert verdict.failed_tests(lanes.ended[0], tmp_path / "out") == ["test_it.py::test_b"]


def failing(gate: ModuleType, folder: Path, *tests: str, again: str = "", error: int = 1) -> Any:
    """Return a tier whose tests have failed; those that match ``again`` fail when repeated, too."""
    noted = folder / "out" / "unsure" / "v" / "cache"
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nfor last; do :; done\ncase "$last" in *{again}) exit 1; esac\n')
    python.chmod(0o755)
    (folder / "noted").write_text(json.dumps(dict.fromkeys(tests, True)))
    command = (
        f"mkdir -p {noted}; cp {folder}/noted {noted}/lastfailed; "
        f"echo 'make: *** [Makefile:9: test] Error {error}'; exit 2"
    )
    return tier(gate, "Unsure", command, venv=str(folder))


def test_a_test_that_passes_alone_is_flaky_and_does_not_fail_the_gate(
    gate: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = "tests/a.py::test_b[a 'b' $c]"
    assert run(gate, tmp_path, failing(gate, tmp_path, name, again="other")).passed()
    assert capfd.readouterr().out.endswith(f"\nFLAKY, to be mended: {name}  (Unsure)\n")


@pytest.mark.parametrize(
    ("tests", "flaky", "error"),
    [
        (["tests/a.py::test_a_race"], 0, 1),
        (["tests/a.py::test_a", "tests/test_chaos.py::test_a"], 0, 1),
        (["tests/a.py::test_a", "tests/a.py::test_broken"], 1, 1),
        ([f"tests/a.py::test_{n}" for n in range(4)], 4, 1),
        ([f"tests/a.py::test_{n}" for n in range(11)], 0, 1),
        (["tests/a.py::test_a"], 0, 2),
        ([], 0, 1),
    ],
    ids=["race", "one is chaos", "one is broken", "too many", "far too many", "crash", "no test"],
)
def test_what_is_no_excuse(
    gate: ModuleType, tmp_path: Path, tests: list[str], flaky: int, error: int
) -> None:
    unsure = failing(gate, tmp_path, *tests, again="broken", error=error)
    verdict = run(gate, tmp_path, unsure)
    assert not verdict.passed()
    assert len(verdict.flaky) == flaky


@pytest.mark.parametrize(
    ("test", "strict"),
    [
        ("tests/integration/test_chaos.py::test_all", True),
        ("tests/jobs/effects/test_attacks.py::test_x", True),
        ("tests/operate/doctor/test_sound.py::test_x[race]", True),
        ("tests/api/test_races.py::test_x", True),
        ("tests/jobs/test_tracing.py::test_a_trace", False),
        ("tests/jobs/test_claims.py::test_x", False),
    ],
)
def test_strict_tests_are_known_by_name(verdict: ModuleType, test: str, strict: bool) -> None:
    assert bool(verdict.STRICT.search(test)) is strict


def test_a_tier_that_costs_a_third_more_than_its_share_fails_the_gate(
    gate: ModuleType, verdict: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nap = tier(gate, "Nap", "sleep 0.4")
    for budget, passes in ((0.4 / 60, True), (0.1 / 60, False)):
        monkeypatch.setitem(verdict.BUDGET, "check", budget if not passes else budget * 60)
        assert run(gate, tmp_path, nap).passed() is passes


def test_the_budget_is_for_less_than_an_hour_on_two_processors(verdict: ModuleType) -> None:
    assert sum(verdict.BUDGET.values()) == 59 * 2


RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import gate
gate.OUTPUT = Path(sys.argv[3])
sys.exit(gate.main([gate.Tier("Stubborn", sys.argv[2], "check")]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_interrupts_it_leaves_nothing_behind(
    number: signal.Signals, tmp_path: Path
) -> None:
    stubborn = f"echo $$ > {tmp_path}/pid; {STUBBORN.format(folder=tmp_path)}"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(SCRIPTS), stubborn, str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_until((tmp_path / "begun").exists, 30)
        process.send_signal(number)
        told, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (tmp_path / "out" / "stubborn.log").exists(), "what another gate keeps is left alone"
    assert "tidied" in told and told.endswith("interrupted\n")
    assert not alive(int((tmp_path / "pid").read_text()))


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("newest", [None, "/opt/a python/bin/python3"])
def test_every_tier_is_a_target_and_comes_after_a_tier(
    gate: ModuleType, verdict: ModuleType, newest: str | None
) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    tiers = gate.tiers(newest)
    names = [tier.name for tier in tiers]
    assert len(set(names)) == len(names)
    for number, tier in enumerate(tiers):
        assert set(tier.after) <= set(names[:number])
        assert set(re.findall(r"make ([a-z-]+)", tier.command)) <= targets
        for path in re.findall(r"tests/\w+|\.ci/\S+", tier.command):
            assert (CHECKOUT / path).exists()
    told = " ".join(tier.command for tier in tiers)
    assert set(re.findall(r"make ([a-z-]+)", told)) == {
        "setup", "check", "test", "test-slow", "test-browser"
    }  # fmt: skip
    assert ("'/opt/a python/bin/python3'" in told) == (newest is not None)
    shares = {tier.share for tier in tiers}
    assert shares == set(verdict.BUDGET) - (set() if newest else {"newest Django"})
    assert [tier.env.get("SERVERS") for tier in tiers if tier.env.get("SERVERS")] == [
        "stock", "stock", "pgbouncer", "stock"
    ]  # fmt: skip
    [plans] = [tier for tier in tiers if "tests/integration/test_plans.py" in tier.command]
    assert "test-slow" in plans.command and plans.env["SERVERS"] == "stock"


def test_the_oldest_requirements_are_those_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    oldest = module("oldest", monkeypatch)
    pins = dict(line.split("==", 1) for line in oldest.constraints().splitlines() if "==" in line)
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert len(project["dependencies"]) > 10
    for requirement in project["dependencies"]:
        name, version = oldest.bound(requirement)
        assert pins[name] == version
    with pytest.raises(SystemExit, match="names no oldest version"):
        oldest.bound("django")


def test_the_screens_that_differ_are_screens() -> None:
    assert {*admin.NAMES, *admin.FOR_VIEWERS, *admin.NOTHING} > admin.DIFFERING
    assert set(filling.NAMES) > filling.DIFFERING
