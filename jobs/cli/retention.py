"""``manage.py jobs retention``: delete what was kept long enough, now."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections import Counter

from jobs.cli.table import table
from jobs.cli.verb import Options, Verb
from jobs.engine import retention


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="count only, delete nothing")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def run(options: Options) -> int:
    total: Counter[str] = Counter()
    for portion in retention.sweep(dry_run=options["dry_run"]):
        total.update(portion.rows)
    rows = {name: count for name, count in sorted(total.items()) if count}
    if options["json"]:
        sys.stdout.write(json.dumps(rows) + "\n")
    elif rows:
        head = ("TABLE", "WOULD GO" if options["dry_run"] else "GONE")
        sys.stdout.write(table(head, rows.items()))
    else:
        sys.stdout.write("Nothing has been kept long enough.\n")
    return 0


VERB = Verb("retention", "delete what was kept long enough (dispatchers do it, too)",
            add_arguments, run)  # fmt: skip
