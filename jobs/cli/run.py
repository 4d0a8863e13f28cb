"""``manage.py jobs run``: everything that one machine needs, together."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from jobs.cli.verb import Options, Verb, add_sizes, positive_int, weighted_queues
from jobs.cli.web import address
from jobs.engine.foreman import Foreman, Program, manage


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--web",
        type=address,
        metavar="[HOST:]PORT",
        help="serve pages, API and live events, too, at this address",
    )
    parser.add_argument(
        "--workers", type=positive_int, default=1, metavar="N", help="workers (default: 1)"
    )
    parser.add_argument(
        "--queues",
        type=_checked_queues,
        metavar="NAME[:WEIGHT],…",
        help="queues of the workers (default: every queue that a handler names)",
    )
    add_sizes(parser, "executors of each worker")


def _checked_queues(text: str) -> str:
    weighted_queues(text)
    return text


def programs(options: Options) -> list[Program]:
    """What is to be kept running."""
    arguments = [f"--{n}={options[n]}" for n in ("concurrency", "processes")]
    if options["queues"]:
        arguments.append(f"--queues={options['queues']}")
    found = [manage("dispatcher", "jobs", "dispatch")]
    for number in range(1, options["workers"] + 1):
        found.append(manage(f"worker-{number}", "jobs", "worker", *arguments))
    if options["web"]:
        found.append(manage("web", "jobs", "web", options["web"]))
    return found


def run(options: Options) -> int:
    return Foreman(programs(options), _print).run()


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


VERB = Verb("run", "run dispatcher, workers and perhaps a web server", add_arguments, run)
