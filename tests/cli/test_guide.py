"""docs/cli.md tells of every command, and what it shows can be typed."""

from __future__ import annotations

import re
import shlex
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator

import pytest

from jobs.cli import operating
from jobs.cli.verb import Verb
from jobs.management.commands.jobs import Command, commands
from tests.cli import document

TEXT = document.FILE.read_text()
BLOCKS = "".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))
SHOWN = re.findall(r"manage\.py jobs ([a-z][^|)\n]*)", BLOCKS)
JOB = "01a1ef9b-5457-7f30-8b9d-f425d8cc20ab"


def test_every_command_is_in_the_table() -> None:
    assert document.written(TEXT) == TEXT, "run `python -m tests.cli.document`"
    assert all(f"| `{name}" in TEXT for name in commands())


@pytest.mark.parametrize("line", SHOWN)
def test_what_is_shown_can_be_typed(line: str) -> None:
    parser: ArgumentParser = Command().create_parser("manage.py", "jobs")
    words = shlex.split(line.replace('"$id"', JOB))
    assert parser.parse_args(words).verb == words[0]


def helps(parser: ArgumentParser) -> Iterator[tuple[str, str]]:
    """Every help text of a command, its arguments and its sub-commands."""
    if parser.description:
        yield parser.prog, parser.description
    for one in parser._actions:
        if isinstance(one, _SubParsersAction):
            for told in one._choices_actions:
                yield f"{parser.prog} {told.dest}", told.help or ""
            for inner in one.choices.values():
                yield from helps(inner)
        elif one.help:
            yield f"{parser.prog} {one.dest}", one.help


def test_every_help_text_is_a_phrase_or_a_whole_sentence() -> None:
    found = [text for verb in commands().values() for text in helps(parser_of(verb))]
    sentences = [one for one in found if one[1][0].isupper()]
    assert len(sentences) > 40
    assert [one for one in sentences if not one[1].endswith(".")] == []
    phrases = [one for one in found if one not in sentences]
    assert [one for one in phrases if one[1].endswith((".", ",", ";", ":"))] == []


def parser_of(verb: Verb) -> ArgumentParser:
    parser = ArgumentParser(prog=verb.name, description=verb.help)
    verb.add_arguments(parser)
    return parser


def test_help_is_the_first_paragraph_of_a_docstring() -> None:
    def act() -> None:
        """One that goes on
        to 100 % of it.

        More of it.
        """

    assert operating.help_of(act) == "One that goes on to 100 %% of it."
