"""A parser in a sandbox reads its file, and can do nothing else, whatever that file makes of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from jobs import sandbox
from jobs.errors import InvalidOption
from jobs.sandbox import jail
from tests.wait import wait_until

PARSER = "tests.sandbox.parsers"
SMALL = sandbox.Limits(memory=256 * 1024**2, cpu=1, wall=60, output=1_000_000)
Run = Callable[..., sandbox.Outcome]

closed = pytest.mark.skipif(
    sandbox.isolation() != "full", reason="this kernel has no Landlock or no seccomp"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "document.txt"
    path.write_text("one two\nthree")
    return path


@pytest.fixture
def run(file: Path) -> Run:
    def made(act: str, limits: sandbox.Limits = SMALL, **options: Any) -> sandbox.Outcome:
        return sandbox.run(PARSER, file, limits, options={"act": act, **options})

    return made


def test_what_the_parser_returns_is_the_value(run: Run) -> None:
    found = run("words")
    assert (found.status, found.value) == ("ok", {"words": ["one", "two", "three"]})
    assert found.isolation == sandbox.isolation()
    assert found.cpu > 0 and found.memory > 1024**2


def test_a_parser_lets_everything_else_go_first(run: Run) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert run("priority").value == min(own + jail.NICER, 19)


def test_an_open_file_is_read_from_its_beginning(file: Path) -> None:
    with file.open("rb") as opened:
        opened.read()
        assert sandbox.run(PARSER, opened, SMALL).value == {"words": ["one", "two", "three"]}
    with file.open("r+b") as opened, pytest.raises(InvalidOption, match="reading only"):
        sandbox.run(PARSER, opened, SMALL)


def test_an_exception_of_the_parser_is_an_error(run: Run) -> None:
    found = run("fails")
    assert (found.status, found.type, found.message) == ("error", "ValueError", "page 3 is broken")


def test_values_are_json_that_a_database_takes(run: Run) -> None:
    assert run("unstorable").value == ["a\ufffdb", "\ufffd", "\\u0000"]
    value = {"a": [1, 2.5, None, True, "Łódź 🙂"]}
    assert run("echoes", value=value).value == value
    assert run("lists", path="/nowhere").status == "error"


@pytest.mark.parametrize(
    "module", ["tests.sandbox.absent", "tests.sandbox", "absent", "os;print", "", "__main__", "sys"]
)
def test_a_module_that_is_none_is_named(module: str, file: Path) -> None:
    with pytest.raises(InvalidOption, match="module"):
        sandbox.run(module, file, SMALL)


@pytest.mark.parametrize(
    ("name", "value"), [("cpu", 0), ("memory", 1), ("wall", "5"), ("output", True), ("cpu", 1.5)]
)
def test_a_limit_that_is_none_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidOption, match=name):
        sandbox.Limits(**{name: value})


@closed
@pytest.mark.parametrize(
    ("act", "options"),
    [
        ("reads", {"path": "/etc/passwd"}),
        ("reads", {"path": "/proc/self/environ"}),
        ("reads", {"path": str(Path(__file__).parents[2] / "pyproject.toml")}),
        ("lists", {"path": "/"}),
        ("connects", {}),
        ("forks", {}),
        ("executes", {}),
        ("kills", {"pid": os.getpid()}),
        ("sends_thread_signal", {"pid": os.getpid()}),
        ("limits_others", {"pid": os.getppid()}),
        ("traces", {"pid": os.getpid()}),
        ("changes_groups", {}),
    ],
)
def test_it_reaches_nothing_outside(run: Run, act: str, options: dict[str, Any]) -> None:
    found = run(act, **options)
    assert (found.status, found.type) == ("error", "PermissionError"), found


@closed
@pytest.mark.parametrize("act", ["writes", "changes_mode", "removes"])
def test_it_changes_no_file(run: Run, act: str, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("as it was")
    own.chmod(0o600)
    found = run(act, path=str(own))
    assert (found.status, found.type) == ("error", "PermissionError"), found
    assert own.read_text() == "as it was" and own.stat().st_mode & 0o777 == 0o600


def test_its_own_file_stays_as_it_was(run: Run, file: Path) -> None:
    assert run("truncates").status == "error"
    assert file.read_text() == "one two\nthree"


def test_it_sees_no_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "of somebody")
    monkeypatch.setenv("PYTHONPATH", "/")
    found = run("environment").value
    assert "of somebody" not in json.dumps(found) and "PYTHONPATH" not in found


@pytest.mark.parametrize(
    ("act", "status"),
    [
        ("eats_memory", "oom"),
        ("spins", "cpu_limit"),
        ("huge", "output_limit"),
        ("aborts", "crashed"),
        ("segfaults", "crashed"),
        ("ends", "crashed"),
        ("deep", "crashed"),
        ("crowded", "crashed"),
    ],
)
def test_what_it_does_to_itself_ends_with_it(run: Run, act: str, status: str) -> None:
    assert run(act).status == status


def test_a_parser_that_waits_is_ended(run: Run) -> None:
    assert run("sleeps", sandbox.Limits(wall=1.0)).status == "timeout"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "null", '{"status": "ok"', '{"status": "ok", "value": NaN}', "\xff\xfe",
        '{"status": "ok", "value": "\xff"}', '{"status": ["ok"]}', '{"status": "odd"}',
        '{"status": "ok", "value": %s}' % ("9" * 5000), "[" * 5000, '{"status":"ok"}{}',
    ],
)  # fmt: skip
def test_garbage_is_a_crash(run: Run, text: str) -> None:
    found = run("says", text=text)
    assert (found.status, found.value) == ("crashed", None)


def test_a_forged_result_is_one_of_the_parser(run: Run) -> None:
    """Nobody can tell it from a true one; it says nothing of how the parser was isolated."""
    forged = '{"landlock": 9, "seccomp": false, "status": "ok", "value": 7}\n'
    found = run("says", text=forged)
    assert (found.status, found.value, found.isolation) == ("ok", 7, sandbox.isolation())


def test_a_kernel_that_knows_neither_limits_only(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(jail.__file__).read_text()
    old = text.replace("machine not in _DENIED", "machine").replace(
        "if not version:", "if version:"
    )
    assert old != text
    (tmp_path / "jail.py").write_text(old)
    monkeypatch.setattr(jail, "__file__", str(tmp_path / "jail.py"))

    assert run("reads", path="/etc/passwd").status == "ok"
    found = run("words")
    assert (found.status, found.isolation) == ("ok", "partial")
    assert run("eats_memory").status == "oom"
    assert run("spins").status == "cpu_limit"
    # What it has started meanwhile goes with it.
    before = _children()
    assert run("forks").isolation == "partial"
    wait_until(lambda: _children() <= before, 10, message="no child is left")


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def test_a_process_that_ignores_its_children_gets_a_result(run: Run) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run("words").status == "ok"
        assert run("aborts").status == "crashed"
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_it_dies_with_its_parent(file: Path) -> None:
    """The parent has no time to end it."""
    lines = (
        "import os, signal, threading, time",
        "from jobs import sandbox",
        f"run = lambda: sandbox.run({PARSER!r}, {str(file)!r}, options={{'act': 'sleeps'}})",
        "threading.Thread(target=run, daemon=True).start()",
        "print(os.getpid(), flush=True)",
        "time.sleep(60)",
    )
    program = psutil.Popen([sys.executable, "-c", "\n".join(lines)], cwd=Path(__file__).parents[2])
    try:
        wait_until(lambda: program.children(), 30, message="it parses")
        [child] = program.children()
        wait_until(lambda: child.cpu_times().user > 0, 30, message="it has locked itself in")
    finally:
        program.kill()
        program.wait()
    wait_until(lambda: not _is_alive(child), 10, message="it is gone")


def _is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_parser_is_stopped_from_another_thread(file: Path) -> None:
    callbacks: list[Callable[[str], object]] = []

    def on_stop(callback: Callable[[str], object]) -> None:
        callbacks.append(callback)
        threading.Timer(0.2, callback, ["cancelled"]).start()

    options = {"act": "sleeps"}
    found = sandbox.run(PARSER, file, SMALL, options=options, on_stop=on_stop)
    assert (found.status, found.value) == ("stopped", None)
    assert not [child for child in psutil.Process().children() if "jail.py" in str(child.cmdline())]
    callbacks[0]("late")  # nobody is killed who has the number by now


def test_a_parser_that_is_stopped_before_it_begins_ends_at_once(file: Path) -> None:
    limits = sandbox.Limits(memory=256 * 1024**2, wall=600)
    found = sandbox.run(
        PARSER, file, limits, options={"act": "sleeps"}, on_stop=lambda callback: callback("now")
    )
    assert (found.status, found.isolation) == ("stopped", "partial")


def test_a_callback_that_is_never_called_changes_nothing(file: Path) -> None:
    found = sandbox.run(PARSER, file, SMALL, on_stop=lambda callback: None)
    assert found.status == "ok"
