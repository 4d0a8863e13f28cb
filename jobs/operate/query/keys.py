"""Every key: what may stand behind it, its condition in SQL, and the index that finds it.

The job's row is ``j``. An ``index`` of None means that rows have to be read to know: such queries
look at the newest jobs only, and say so.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jobs.operate.query import values
from jobs.operate.query.values import BadValue
from jobs.searchable import VALUE_LIMIT
from jobs.states import JobState

Condition = tuple[str, list[Any]]
EQUALS = (":",)
ORDERS = (">", ">=", "<", "<=")
Way = Literal["row", "set", "stream"]
"""How the index finds: the row itself, a small set, or a stream in the order of lists."""
LATE = 60
"""Seconds after its time from which a job that has not begun is late."""


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    ops: tuple[str, ...]
    read: Callable[[str], str]
    """The value in its one spelling; raises BadValue."""
    condition: Callable[[str, str], Condition]
    """By comparison and value."""
    index: str | None
    way: Way | None
    help: str


def one_of(names: Mapping[str, Any]) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in names:
            near = difflib.get_close_matches(value, names, n=1)
            raise BadValue(
                f"{value[:60]!r} is not one of {', '.join(names)}", near[0] if near else ""
            )
        return value

    return read


def _name(column: str) -> Callable[[str, str], Condition]:
    def condition(_: str, value: str) -> Condition:
        if value.endswith("*"):
            return f"starts_with({column}, %s)", [value[:-1]]
        return f"{column} = %s", [value]

    return condition


def _same(column: str, cast: str = "") -> Callable[[str, str], Condition]:
    return lambda _, value: (f"{column} = %s{cast}", [value])


def _number(expression: str) -> Callable[[str, str], Condition]:
    return lambda op, value: (f"{expression} {'=' if op == ':' else op} %s", [int(value)])


def _length(expression: str) -> Callable[[str, str], Condition]:
    return lambda op, value: (
        f"{expression} {op} %s * interval '1 s'",
        [values.seconds_of(value)],
    )


def _time(column: str) -> Callable[[str, str], Condition]:
    def condition(op: str, value: str) -> Condition:
        bound, parameters = values.bound(value)
        return f"{column} {op} {bound}", parameters

    return condition


def _found(path: str) -> Callable[[str, str], Condition]:
    return lambda _, value: (
        "EXISTS (SELECT 1 FROM jobs_search s WHERE s.job_id = j.id AND s.path = %s "
        "AND s.value = %s)",
        [path, value],
    )


def _schedule(_: str, value: str) -> Condition:
    return "j.schedule_id = (SELECT s.id FROM jobs_schedule s WHERE s.name = %s)", [value]


def _worker(_: str, value: str) -> Condition:
    return "j.owner IN (SELECT l.owner FROM jobs_lease l WHERE l.worker = %s)", [value]


def _fingerprint(_: str, value: str) -> Condition:
    return (
        "j.id IN (SELECT d.job_id FROM jobs_deadletter d WHERE d.fingerprint = %s "
        "AND d.state = 'open')",
        [value],
    )


def _error(_: str, value: str) -> Condition:
    if value.endswith("*"):
        return "starts_with(j.error, %s)", [value[:-1]]
    return "(j.error = %s OR starts_with(j.error, %s))", [value, value + ": "]


_LIVE = "j.state IN ('queued', 'running')"
_WAIT = (
    "(CASE WHEN j.state IN ('pending', 'queued') THEN jobs_clock() "
    "WHEN j.started_at IS NOT NULL THEN j.started_at END - j.run_at)"
)
_RUNTIME = "(CASE WHEN j.state = 'running' THEN jobs_clock() ELSE j.finished_at END - j.started_at)"
IS: Mapping[str, str] = {
    "scheduled": "j.state = 'pending' AND j.wait = 1 AND j.failures = 0",
    "waiting": "(j.state = 'queued' OR (j.state = 'pending' AND j.wait <> 1))",
    "retrying": "j.state = 'pending' AND j.wait = 1 AND j.failures > 0",
    "late": f"j.state IN ('pending', 'queued') AND j.run_at < jobs_clock() - interval '{LATE} s'",
    "stale": "j.state = 'running' AND NOT EXISTS (SELECT 1 FROM jobs_lease l "
    "WHERE l.owner = j.owner AND l.dead_at IS NULL AND l.until > jobs_clock())",
    "cancelling": "j.state = 'running' AND j.cancel_requested_at IS NOT NULL",
    "doubt": "j.id IN (SELECT e.job_id FROM jobs_effect e WHERE e.state = 'in_doubt')",
    "dead": "j.id IN (SELECT d.job_id FROM jobs_deadletter d WHERE d.state = 'open')",
    "finished": "j.state IN ('cancelled', 'expired', 'failed', 'succeeded')",
    "unfinished": "j.state IN ('blocked', 'pending', 'queued', 'running')",
    "replayed": "j.replayed_by IS NOT NULL",
}
_QUEUED = "j.state = 'queued' AND j.state IN ('queued', 'running')"
_DUE = (
    "j.state = 'pending' AND j.wait = 0",
    "j.state = 'pending' AND j.wait = 2 AND j.exclusive_key IS NOT NULL",
    "j.state = 'pending' AND j.wait = 2 AND j.limit_key IS NOT NULL AND j.exclusive_key IS NULL",
)
_AHEAD = "j.state = 'pending' AND j.wait = 1"
_BEHIND = f"j.run_at < jobs_clock() - interval '{LATE} s'"
PARTS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("is", "waiting"): (_QUEUED, *_DUE),
    ("is", "late"): tuple(f"{part} AND {_BEHIND}" for part in (_QUEUED, *_DUE, _AHEAD)),
    ("state", "pending"): (*_DUE, _AHEAD),
}
"""The same, where no one index finds it, as parts that have one each and exclude each other."""
_WIDE = ("finished", "unfinished", "replayed")


def _is(_: str, value: str) -> Condition:
    return IS[value], []


_STATES = {str(state): state for state in JobState}
KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        Key("state", EQUALS, one_of(_STATES), _same("j.state"), "jobs_job_finished", "set",
            "the state"),
        Key("is", EQUALS, one_of(IS), _is, "jobs_job_live", "set", "a condition"),
        Key("queue", EQUALS, values.text, _name("j.queue"), "jobs_job_place", None,
            "queue, prefix*"),
        Key("kind", EQUALS, values.text, _name("j.kind"), "jobs_job_place", None,
            "kind, prefix*"),
        Key("tenant", EQUALS, values.text, _name("j.tenant"), "jobs_job_place", None,
            "tenant, prefix*"),
        Key("tag", EQUALS, values.text, _found("tag"), "jobs_search_found", "stream", "a tag"),
        Key("correlation", EQUALS, values.text, _found("correlation"), "jobs_search_found",
            "stream", "the correlation id"),
        Key("batch", EQUALS, values.identifier, _same("j.batch_id", "::uuid"), "jobs_job_batch",
            "set", "the batch's id"),
        Key("id", EQUALS, values.identifier, _same("j.id", "::uuid"), "jobs_job_pkey", "row",
            "the job's id"),
        Key("error", EQUALS, values.text, _error, None, None, "class of the last error, prefix*"),
        Key("fingerprint", EQUALS, values.text, _fingerprint, "jobs_dl_group", "set",
            "the cause of its open dead letter"),
        Key("worker", EQUALS, values.text, _worker, "jobs_job_live", "set", "who runs it now"),
        Key("schedule", EQUALS, values.text, _schedule, "jobs_job_one_per_slot", "set",
            "name of its schedule"),
        Key("priority", (*EQUALS, *ORDERS), values.whole, _number("j.priority"), None, None,
            "priority"),
        Key("attempts", (*EQUALS, *ORDERS), values.whole, _number("j.attempt"), None, None,
            "attempts so far"),
        Key("created", ORDERS, values.moment, _time("j.created_at"), "jobs_job_created", None,
            "when it was enqueued"),
        Key("run", ORDERS, values.moment, _time("j.run_at"), None, None, "when it is due"),
        Key("started", ORDERS, values.moment, _time("j.started_at"), None, None,
            "when it last began"),
        Key("finished", ORDERS, values.moment, _time("j.finished_at"), None, None,
            "when it ended"),
        Key("wait", ORDERS, values.duration, _length(_WAIT), None, None,
            "how long it waited, or waits"),
        Key("runtime", ORDERS, values.duration, _length(_RUNTIME), None, None,
            "how long it ran, or runs"),
    )
}  # fmt: skip
PAYLOAD = "payload."


def payload_key(name: str) -> Key:
    """The key of a payload's field."""
    steps = name.removeprefix(PAYLOAD).split(".")

    def condition(_: str, value: str) -> Condition:
        return (
            "(j.payload #>> %s::text[] = %s AND jsonb_typeof(j.payload #> %s::text[]) "
            "IN ('string', 'number', 'boolean'))",
            [steps, value, steps],
        )

    return Key(name, EQUALS, values.text, condition, None, None, "a field of the payload")


def is_selective(key: str, value: str) -> bool:
    """Whether an index finds the few rows of this condition."""
    if key == "is":
        return value not in _WIDE
    return key in KEYS and KEYS[key].way in ("row", "set")


def kept(value: str) -> str:
    """So much of the value stands beside the job."""
    return value[:VALUE_LIMIT]
