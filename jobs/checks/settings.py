"""Settings that do not parse, or do not fit together."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register

from jobs import conf, protection, registry
from jobs.checks.common import settings_in_force
from jobs.errors import ConfigError, JobsError


@register("jobs")
def settings_are_valid(**_: Any) -> list[CheckMessage]:
    """The JOBS setting parses."""
    try:
        conf.settings()
    except ConfigError as error:
        return [Error(str(error), id="jobs.E001")]
    return []


@register("jobs")
def scope_rules_exist(**_: Any) -> list[CheckMessage]:
    """Every rule of JOBS["SCOPE"] is a function."""
    from jobs.operate import people

    settings = settings_in_force()
    rules = settings.SCOPE if settings else ""
    found: list[CheckMessage] = []
    for path in [rules] if isinstance(rules, str) else rules:
        try:
            if path:
                people.hook(path)
        except ConfigError as error:
            found.append(Error(str(error), id="jobs.E006"))
    return found


@register("jobs")
def durations_fit(**_: Any) -> list[CheckMessage]:
    """A shutdown gives handlers the time that they need."""
    settings = settings_in_force()
    return list(_durations(settings)) if settings else []


def _durations(settings: conf.Settings) -> Iterator[CheckMessage]:
    if settings.DRAIN < settings.GRACE:
        yield Warning(
            f"JOBS['DRAIN'] ({settings.DRAIN:g} s) is shorter than JOBS['GRACE'] "
            f"({settings.GRACE:g} s): at a shutdown handlers have less time to end than at a "
            "timeout",
            id="jobs.W007",
        )
    for handler in registry.handlers():
        if handler.on_lost != "rerun" and handler.timeout > settings.DRAIN:
            yield Warning(
                f"{handler.kind} may run for {handler.timeout:g} s, but a shutdown waits "
                f"{settings.DRAIN:g} s, and a job that is stopped then fails "
                f"(on_lost={handler.on_lost!r})",
                "raise JOBS['DRAIN'], shorten its timeout, or have it obey ctx.checkpoint()",
                id="jobs.W008",
            )


@register("jobs", Tags.security, deploy=True)
def calls_stay_outside(**_: Any) -> list[CheckMessage]:
    """Outgoing calls reach public addresses only."""
    settings = settings_in_force()
    if settings is None or not settings.HTTP_ALLOW:
        return []
    return [
        Warning(
            f"outgoing calls may reach {', '.join(settings.HTTP_ALLOW)}, whatever the URL",
            "empty JOBS['HTTP_ALLOW'], or leave in it only what strangers may talk to",
            id="jobs.W020",
        )
    ]


@register("jobs")
def schedules_can_make_jobs(**_: Any) -> list[CheckMessage]:
    """Every schedule that is declared in code has a kind with a handler, and sound options."""
    if settings_in_force() is None:
        return []
    from jobs import timetable
    from jobs.engine.timetables import verify

    found: list[CheckMessage] = []
    for declared in timetable.declared():
        try:
            verify(declared)
        except JobsError as error:
            found.append(Error(f"schedule {declared.name!r}: {error}", id="jobs.E030"))
    return found


@register("jobs")
def keys_are_there(**_: Any) -> list[CheckMessage]:
    """Whatever the project protects has its key; without them, no process starts."""
    if settings_in_force() is None:
        return []
    found: list[CheckMessage] = []
    if problem := protection.key_problem():
        found.append(Error(problem, id="jobs.E040"))
    if problem := protection.index_key_problem():
        found.append(Error(problem, id="jobs.E041"))
    return found


@register("jobs")
def blobs_have_a_store(**_: Any) -> list[CheckMessage]:
    """The store of blobs has all options that its kind needs, and no others."""
    settings = settings_in_force()
    if settings is None or not settings.BLOBS:
        return []
    from jobs import blobs

    try:
        blobs.build(settings.BLOBS)
    except ConfigError as error:
        return [Error(str(error), id="jobs.E080")]
    return []


@register("jobs")
def loggers_are_heard(**_: Any) -> list[CheckMessage]:
    """LOGGING has not silenced what was imported before it."""
    known = logging.root.manager.loggerDict
    names = [
        name
        for name, logger in sorted(known.items())
        if name.partition(".")[0] == "jobs" and getattr(logger, "disabled", False)
    ]
    if not names:
        return []
    return [
        Warning(
            f"LOGGING has disabled loggers that existed before it: {', '.join(names)}",
            'add "disable_existing_loggers": False to LOGGING',
            id="jobs.W064",
        )
    ]
