"""Documents that attack their readers fail with their code, or are read and do nothing else."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from fileproc import extraction
from fileproc.errors import FileError
from jobs import sandbox
from tests.fileproc import documents, hostile

PARSERS = "tests.sandbox.parsers"
closed = pytest.mark.skipif(
    sandbox.isolation() != "full", reason="this kernel has no Landlock or no seccomp"
)


class Attempt:
    """An attempt that nobody stops."""

    def on_stop(self, callback: Any) -> None: ...

    def checkpoint(self) -> None: ...


def read(folder: Path, name: str, data: bytes) -> extraction.Found:
    path = folder / "document"
    path.write_bytes(data)
    attempt: Any = Attempt()
    return extraction.read(attempt, str(path), name, {})


@pytest.mark.parametrize("case", hostile.FAILING)
def test_an_attack_fails_with_its_code_inside_its_limits(tmp_path: Path, case: str) -> None:
    name, make, codes = hostile.FAILING[case]
    data = make()
    before, begun = psutil.Process().memory_info().rss, time.monotonic()
    with pytest.raises(FileError) as caught:
        read(tmp_path, name, data)
    assert caught.value.code in codes
    assert time.monotonic() - begun < extraction.LIMITS.wall + 5
    assert psutil.Process().memory_info().rss - before < 50 * 1024**2
    assert sorted(os.listdir(tmp_path)) == ["document"]


@pytest.mark.parametrize("case", hostile.HARMLESS)
def test_what_is_read_does_nothing_else(tmp_path: Path, case: str) -> None:
    name, make, wanted = hostile.HARMLESS[case]
    try:
        text = read(tmp_path, name, make()).text
    except FileError as error:
        assert not wanted and error.code in ("TIMEOUT", "CRASHED", "BOMB", "NO_TEXT")
        return
    assert wanted in text
    assert "root:" not in text and "canary" not in text


@pytest.mark.parametrize("kind", documents.EVERY)
def test_every_type_is_read_in_isolation(tmp_path: Path, kind: str) -> None:
    found = read(tmp_path, f"a.{kind}", documents.EVERY[kind])
    assert (found.type, found.isolation) == (kind, sandbox.isolation())


@closed
@pytest.mark.parametrize(
    ("act", "options"),
    [
        ("reads", {"path": "/etc/passwd"}), ("reads", {"path": "/proc/self/environ"}),
        ("lists", {"path": "/"}), ("writes", {"path": "/tmp/fileproc-was-here"}),
        ("connects", {}), ("forks", {}), ("executes", {}), ("kills", {"pid": os.getppid()}),
        ("traces", {"pid": os.getppid()}),
    ],
)  # fmt: skip
def test_a_reader_that_was_taken_over_reaches_nothing(
    tmp_path: Path, act: str, options: dict[str, Any]
) -> None:
    path = tmp_path / "document"
    path.write_bytes(b"words")
    given = {"act": act, **options}
    found = sandbox.run(PARSERS, str(path), extraction.LIMITS, options=given)
    refused = ("PermissionError", "BlockingIOError", "FileNotFoundError", "OSError")
    assert found.status == "error" and found.type in refused, found


def test_what_a_taken_over_reader_answers_is_not_trusted() -> None:
    good = {"text": "abc", "pages": [0], "headings": [], "warnings": [], "type": "pdf",
            "is_table": False, "unread": 0}  # fmt: skip
    assert extraction._checked(good, "full").text == "abc"
    for wrong in (
        {"text": 5}, {"pages": [9]}, {"pages": [2, 1]}, {"headings": [[1]]}, {"type": "exe"},
        {"pages": [-1]}, {"headings": [[5, 1, "x"]]}, {"text": None},
        {"unread": "many"},
    ):  # fmt: skip
        with pytest.raises((KeyError, TypeError, ValueError)):
            extraction._checked({**good, **wrong}, "full")
