"""What can be done to many jobs at once: who may, to jobs in which states, with which options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.errors import InvalidOption
from jobs.names import name_problem
from jobs.states import FINAL_STATES, RETRYABLE_STATES, JobState

IDS_LIMIT = 1000
"""Most ids of one call; more are named by a query."""
CANARY_LIMIT = 1000
PACE_LIMIT = 1_000_000
OWN_KIND = "jobs.bulk"
"""Of the jobs that carry bulk operations out, which no bulk operation touches."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done to many jobs, or to their open dead letters."""

    permission: str
    states: frozenset[JobState]
    options: frozenset[str] = frozenset()
    on_letters: bool = False
    runs: bool = False
    """Whether the jobs run afterwards, so that one can wait for what becomes of the first."""


_WAITING = frozenset({JobState.BLOCKED, JobState.PENDING})
_DEAD = frozenset({JobState.FAILED})

ACTIONS: Mapping[str, Action] = {
    "retry": Action("retry_job", RETRYABLE_STATES, frozenset({"attempts", "reset"}), runs=True),
    "replay": Action("replay_job", FINAL_STATES, runs=True),
    "run_now": Action("retry_job", frozenset({JobState.PENDING}), runs=True),
    "cancel": Action("cancel_job", frozenset(JobState) - FINAL_STATES, frozenset({"force"})),
    "edit": Action("edit_job", _WAITING, frozenset({"priority", "queue"})),
    "retry_letter": Action(
        "resolve_deadletter", _DEAD, frozenset({"attempts", "reset"}), on_letters=True, runs=True
    ),
    "replay_letter": Action("resolve_deadletter", _DEAD, on_letters=True, runs=True),
    "discard_letter": Action("resolve_deadletter", frozenset(JobState), on_letters=True),
}


def action_of(name: object) -> Action:
    """The action of this name; raises InvalidOption."""
    if not isinstance(name, str) or name not in ACTIONS:
        raise InvalidOption("action", f"must be one of {', '.join(ACTIONS)}, got {name!r}")
    return ACTIONS[name]


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The action's options as they are kept; raises InvalidOption."""
    action = action_of(name)
    for option in options:
        if option not in action.options:
            known = ", ".join(sorted(action.options)) or "none"
            raise InvalidOption(option, f"is no option of {name}, which has {known}")
    given = {option: value for option, value in options.items() if value is not None}
    if "attempts" in given:
        given["attempts"] = whole("attempts", given["attempts"], 1, 1000)
    if "priority" in given:
        given["priority"] = whole("priority", given["priority"], -100, 100)
    if "queue" in given and (problem := name_problem(given["queue"])):
        raise InvalidOption("queue", problem)
    for flag in ("force", "reset"):
        if not isinstance(given.get(flag, False), bool):
            raise InvalidOption(flag, f"must be true or false, got {given[flag]!r}")
    if name == "edit" and not given:
        raise InvalidOption("action", "an edit needs a priority or a queue")
    return given


@dataclass(frozen=True, slots=True)
class Care:
    """How carefully it is done."""

    per_minute: int | None = None
    """At most so many a minute."""
    canary: int = 0
    """So many first, and the rest once it is known what became of them."""
    stop_at: float | None = None
    """Stops where this share of those that ran has failed."""


def checked_care(name: str, care: Care) -> Care:
    """The same with its defaults; raises InvalidOption."""
    per_minute, canary, stop_at = care.per_minute, care.canary, care.stop_at
    if per_minute is not None:
        whole("per_minute", per_minute, 1, PACE_LIMIT)
    whole("canary", canary, 0, CANARY_LIMIT)
    if stop_at is not None and (
        isinstance(stop_at, bool) or not isinstance(stop_at, int | float) or not 0 < stop_at <= 1
    ):
        raise InvalidOption("stop_at", f"must be a share above 0 and at most 1, got {stop_at!r}")
    if canary and not ACTIONS[name].runs:
        raise InvalidOption("canary", f"nothing runs after {name} that could be waited for")
    if canary and stop_at is None:
        stop_at = 0.5
    return Care(per_minute, canary, stop_at)


def whole(option: str, value: object, least: int, most: int) -> int:
    """The value, a whole number within these bounds; raises InvalidOption."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        problem = f"must be a whole number from {least} to {most}, got {value!r}"
        raise InvalidOption(option, problem)
    return value


def obstacle(name: str, state: str, kind: str, letter: int | None, replayable: bool) -> str:
    """Why the action passes this job by, as groups of a preview name it; empty: it does not."""
    action = ACTIONS[name]
    if kind == OWN_KIND:
        return "carries out bulk operations"
    if action.on_letters and letter is None:
        return "has no open dead letter"
    if state not in action.states:
        return f"is {state}"
    if name in ("replay", "replay_letter") and not replayable:
        return "is of a kind that forbids replays"
    return ""
