"""``manage.py jobs search-backfill KIND``: older jobs are found by fields declared since."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime

from jobs.cli.verb import Options, Verb, positive_int
from jobs.operate.backfill import backfill


def moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time like 2026-11-01T08:30+00:00") from None
    if found.tzinfo is None:
        raise ArgumentTypeError(f"{text!r} has no time zone")
    return found


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", metavar="KIND", help="a kind that declares searchable fields")
    parser.add_argument(
        "--before", type=moment, metavar="TIME", help="go on where another run stopped"
    )
    parser.add_argument(
        "--limit", type=positive_int, metavar="N", help="look at about this many jobs, then stop"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def run(options: Options) -> int:
    looked = filled = 0
    before: datetime | None = options["before"]
    try:
        for portion in backfill(options["kind"], before=before):
            looked, filled = looked + portion.looked, filled + portion.filled
            before = portion.before
            if options["limit"] is not None and looked >= options["limit"]:
                break
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    place = before.isoformat() if before else None
    if options["json"]:
        sys.stdout.write(json.dumps({"looked": looked, "filled": filled, "before": place}) + "\n")
    else:
        sys.stdout.write(f"Looked at {looked} jobs; {filled} are found by more than before.\n")
        if place:
            sys.stdout.write(f"Go on with --before {place}\n")
    return 0


VERB = Verb("search-backfill", "older jobs are found by fields declared since", add_arguments, run)
