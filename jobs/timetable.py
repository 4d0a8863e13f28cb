"""The schedules that are declared in code.

::

    jobs.schedule("nightly-report", Report(kind_of="sales"), cron="30 2 * * *",
                  time_zone="Europe/Rome", missed="latest", overlap="skip", priority=5)

A declaration stands in an app's ``handlers`` or ``schedules`` module. Every dispatcher brings the
declarations into the table of schedules when it starts.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from jobs import registry
from jobs.backoff import Duration
from jobs.clockwork import Cron, Every, Rule, aware, interval_seconds
from jobs.errors import InvalidOption, InvalidPayload
from jobs.limits import Unique
from jobs.names import name_problem
from jobs.payloads import Payload

Missed = Literal["skip", "latest", "all"]
Overlap = Literal["allow", "skip"]

OPTIONS = (
    "correlation_id",
    "delay",
    "exclusive",
    "expires",
    "limit_key",
    "max_attempts",
    "priority",
    "queue",
    "tags",
    "tenant",
    "timeout",
    "unique",
)
"""The options of ``enqueue`` that make sense for every slot."""


@dataclass(frozen=True, slots=True)
class Timetable:
    """What is said of a schedule: a rule of the clock, a payload and the options of its jobs."""

    name: str
    payload: Payload
    cron: str
    interval: float | None
    time_zone: str
    missed: Missed
    overlap: Overlap
    options: dict[str, Any]
    """As they are stored: plain JSON."""

    def rule(self, anchor: datetime) -> Rule:
        """The rule; intervals count from the anchor."""
        return rule(self.cron, self.interval, self.time_zone, anchor)


_declared: dict[str, Timetable] = {}


def schedule(
    name: str,
    payload: Payload,
    *,
    cron: str | None = None,
    interval: Duration | None = None,
    time_zone: str | None = None,
    missed: Missed = "latest",
    overlap: Overlap = "allow",
    **options: Any,
) -> None:
    """Declares that a job with this payload comes by the clock, once per slot.

    Either ``cron`` (five fields, read in ``time_zone``) or ``interval`` (counted from when the
    schedule was first seen). ``missed`` says what becomes of slots that passed while nothing ran:
    none, the latest, or all. With ``overlap="skip"`` a slot is left out while an earlier job is
    unfinished. The options are those of ``enqueue``.
    """
    made = timetable(
        name,
        payload,
        cron=cron,
        interval=interval,
        time_zone=time_zone,
        missed=missed,
        overlap=overlap,
        options=options,
    )
    known = _declared.get(name)
    if known is not None and known != made:
        raise InvalidOption("name", f"schedule {name!r} is declared already, and differently")
    _declared[name] = made


def declared() -> list[Timetable]:
    """Every declared schedule, by name."""
    registry.autodiscover()
    return [_declared[name] for name in sorted(_declared)]


def forget(name: str) -> None:
    """The schedule is declared no more (for tests)."""
    del _declared[name]


def timetable(
    name: str,
    payload: Payload,
    *,
    cron: str | None,
    interval: Duration | None,
    time_zone: str | None,
    missed: Missed,
    overlap: Overlap,
    options: Mapping[str, Any],
) -> Timetable:
    """The timetable, each of its parts checked; raises an EnqueueError that names the option."""
    if problem := name_problem(name):
        raise InvalidOption("name", problem)
    if not isinstance(payload, Payload):
        raise InvalidPayload(
            type(payload).__name__, "payload", "must be an instance of a jobs.Payload subclass"
        )
    if (cron is None) == (interval is None):
        raise InvalidOption("cron", "give either cron or interval, and not both")
    if interval is not None and time_zone is not None:
        raise InvalidOption("time_zone", "means nothing to an interval")
    _check_choice("missed", missed, get_args(Missed))
    _check_choice("overlap", overlap, get_args(Overlap))
    text, zone_name = "", "UTC"
    if cron is not None:
        made = Cron(cron, "UTC" if time_zone is None else time_zone)
        text, zone_name = made.text, made.time_zone
    return Timetable(
        name,
        payload,
        text,
        None if interval is None else interval_seconds(interval),
        zone_name,
        missed,
        overlap,
        stored(options),
    )


def rule(cron: str, interval: float | None, time_zone: str, anchor: datetime) -> Rule:
    """The rule that a schedule's columns hold."""
    return Cron(cron, time_zone) if interval is None else Every(interval, aware("anchor", anchor))


def stored(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as plain JSON."""
    return {option: _stored(option, value) for option, value in sorted(options.items())}


def revived(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as ``enqueue`` takes them."""
    return {option: _revived(option, value) for option, value in options.items()}


def _stored(option: str, value: Any) -> Any:
    if option not in OPTIONS:
        near = difflib.get_close_matches(option, OPTIONS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidOption(option, f"is no option of a schedule{hint}")
    if option == "expires" and isinstance(value, datetime):
        raise InvalidOption("expires", "must be a duration: every slot has jobs of its own")
    if option == "unique" and isinstance(value, Unique):
        lasts = value.for_.total_seconds() if isinstance(value.for_, timedelta) else value.for_
        return {"key": value.key, "for": lasts, "on_conflict": value.on_conflict}
    if option == "tags" and isinstance(value, list | tuple | set | frozenset):
        return sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if value is None or isinstance(value, str | int | float):
        return value
    raise InvalidOption(option, f"cannot be {value!r}")


def _revived(option: str, value: Any) -> Any:
    if option == "unique" and isinstance(value, dict):
        lasts = value["for"]
        return Unique(
            value["key"],
            timedelta(seconds=lasts) if isinstance(lasts, int | float) else lasts,
            value["on_conflict"],
        )
    return value


def _check_choice(option: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidOption(option, f"must be one of {', '.join(choices)}, got {value!r}")
