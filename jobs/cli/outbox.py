"""``manage.py jobs outbox``: see events that could not be told, and decide about them."""

from __future__ import annotations

import dataclasses
import json
import sys
from argparse import ArgumentParser

from jobs.cli.people import person
from jobs.cli.table import table
from jobs.cli.verb import Options, Verb, positive_int
from jobs.operate import outbox
from jobs.operate.outbox import Waiting
from jobs.states import OutboxState

_ACTIONS = {
    "list": "events that failed or are parked, and what waits behind them",
    "publish": "tell a failed or parked event next",
    "park": "do not tell an event until somebody says so",
    "discard": "never tell an event; what waits for it goes on",
}


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, words in _ACTIONS.items():
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("--json", action="store_true", help="answer in JSON")
        if name == "list":
            action.add_argument(
                "--state",
                action="append",
                choices=[state.value for state in OutboxState],
                help="events in this state instead; may be given more than once",
            )
        else:
            action.add_argument(
                "number", type=positive_int, metavar="NUMBER", help="as the list shows it"
            )
            action.add_argument("--reason", required=True, help="why, for the record")


def run(options: Options) -> int:
    action = options["action"]
    if action != "list":
        decide = {"publish": outbox.publish, "park": outbox.park, "discard": outbox.discard}
        decide[action](options["number"], by=person(), reason=options["reason"])
        if options["json"]:
            sys.stdout.write(json.dumps({"number": options["number"], "done": True}) + "\n")
        return 0
    found = outbox.events(*options["state"] or (), limit=outbox.LIMIT)
    if options["json"]:
        rows = [dataclasses.asdict(waiting) for waiting in found]
        sys.stdout.write(json.dumps(rows, indent=2, default=str) + "\n")
    elif found:
        head = ("NUMBER", "TOPIC", "STATE", "KEY", "HOLDS BACK", "TRIES", "ERROR")
        sys.stdout.write(table(head, [_row(waiting) for waiting in found]))
    else:
        sys.stdout.write("Nothing is stuck.\n")
    return 0


def _row(waiting: Waiting) -> tuple[str, ...]:
    return (
        str(waiting.number),
        waiting.topic,
        waiting.state.value,
        waiting.key or "-",
        str(waiting.holds_back),
        str(waiting.tries),
        waiting.error[:60],
    )


VERB = Verb("outbox", "see events that could not be told, and decide", add_arguments, run)
