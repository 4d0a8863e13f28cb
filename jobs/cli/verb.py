"""What a sub-command is made of."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.names import name_problem

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verb:
    """A sub-command: its name, one line of help, its arguments, and what it does."""

    name: str
    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Options], int]
    """Answers the exit code."""


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
    """An argument like ``email,default:2``: names, each with an optional weight.

    Names may contain colons themselves; only a last part that is a number is a weight.
    """
    queues: dict[str, int] = {}
    for item in text.split(","):
        name, _, last = item.strip().rpartition(":")
        if name and last.isascii() and last.isdigit():
            weight = int(last[:9])
        else:
            name, weight = item.strip(), 1
        if problem := name_problem(name):
            raise ArgumentTypeError(f"queue {problem}")
        if not 1 <= weight <= 1000:
            raise ArgumentTypeError(f"the weight of {name!r} must lie between 1 and 1000")
        if name in queues:
            raise ArgumentTypeError(f"queue {name!r} is given twice")
        queues[name] = weight
    return tuple(queues.items())


def add_sizes(parser: ArgumentParser, executors: str) -> None:
    """The command takes how many executors there are, and how much each does at a time."""
    parser.add_argument(
        "--concurrency",
        type=positive_int,
        default=8,
        metavar="N",
        help="handlers that one executor runs at the same time (default: 8)",
    )
    parser.add_argument(
        "--processes", type=positive_int, default=2, metavar="N", help=f"{executors} (default: 2)"
    )
