"""``manage.py jobs bulk``: act on many jobs at once, watch it, abort it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from jobs.cli import acting, operating, watch
from jobs.cli.answers import say, say_json, say_one, say_rows
from jobs.cli.people import person
from jobs.cli.verb import Options, Verb, positive_int
from jobs.operate import bulk, verbs
from jobs.operate.bulk import ACTIONS
from jobs.operate.parameters import Parameter

_ACTIONS = {
    "list": "the newest operations",
    "show": "one operation, how far and how fast",
    "items": "what became of each job",
    "run": "begin one, after a look at what it would do",
}


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, words in _ACTIONS.items():
        if name == "run" and verbs.find("bulk.start") is None:
            continue
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("--json", action="store_true", help="answer in JSON")
        if name == "run":
            _add_run(action)
        elif name == "list":
            action.add_argument("--limit", type=positive_int, default=50, metavar="N")
        else:
            action.add_argument("id", type=acting.uuid, metavar="ID", help="of the operation")
        if name == "items":
            action.add_argument("--state", choices=("waiting", "done", "skipped", "failed"))
            action.add_argument("--after", type=int, default=0, metavar="NUMBER")
            action.add_argument("--limit", type=positive_int, default=100, metavar="N")
    for verb in verbs.of_noun("bulk"):
        if not verb.is_new:
            operating.add_action(actions, verb)


def _add_run(parser: ArgumentParser) -> None:
    parser.add_argument("what", choices=sorted(ACTIONS), metavar="WHAT", help=", ".join(ACTIONS))
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--where", metavar="QUERY", help="like 'state:failed kind:mail.*'")
    which.add_argument("--ids", nargs="+", metavar="ID", help="of jobs, or of dead letters")
    parser.add_argument("--dry-run", action="store_true", help="say what it would do, and stop")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--reason", default="", help="why, for the record (unless --dry-run)")
    acting.add(parser, _care())
    parser.add_argument("--set", action="append", type=acting.pair, default=[],
                        metavar="NAME=JSON", help="of the action, like priority=5")  # fmt: skip
    parser.add_argument("--watch", action="store_true", help="stay until it is over")


def _care() -> Parameter:
    """The parameter that says how carefully many are dealt with."""
    return next(one for one in verbs.of(bulk.start).parameters if one.name == "care")


def run(options: Options) -> int:
    action, is_json = options["action"], options["json"]
    if action == "run":
        return _run(options)
    if action == "list":
        columns = ("id", "action", "state", "total", "done", "skipped", "failed", "by", "query")
        found = bulk.every(by=person(), limit=options["limit"])
        say_rows(found, columns, is_json, "There was no bulk operation yet.")
    elif action == "show":
        say_one(bulk.progress(options["id"], by=person()), is_json)
    elif action == "items":
        items = bulk.items(options["id"], by=person(), state=options["state"],
                           after=options["after"], limit=options["limit"])  # fmt: skip
        say_rows(items, ("id", "job_id", "state", "detail", "result"), is_json, "There is none.")
    else:
        return acting.act(operating.action_of("bulk", action), options)
    return 0


def _run(options: Options) -> int:
    call: dict[str, Any] = {"by": person(), **dict(options["set"])}
    if options["ids"] is None:
        call["query"] = options["where"]
    else:
        on_letters = ACTIONS[options["what"]].on_letters
        call["ids"] = [_id(text, on_letters) for text in options["ids"]]
    seen = bulk.preview(options["what"], **call)
    if options["dry_run"] and options["json"]:
        say_json(seen)
    elif not options["json"]:
        _say_preview(seen)
    if options["dry_run"]:
        return 0
    if not options["yes"] and input("Begin? [y/N] ").strip().lower() not in ("y", "yes"):
        say("Nothing was done.\n")
        return 1
    care = _care().joined(acting.typed(_care(), options))
    made = bulk.start(
        options["what"], reason=options["reason"], token=seen.token, care=care, **call
    )
    if not options["watch"]:
        say_one(made if options["json"] else f"{made.id}", options["json"])
        return 0
    return watch.watch_bulk(made.id, options["json"])


def _id(text: str, on_letters: bool) -> Any:
    return int(text) if on_letters and text.isascii() and text.isdigit() else acting.uuid(text)


def _say_preview(seen: bulk.Preview) -> None:
    more = " or more" if seen.is_cut else ""
    among = "" if seen.looked is None else f" (only the newest {seen.looked} jobs were looked at)"
    say(f"{seen.action}: {seen.eligible}{more} jobs{among}\n")
    for kind, count in seen.kinds.items():
        say(f"  {count:>8}  {kind}\n")
    for why, count in seen.skipped.items():
        say(f"  {count:>8}  passed by: {why}\n")
    for found in seen.sample:
        say(f"  {found.id}  {found.kind}  {found.state}\n")


VERB = Verb("bulk", "act on many jobs at once", add_arguments, run)
