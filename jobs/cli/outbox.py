"""``manage.py jobs outbox``: see events that could not be published, and decide about them."""

from __future__ import annotations

import dataclasses
import json
import sys
from argparse import ArgumentParser
from typing import Any

from jobs.cli import acting, operating
from jobs.cli.table import table
from jobs.cli.verb import Options, Verb
from jobs.operate import outbox, verbs
from jobs.operate.outbox import Waiting
from jobs.states import OutboxState

_ACTIONS = {
    "list": "events that failed or are parked, and what waits behind them",
}


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, words in _ACTIONS.items():
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("--json", action="store_true", help="answer in JSON")
        action.add_argument(
            "--state",
            action="append",
            choices=[state.value for state in OutboxState],
            help="events in this state instead; may be given more than once",
        )
    for verb in verbs.of_noun("event"):
        operating.add_action(actions, verb)


def run(options: Options) -> int:
    action = options["action"]
    if action != "list":
        return acting.act(operating.action_of("event", action), options, _say)
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


def _say(found: Any, options: Options) -> None:
    if options["json"]:
        sys.stdout.write(json.dumps({"number": options["number"], "done": True}) + "\n")


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


VERB = Verb("outbox", "see events that could not be published, and decide", add_arguments, run)
