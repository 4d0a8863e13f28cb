"""What a sub-command is made of."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jobs import groups
from jobs.cli.groups import WORKERS
from jobs.engine import capacity

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verb:
    """A sub-command: its name, one line of help, its arguments, and what it does."""

    name: str
    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Options], int]
    """Answers the exit code."""
    is_service: bool = False
    """Whether it runs until it is stopped, and so has to write its log somewhere."""
    is_checked: bool = True
    """Whether the checks of the project come first."""


def positive_int(text: str) -> int:
    """An argument that must be a whole number above zero."""
    try:
        value = int(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def weighted_queues(text: str) -> tuple[tuple[str, int], ...]:
    """An argument like ``email,default:2``: names, each with an optional weight."""
    try:
        return groups.weighted(text.split(","))
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


SIZES = {"concurrency": capacity.CONCURRENCY, "processes": 2}
"""Of a worker, unless the command line or its group declares others."""


def add_sizes(parser: ArgumentParser, executors: str) -> None:
    """The command takes how many executors there are, and how much each does at a time."""
    group = f"(default: {{}}, or that of its group in {WORKERS})"
    parser.add_argument(
        "--concurrency",
        type=positive_int,
        metavar="N",
        help="handlers that one executor runs at the same time "
        + group.format(SIZES["concurrency"]),
    )
    parser.add_argument(
        "--processes",
        type=positive_int,
        metavar="N",
        help=f"{executors} {group.format(SIZES['processes'])}",
    )
