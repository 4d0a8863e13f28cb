"""``manage.py jobs schedules``: look at schedules, pause and resume them, run one now."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime
from typing import Any

from jobs.cli.people import person
from jobs.cli.table import table
from jobs.cli.verb import Options, Verb, positive_int
from jobs.models import Schedule
from jobs.operate import schedules


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, words in _ACTIONS.items():
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("--json", action="store_true", help="answer in JSON")
        if name != "list":
            action.add_argument("name", metavar="NAME", help="the schedule's name")
        if name in ("pause", "resume", "run-now"):
            action.add_argument("--reason", required=True, help="why, for the record")
        if name == "pause":
            action.add_argument(
                "--until",
                type=moment,
                metavar="TIME",
                help="resume by itself then, like 2030-01-31T18:00+01:00",
            )
        if name == "preview":
            action.add_argument(
                "--count", type=positive_int, default=5, metavar="N", help="slots (default: 5)"
            )
    from jobs.cli import acting, operating

    for name, function in operating.SCHEDULES.items():
        words = (operating.load(function).__doc__ or "").split("\n")[0]
        action = actions.add_parser(name, help=words, description=words)
        acting.add_parameters(action, operating.load(function))


_ACTIONS = {
    "list": "every schedule and its next slot",
    "show": "one schedule as it is",
    "pause": "stop making jobs",
    "resume": "go on with the next slot",
    "run-now": "make one job beside the slots",
    "preview": "the next slots",
}


def moment(text: str) -> datetime:
    """An argument like ``2030-01-31T18:00+01:00``."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time; write it like 2030-01-31T18:00Z") from None
    if value.utcoffset() is None:
        raise ArgumentTypeError(f"{text!r} needs a time zone, like 2030-01-31T18:00Z")
    return value


def run(options: Options) -> int:
    from jobs.cli import acting, operating

    if options["action"] in operating.SCHEDULES:
        return acting.act(operating.load(operating.SCHEDULES[options["action"]]), options)
    content, text = _done(options)
    sys.stdout.write(json.dumps(content, indent=2) + "\n" if options["json"] else text)
    return 0


def _done(options: Options) -> tuple[Any, str]:
    """What the action answers, as data and as text."""
    action = options["action"]
    if action == "list":
        every = schedules.every()
        return [as_data(s) for s in every], _list(every)
    name = options["name"]
    if action == "preview":
        slots = [slot.isoformat() for slot in schedules.preview(name, options["count"])]
        return slots, "".join(f"{slot}\n" for slot in slots)
    if action == "run-now":
        job_id = str(schedules.run_now(name, by=person(), reason=options["reason"]))
        return {"job_id": job_id}, f"{job_id}\n"
    if action == "pause":
        found = schedules.pause(name, by=person(), reason=options["reason"], until=options["until"])
    elif action == "resume":
        found = schedules.resume(name, by=person(), reason=options["reason"])
    else:
        found = schedules.find(name)
    data = as_data(found)
    return data, table(("FIELD", "VALUE"), [(k, _word(v)) for k, v in data.items()])


def as_data(s: Schedule) -> dict[str, Any]:
    """The schedule without its payload, which may be somebody's personal data."""
    return {
        "name": s.name,
        "kind": s.kind,
        "cron": s.cron,
        "interval": s.interval,
        "time_zone": s.time_zone,
        "missed": s.missed,
        "overlap": s.overlap,
        "options": s.options,
        "declared": s.is_declared,
        "enabled": s.enabled,
        "paused_at": _iso(s.paused_at),
        "paused_by": s.paused_by,
        "paused_reason": s.paused_reason,
        "paused_until": _iso(s.paused_until),
        "last_slot": _iso(s.last_slot),
        "next_slot": _iso(s.next_slot),
        "error": s.error,
    }


def _list(every: list[Schedule]) -> str:
    rows = [(s.name, _rule(s), _status(s), _word(_iso(s.next_slot)), s.kind) for s in every]
    return table(("SCHEDULE", "RULE", "STATUS", "NEXT SLOT", "KIND"), rows)


def _rule(s: Schedule) -> str:
    return f"every {s.interval:g} s" if s.interval else f"{s.cron} {s.time_zone}"


def _status(s: Schedule) -> str:
    if not s.enabled:
        return "disabled"
    if s.paused_at is not None:
        return f"paused until {_iso(s.paused_until)}" if s.paused_until else "paused"
    return "failing" if s.error else "on"


def _iso(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _word(value: object) -> str:
    if value is None or value == "":
        return "-"
    return json.dumps(value) if isinstance(value, dict | bool) else " ".join(str(value).split())


VERB = Verb("schedules", "look at schedules, pause and resume them", add_arguments, run)
