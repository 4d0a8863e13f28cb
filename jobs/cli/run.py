"""``manage.py jobs run``: everything that one machine needs, together."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import suppress

from jobs.cli import ports, web
from jobs.cli.groups import WORKERS, declared, get
from jobs.cli.verb import SIZES, Options, Verb, add_sizes, positive_int, weighted_queues
from jobs.engine.foreman import Foreman, Program, manage


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--web",
        type=web.address,
        metavar="[HOST:]PORT",
        help="serve pages, API and live events, too, at this address",
    )
    parser.add_argument(
        "--workers",
        type=positive_int,
        default=1,
        metavar="N",
        help="workers, of each group (default: 1)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--queues",
        type=_checked_queues,
        metavar="NAME[:WEIGHT],…",
        help=f"queues of the workers (default: the groups in {WORKERS}; without any, every queue "
        "that a handler names)",
    )
    what.add_argument(
        "--group",
        action="append",
        metavar="NAME",
        help=f"start this group of {WORKERS} and not the others; may be given more than once",
    )
    add_sizes(parser, "executors of each worker")


def _checked_queues(text: str) -> str:
    weighted_queues(text)
    return text


def programs(options: Options) -> list[Program]:
    """What is to be kept running."""
    found = [manage("dispatcher", "jobs", "dispatch"), *_workers(options)]
    if options["web"]:
        found.append(manage("web", "jobs", "web", options["web"]))
    return found


def _workers(options: Options) -> Iterator[Program]:
    sizes = [f"--{name}={options[name]}" for name in SIZES if options[name]]
    if options["queues"]:
        sizes.append(f"--queues={options['queues']}")
    chosen = options["group"] or ([] if options["queues"] else [*declared()])
    names = dict.fromkeys(get(name).name for name in chosen)
    for number in range(1, options["workers"] + 1):
        if not names:
            yield manage(f"worker-{number}", "jobs", "worker", *sizes)
        for name in names:
            yield manage(f"{name}-{number}", "jobs", "worker", f"--group={name}", *sizes)


def run(options: Options) -> int:
    foreman = Foreman(programs(options), write)
    if options["web"]:
        web.application()
        ports.check_free(options["web"])
        foreman.say(f"pages are served at http://{options['web']}/")
    return foreman.run()


def write(text: str) -> None:
    """Write the text if it can be written: the programs do not end with their log.

    Unbuffered, so that nothing is left to be written when the interpreter ends.
    """
    if sys.stdout is not None:  # it is when the descriptor was closed, and may be another's now
        with suppress(OSError, ValueError):
            os.write(sys.stdout.fileno(), text.encode(errors="replace"))


VERB = Verb(
    "run",
    "run dispatcher, workers and perhaps a web server",
    add_arguments,
    run,
    is_service=True,
)
