"""``manage.py jobs explain``: why a job does not run."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from uuid import UUID

from jobs.cli.verb import Options, Verb
from jobs.operate.explain import explain


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", type=job_id, metavar="ID", help="the job's id")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def job_id(text: str) -> UUID:
    """An argument that is a job's id."""
    try:
        return UUID(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no job id") from None


def run(options: Options) -> int:
    found = explain(options["id"])
    if options["json"]:
        sys.stdout.write(json.dumps(found.as_data(), indent=2) + "\n")
    else:
        sys.stdout.write(f"{found.job_id}  {found.state or 'unknown'}\n")
        sys.stdout.writelines(f"  {reason.text}\n" for reason in found.reasons)
    return 0 if found.state else 1


VERB = Verb("explain", "say why a job is not running", add_arguments, run)
