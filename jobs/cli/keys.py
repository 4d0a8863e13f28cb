"""``manage.py jobs keys``: which keys are in use, sealing again, and whether one can be dropped."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser

from jobs import keyring
from jobs.cli.table import table
from jobs.cli.verb import Options, Verb
from jobs.operate import keys

_ACTIONS = {
    "status": "how many rows need which key",
    "rotate": "seal everything with the current key; may be stopped and begun again",
    "check": "fail where rows need a key that is not there",
}
_BROKEN_SHOWN = 20


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, words in _ACTIONS.items():
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("--json", action="store_true", help="answer in JSON")
        if name == "check":
            action.add_argument(
                "--dropping",
                metavar="KEY_ID",
                action="append",
                default=[],
                help="as if this key were no more; may be given several times",
            )


def run(options: Options) -> int:
    act = {"status": _status, "rotate": _rotate, "check": _check}[options["action"]]
    return act(options)


def _status(options: Options) -> int:
    ring, usage = keyring.ring(), keys.usage()
    if options["json"]:
        found = {"current": ring.current, "keys": ring.ids, "rows": usage}
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return 0
    sys.stdout.write(f"Current key: {ring.current}. All keys: {', '.join(ring.ids)}.\n")
    rows = [
        (store, key, count, _role(key, ring))
        for store, counter in usage.items()
        for key, count in sorted(counter.items())
    ]
    text = table(("STORE", "KEY", "ROWS", ""), rows) if rows else "Nothing is sealed yet.\n"
    sys.stdout.write(text)
    return 0


def _role(key: str, ring: keyring.KeyRing) -> str:
    if key == ring.current:
        return "current"
    return "to be rotated" if key in ring.ids else "NOT IN JOBS['KEYS']"


def _rotate(options: Options) -> int:
    rows, broken = 0, list[str]()
    for portion in keys.rotate():
        rows += portion.rows
        broken.extend(portion.broken)
        if not options["json"]:
            sys.stdout.write(f"{portion.store}: {portion.rows} rows sealed again\n")
            sys.stdout.flush()
    if options["json"]:
        sys.stdout.write(json.dumps({"rows": rows, "broken": broken}) + "\n")
    else:
        sys.stdout.write(f"{rows} rows have the key {keyring.ring().current} now.\n")
        for line in broken[:_BROKEN_SHOWN]:
            sys.stdout.write(f"LEFT AS IT IS: {line}\n")
        if len(broken) > _BROKEN_SHOWN:
            sys.stdout.write(f"… and {len(broken) - _BROKEN_SHOWN} more\n")
    return 1 if broken else 0


def _check(options: Options) -> int:
    dropping: list[str] = options["dropping"]
    if keyring.ring().current in dropping:
        sys.stderr.write("The current key cannot be dropped: put another first in JOBS['KEYS'].\n")
        return 1
    lost = keys.missing(dropping)
    if options["json"]:
        sys.stdout.write(json.dumps({"missing": lost}) + "\n")
    elif not lost:
        sys.stdout.write("Every row can be read.\n")
    for key, rows in sorted(lost.items()) if not options["json"] else ():
        sys.stdout.write(f"{rows} rows need the key {key}.\n")
    if lost and not options["json"]:
        sys.stdout.write("Keep it, and run: manage.py jobs keys rotate\n")
    return 1 if lost else 0


VERB = Verb("keys", "which keys of protected values are in use; rotation", add_arguments, run)
