"""``manage.py jobs queues``: how queues stand; pause and resume one, limit it for a while."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from jobs import scopes
from jobs.cli.answers import say_json, say_one, say_rows
from jobs.cli.people import person
from jobs.cli.schedules import moment
from jobs.cli.verb import Options, Verb, positive_int
from jobs.operate import overview, pauses
from jobs.operate import queues as limits

_ACTIONS = {
    "list": "every queue, what waits in it, for how long, and why nothing starts",
    "pause": "start nothing more of it; what runs runs on",
    "resume": "let it go on",
    "override": "another limit than the usual one, until a moment or until it is ended",
    "end-override": "the usual limit holds again",
}
_COLUMNS = (
    "name", "paused", "waiting", "running", "scheduled", "retrying", "oldest", "slots", "limit",
)  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, words in _ACTIONS.items():
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("--json", action="store_true", help="answer in JSON")
        if name == "list":
            continue
        action.add_argument("name", metavar="NAME", help="the queue's name")
        action.add_argument("--reason", required=True, help="why, for the record")
        if name in ("pause", "override"):
            action.add_argument(
                "--until", type=moment, metavar="TIME", help="until then, like 2030-01-31T18:00Z"
            )
        if name == "override":
            action.add_argument("--at-once", type=positive_int, metavar="N", help="jobs at a time")
            action.add_argument("--rate", metavar="RATE", help="like 100/s")


def run(options: Options) -> int:
    action, is_json = options["action"], options["json"]
    if action == "list":
        _list(is_json)
        return 0
    who: dict[str, Any] = {"by": person(), "reason": options["reason"]}
    scope = scopes.checked(f"queue:{options['name']}")
    answer: dict[str, Any] = {"scope": scope}
    if action == "pause":
        pauses.pause(scope, until=options["until"], **who)
    elif action == "resume":
        answer["resumed"] = pauses.resume(scope, **who)
    elif action == "override":
        wanted = {name: options[name] for name in ("at_once", "rate", "until")}
        limits.set_limit(scope, **wanted, **who)
    else:
        limits.end_override(scope, **who)
    say_one(answer if is_json else "done", is_json)
    return 0


class _Row:
    """A queue on one line."""

    def __init__(self, row: overview.QueueRow) -> None:
        for name in ("waiting", "running", "scheduled", "retrying", "slots"):
            setattr(self, name, str(getattr(row.depth, name)))
        self.name, self.paused, self.limit = row.name, row.paused, row.limit
        self.oldest = f"{row.depth.oldest:.0f} s" if row.depth.oldest else None


def _list(is_json: bool) -> None:
    found = overview.overview(by=person()).queues
    if is_json:
        say_json([{"name": r.name, "paused": r.paused, "limit": r.limit, **_numbers(r)}
                  for r in found])  # fmt: skip
    else:
        say_rows(map(_Row, found), _COLUMNS, False, "There is no queue.")


def _numbers(row: overview.QueueRow) -> dict[str, Any]:
    depth = row.depth
    counts = {
        name: getattr(depth, name) for name in ("waiting", "running", "scheduled", "retrying")
    }
    return {**{name: count.value for name, count in counts.items()},
            "capped": any(count.capped for count in counts.values()),
            "oldest_seconds": depth.oldest, "slots": depth.slots}  # fmt: skip


VERB = Verb("queues", "see queues; pause, resume and limit one", add_arguments, run)
