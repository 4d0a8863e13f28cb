"""``manage.py jobs queues``: how queues stand; pause and resume one, limit it for a while."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from jobs import scopes
from jobs.cli import acting, operating
from jobs.cli.answers import say_json, say_one, say_rows
from jobs.cli.people import person
from jobs.cli.verb import Options
from jobs.cli.verb import Verb as Command
from jobs.operate import overview, verbs
from jobs.operate.verbs import Verb

_ACTIONS = {
    "pause": "scope.pause",
    "resume": "scope.resume",
    "override": "limit.set",
    "end-override": "limit.end_override",
}
"""Verbs that are done to the scope of a queue."""
_COLUMNS = (
    "name", "paused", "waiting", "running", "scheduled", "retrying", "oldest", "slots", "limit",
)  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    words = "every queue, what waits in it, for how long, and why nothing starts"
    seen = actions.add_parser("list", help=words, description=words)
    seen.add_argument("--json", action="store_true", help="answer in JSON")
    for name, verb in _verbs().items():
        action = operating.add_action(actions, verb, name, without=("scope",))
        action.add_argument("name", metavar="NAME", help="the queue's name")


def _verbs() -> dict[str, Verb]:
    found = {name: verbs.find(verb) for name, verb in _ACTIONS.items()}
    return {name: verb for name, verb in found.items() if verb is not None}


def run(options: Options) -> int:
    action, is_json = options["action"], options["json"]
    if action == "list":
        _list(is_json)
        return 0
    scope = scopes.checked(f"queue:{options['name']}")
    answer: dict[str, Any] = {"scope": scope}
    found = acting.call(_verbs()[action], options, {"scope": scope})
    if action == "resume":
        answer["resumed"] = found
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
    found = overview.queues(by=person())
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


VERB = Command("queues", "see queues; pause, resume and limit one", add_arguments, run)
