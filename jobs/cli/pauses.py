"""``manage.py jobs pauses``: stop scopes, open them again, see what is closed now."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser

from jobs.cli import acting, operating
from jobs.cli.table import table
from jobs.cli.verb import Options, Verb
from jobs.engine import closures
from jobs.engine.closures import Stop
from jobs.operate import verbs

_ACTIONS = {
    "list": "what is closed now, by pauses and by blackout windows",
}


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, words in _ACTIONS.items():
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("--json", action="store_true", help="answer in JSON")
    for verb in verbs.of_noun("scope"):
        operating.add_action(actions, verb)


def run(options: Options) -> int:
    if options["action"] != "list":
        acting.call(operating.action_of("scope", options["action"]), options)
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
