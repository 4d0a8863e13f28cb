"""docs/cli.md tells of every command, and what it shows can be typed."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser

import pytest

from jobs.management.commands.jobs import VERBS, Command
from tests.cli import document

TEXT = document.FILE.read_text()
BLOCKS = "".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))
SHOWN = re.findall(r"manage\.py jobs ([a-z][^|)\n]*)", BLOCKS)
JOB = "01a1ef9b-5457-7f30-8b9d-f425d8cc20ab"


def test_every_command_is_in_the_table() -> None:
    assert document.written(TEXT) == TEXT, "run `python -m tests.cli.document`"
    assert all(f"| `{name}" in TEXT for name in VERBS)


@pytest.mark.parametrize("line", SHOWN)
def test_what_is_shown_can_be_typed(line: str) -> None:
    parser: ArgumentParser = Command().create_parser("manage.py", "jobs")
    words = shlex.split(line.replace('"$id"', JOB))
    assert parser.parse_args(words).verb == words[0]
