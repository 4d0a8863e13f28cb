"""What can be done to many jobs at once: who may, to jobs in which states, with which options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from jobs import registry
from jobs.errors import InvalidOption
from jobs.names import name_problem
from jobs.operate import verbs
from jobs.operate.parameters import Parameter
from jobs.operate.targets import DEADLETTER, JOB
from jobs.operate.verbs import Verb
from jobs.states import JobState

IDS_LIMIT = 1000
"""Most ids of one call; more are named by a query."""
CANARY_LIMIT = 1000
PACE_LIMIT = 1_000_000
OWN_KIND = "jobs.bulk"
"""Of the jobs that carry bulk operations out, which no bulk operation touches."""


@dataclass(frozen=True, slots=True)
class Action:
    """A verb that can be done to many jobs, or to their open dead letters."""

    permission: str
    states: frozenset[JobState]
    options: frozenset[str]
    on_letters: bool
    runs: bool
    """Whether the jobs run afterwards, so that one can wait for what becomes of the first."""
    verb: Verb

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The options, as the verb declares them."""
        return tuple(one for one in self.verb.parameters if one.name in self.options)


class _Actions(Mapping[str, Action]):
    """The verbs that can be done to many, by the names of their actions."""

    def __getitem__(self, name: str) -> Action:
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> dict[str, Action]:
        return {
            f"{verb.action}_letter" if verb.target is DEADLETTER else verb.action: Action(
                verb.permission,
                many.states,
                many.options,
                verb.target is DEADLETTER,
                many.runs,
                verb,
            )
            for target in (JOB, DEADLETTER)
            for verb in verbs.every().values()
            if verb.target is target and (many := verb.many) is not None
        }


ACTIONS: Mapping[str, Action] = _Actions()


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
    for one in action.parameters:
        if one.name in given:
            given[one.name] = one.checked(given[one.name], strict=True)
    if "queue" in given and (problem := name_problem(given["queue"])):
        raise InvalidOption("queue", problem)
    if name == "edit" and not given:
        raise InvalidOption("action", "an edit needs a priority or a queue")
    return given


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast it is done."""

    per_minute: Annotated[
        int | None, Field(ge=1, le=PACE_LIMIT, description="at most this many per minute")
    ] = None


@dataclass(frozen=True, slots=True)
class Care(Pace):
    """How carefully it is done."""

    canary: Annotated[
        int, Field(ge=0, le=CANARY_LIMIT, description="run this many first and wait for them")
    ] = 0
    stop_at: Annotated[
        float | None, Field(gt=0, le=1, description="stop if this share has failed, like 0.2")
    ] = None


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


def obstacle(name: str, state: str, kind: str, has_letter: bool, is_replayed: bool) -> str:
    """Why the action passes this job by, as groups of a preview name it; empty: it does not."""
    handler = registry.find(kind)
    action = ACTIONS[name]
    if kind == OWN_KIND:
        return "carries out bulk operations"
    if action.on_letters and not has_letter:
        return "has no open dead letter"
    if state not in action.states:
        return f"is {state}"
    if name in ("retry", "replay") and is_replayed:
        return "was replayed: its replay stands for it"
    if handler is None:
        return ""
    if name in ("replay", "replay_letter") and not handler.replayable:
        return "is of a kind that forbids replays"
    if name == "edit" and handler.internal:
        return "is of an internal kind"
    return ""
