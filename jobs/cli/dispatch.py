"""``manage.py jobs dispatch``: feed the queues and repair what got lost."""

from __future__ import annotations

from argparse import ArgumentParser

from jobs.cli.verb import Options, Verb
from jobs.engine.dispatch import Dispatcher
from jobs.engine.worker import worker_name


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--name", help="name of this dispatcher (default: host, process and mark)")


def run(options: Options) -> int:
    Dispatcher(options["name"] or worker_name()).run()
    return 0


VERB = Verb(
    "dispatch",
    "feed the queues and repair what got lost (any number may run)",
    add_arguments,
    run,
    is_service=True,
)
