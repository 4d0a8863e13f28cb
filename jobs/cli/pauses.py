"""``manage.py jobs pauses``: stop scopes, open them again, see what is closed now."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser

from jobs.cli.people import person
from jobs.cli.schedules import moment
from jobs.cli.table import table
from jobs.cli.verb import Options, Verb
from jobs.engine import closures
from jobs.engine.closures import Stop
from jobs.operate.pauses import pause, resume

_ACTIONS = {
    "list": "what is closed now, by pauses and by blackout windows",
    "pause": "start nothing more of a scope; what runs runs on",
    "resume": "let a paused scope go on",
}


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, words in _ACTIONS.items():
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("--json", action="store_true", help="answer in JSON")
        if name != "list":
            action.add_argument(
                "scope", metavar="SCOPE", help="queue:NAME, kind:KIND, tenant:TENANT or key:KEY"
            )
            action.add_argument("--reason", required=True, help="why, for the record")
        if name == "pause":
            action.add_argument(
                "--until",
                type=moment,
                metavar="TIME",
                help="resume by itself then, like 2030-01-31T18:00+01:00",
            )


def run(options: Options) -> int:
    if options["action"] == "pause":
        pause(options["scope"], by=person(), reason=options["reason"], until=options["until"])
    elif options["action"] == "resume":
        resume(options["scope"], by=person(), reason=options["reason"])
    found = closures.stops()
    if options["json"]:
        sys.stdout.write(json.dumps([as_data(stop) for stop in found], indent=2) + "\n")
    else:
        rows = [(stop.scope, _until(stop) or "-", stop.words) for stop in found]
        sys.stdout.write(table(("CLOSED", "UNTIL", "WHY"), rows) if rows else "All is open.\n")
    return 0


def as_data(stop: Stop) -> dict[str, str | None]:
    """The stop for JSON."""
    return {
        "scope": stop.scope,
        "what": stop.what,
        "until": _until(stop),
        "reason": stop.reason,
        "by": stop.by or None,
    }


def _until(stop: Stop) -> str | None:
    return None if stop.until is None else stop.until.isoformat()


VERB = Verb("pauses", "stop scopes and open them again", add_arguments, run)
