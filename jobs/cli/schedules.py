"""``manage.py jobs schedules``: look at schedules, pause and resume them, run one now."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.cli import acting, operating
from jobs.cli.people import person
from jobs.cli.table import table
from jobs.cli.verb import Options, Verb, positive_int
from jobs.models import Schedule
from jobs.operate import schedules, sight, verbs


def add_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, words in _ACTIONS.items():
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("--json", action="store_true", help="answer in JSON")
        if name != "list":
            action.add_argument("name", metavar="NAME", help="the schedule's name")
        if name == "preview":
            action.add_argument(
                "--count", type=positive_int, default=5, metavar="N", help="slots (default: 5)"
            )
    for verb in verbs.of_noun("schedule"):
        operating.add_action(actions, verb)


_ACTIONS = {
    "list": "every schedule and its next slot",
    "show": "one schedule as it is",
    "preview": "the next slots",
}


def run(options: Options) -> int:
    action = options["action"]
    if action not in _ACTIONS:
        return acting.act(operating.action_of("schedule", action), options, _SAY.get(action))
    _write(*_seen(options), options)
    return 0


def _write(content: Any, text: str, options: Options) -> None:
    sys.stdout.write(json.dumps(content, indent=2) + "\n" if options["json"] else text)


def _say_schedule(found: Schedule, options: Options) -> None:
    data = as_data(found)
    _write(data, _fields(data), options)


def _say_job(job_id: UUID, options: Options) -> None:
    _write({"job_id": str(job_id)}, f"{job_id}\n", options)


_SAY: Mapping[str, acting.Say] = {
    "pause": _say_schedule, "resume": _say_schedule, "run-now": _say_job,
}  # fmt: skip


def _seen(options: Options) -> tuple[Any, str]:
    """What is asked for, as data and as text."""
    action = options["action"]
    if action == "list":
        every = list(sight.schedules(person()).order_by("name"))
        return [as_data(s) for s in every], _list(every)
    name = options["name"]
    if action == "preview":
        slots = [slot.isoformat() for slot in schedules.preview(name, options["count"])]
        return slots, "".join(f"{slot}\n" for slot in slots)
    data = as_data(schedules.find(name))
    return data, _fields(data)


def _fields(data: Mapping[str, Any]) -> str:
    return table(("FIELD", "VALUE"), [(k, _word(v)) for k, v in data.items()])


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
        "next_slot": _iso(schedules.coming(s)),
        "error": s.error,
    }


def _list(every: list[Schedule]) -> str:
    rows = [(s.name, _rule(s), _status(s), _word(_iso(schedules.coming(s))), s.kind) for s in every]
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
