"""``manage.py jobs worker``: execute the jobs of some queues."""

from __future__ import annotations

from argparse import ArgumentParser

from jobs import registry
from jobs.cli.verb import Options, Verb, add_sizes, positive_int, weighted_queues
from jobs.engine.executor import Plan
from jobs.engine.worker import Supervisor, worker_name


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--queues",
        type=weighted_queues,
        metavar="NAME[:WEIGHT],…",
        help="queues to listen to, each with an optional weight, like email,default:2 "
        "(default: every queue that a handler names)",
    )
    add_sizes(parser, "executors, each a process of its own")
    parser.add_argument("--name", help="name of this worker (default: host, process and a mark)")
    parser.add_argument("--burst", action="store_true", help="end when nothing is left that is due")
    parser.add_argument(
        "--max-jobs",
        type=positive_int,
        metavar="N",
        help="replace an executor after this many jobs",
    )
    parser.add_argument(
        "--max-memory",
        type=positive_int,
        metavar="MIB",
        help="replace an executor that holds more memory than this",
    )


def run(options: Options) -> int:
    plan = Plan(
        worker=options["name"] or worker_name(),
        queues=options["queues"] or every_queue(),
        concurrency=options["concurrency"],
        burst=options["burst"],
        max_jobs=options["max_jobs"],
        max_memory=options["max_memory"],
    )
    return Supervisor(plan, options["processes"]).run()


def every_queue() -> tuple[tuple[str, int], ...]:
    """The queues that some handler names, with equal weights."""
    names = sorted({handler.queue for handler in registry.handlers()})
    return tuple((name, 1) for name in names or ["default"])


VERB = Verb("worker", "execute the jobs of some queues", add_arguments, run)
