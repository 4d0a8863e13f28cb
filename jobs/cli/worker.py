"""``manage.py jobs worker``: execute the jobs of some queues."""

from __future__ import annotations

import logging
from argparse import ArgumentParser

from jobs import registry
from jobs.cli.groups import WORKERS, declared, get, queues_of
from jobs.cli.verb import SIZES, Options, Verb, add_sizes, positive_int, weighted_queues
from jobs.engine import capacity, sql
from jobs.engine.executor import Plan
from jobs.engine.worker import Supervisor, worker_name
from jobs.groups import Queues

log = logging.getLogger("jobs.worker")


def add_arguments(parser: ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--queues",
        type=weighted_queues,
        metavar="NAME[:WEIGHT],…",
        help="queues to listen to, each with an optional weight, like email,default:2 "
        "(default: every queue that a handler names)",
    )
    what.add_argument(
        "--group",
        metavar="NAME",
        help=f"be a worker of this group of {WORKERS}: its queues, and its sizes unless given here",
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
    group = options["group"] or ""
    sizes = {**SIZES, **(get(group).sizes if group else {})}
    sizes |= {name: options[name] for name in SIZES if options[name]}
    plan = Plan(
        worker=options["name"] or worker_name(group),
        queues=_queues(options),
        concurrency=sizes["concurrency"],
        burst=options["burst"],
        max_jobs=options["max_jobs"],
        max_memory=options["max_memory"],
    )
    database = sql.connection().settings_dict
    if problem := capacity.pool_problem(database, plan.concurrency):
        log.warning("%s", problem)
    return Supervisor(plan, sizes["processes"]).run()


def _queues(options: Options) -> Queues:
    if given := options["queues"]:
        return tuple(given)
    if group := options["group"]:
        return queues_of(group, every_queue())
    if names := list(declared()):
        log.warning(
            "%s declares %s, and this worker listens to all queues: jobs that they keep apart "
            "share its processes; give --group", WORKERS, ", ".join(names),
        )  # fmt: skip
    return tuple((name, 1) for name in every_queue())


def every_queue() -> list[str]:
    """The queues that some handler names."""
    return sorted({handler.queue for handler in registry.handlers()}) or ["default"]


VERB = Verb("worker", "execute the jobs of some queues", add_arguments, run, is_service=True)
