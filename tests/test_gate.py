"""The gate runs its tiers side by side, hides nothing and leaves nothing behind."""

from __future__ import annotations

import importlib.util
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.wait import wait_until

CHECKOUT = Path(__file__).resolve().parents[1]
SCRIPT = CHECKOUT / ".ci" / "gate.py"


@pytest.fixture(scope="module")
def gate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# A tier that says so when it is interrupted, and would else go on for ever.
STUBBORN = "trap 'echo tidied; exit 0' INT; touch {folder}/begun; while :; do sleep 0.05; done"


def test_tiers_run_side_by_side_and_after_those_they_need(
    gate: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    meet = "touch {0}/{1}; until test -e {0}/{2}; do sleep 0.01; done"
    tiers = [
        gate.Tier("First", f"touch {tmp_path}/first"),
        gate.Tier("Second", f"test -e {tmp_path}/first; echo $JOBDESK_DATA", ["First"]),
        gate.Tier("Left", meet.format(tmp_path, "left", "right"), ["First"]),
        gate.Tier("Right", meet.format(tmp_path, "right", "left"), ["Second"]),
    ]
    assert gate.Gate(tiers, lanes=2, output=tmp_path / "out").run()
    told = capfd.readouterr().out
    assert re.findall(r"^passed +\d+ s  (\w+)$", told, re.MULTILINE)[:2] == ["First", "Second"]
    assert re.search(r"^/.+lane-[01]$", told, re.MULTILINE)


def test_the_first_failure_ends_the_others_and_is_told_last(
    gate: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fail = (
        f"until test -e {tmp_path}/begun; do sleep 0.01; done; "
        "echo all of it; echo 'FAILED tests/a.py::test_b - no'; exit 3"
    )
    tiers = [
        gate.Tier("Stubborn", STUBBORN.format(folder=tmp_path)),
        gate.Tier("Failing", fail),
        gate.Tier("Never", "echo never"),
    ]
    run = gate.Gate(tiers, lanes=2, output=tmp_path / "out")
    assert not run.run()
    told = capfd.readouterr().out
    assert not any(map(alive, (tier.process.pid for tier in run.running.values())))
    assert "tidied" in told and "all of it" in told
    assert told.index("tidied") < told.index("all of it")
    assert told.splitlines()[-4:] == [
        "ended early           Stubborn",
        "not begun             Never",
        f"FAILED                Failing  ({fail})",
        "    FAILED tests/a.py::test_b - no",
    ]


RUN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("gate", sys.argv[1])
gate = importlib.util.module_from_spec(spec)
sys.modules["gate"] = gate
spec.loader.exec_module(gate)
from pathlib import Path
gate.tiers = lambda newest: [gate.Tier("Stubborn", sys.argv[2])]
gate.OUTPUT = Path(sys.argv[3])
sys.exit(gate.main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_interrupts_it_leaves_nothing_behind(
    number: signal.Signals, tmp_path: Path
) -> None:
    stubborn = f"echo $$ > {tmp_path}/pid; {STUBBORN.format(folder=tmp_path)}"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(SCRIPT), stubborn, str(tmp_path / "out")],
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
    gate: ModuleType, newest: str | None
) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    tiers = gate.tiers(newest)
    names = [tier.name for tier in tiers]
    assert len(set(names)) == len(names)
    for number, tier in enumerate(tiers):
        assert set(tier.after) <= set(names[:number])
        if tier.command != gate.BROWSER:
            assert tier.command.split()[0] == "make" and tier.command.split()[1] in targets
    told = " ".join(tier.command for tier in tiers)
    wanted = {"setup", "check", "test", "test-slow", "test-browser"}
    assert wanted == set(re.findall(r"make ([a-z-]+)", told))
    assert ("'/opt/a python/bin/python3'" in told) == (newest is not None)
