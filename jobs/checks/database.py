"""The database: where it is, and how it is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import OperationalError, ProgrammingError, connections, router

from jobs import groups, protection
from jobs.checks.common import near, settings_in_force
from jobs.checks.settings import keys_are_there


@register("jobs")
def database_is_there(**_: Any) -> list[CheckMessage]:
    """The database alias exists, is PostgreSQL, and the routers send the jobs there."""
    settings = settings_in_force()
    return list(_database(settings.DATABASE)) if settings else []


def _database(alias: str) -> Iterator[CheckMessage]:
    if alias not in connections.settings:
        hint = near(alias, connections.settings)
        yield Error(f"JOBS['DATABASE'] is {alias!r}, which DATABASES lacks", hint, id="jobs.E002")
        return
    vendor = connections[alias].vendor
    if vendor != "postgresql":
        yield Error(
            f"JOBS['DATABASE'] is {alias!r}, which is {vendor}; jobs live in PostgreSQL",
            id="jobs.E003",
        )
    from jobs.models import Job

    routed = router.db_for_write(Job)
    if routed != alias:
        yield Error(
            f"JOBS['DATABASE'] is {alias!r}, but the routers send the jobs to {routed!r}",
            "add 'jobs.router.JobsRouter' to DATABASE_ROUTERS, before others",
            id="jobs.E004",
        )


@register("jobs")
def pool_is_large_enough(**_: Any) -> list[CheckMessage]:
    """A pool has a connection for everything that an executor does at the same time."""
    settings = settings_in_force()
    if settings is None or settings.DATABASE not in connections.settings:
        return []
    from jobs.engine import capacity

    database = connections.settings[settings.DATABASE]
    workers = groups.parse(settings.WORKERS).values()
    usual = capacity.CONCURRENCY
    slots = max((group.sizes.get("concurrency", usual) for group in workers), default=usual)
    if not (problem := capacity.pool_problem(database, slots)):
        return []
    needed = capacity.of_executor(slots)
    hint = f"set OPTIONS['pool']['max_size'] to {needed} or more, or lower --concurrency"
    return [Warning(f"DATABASES[{settings.DATABASE!r}]: {problem}", hint, id="jobs.W060")]


@register("jobs")
def times_are_aware(**_: Any) -> list[CheckMessage]:
    """Times have a zone, so that those of all machines mean the same."""
    if django_settings.USE_TZ:
        return []
    hint = "USE_TZ = True; times without a zone are ambiguous when clocks change"
    return [Error("USE_TZ is False, with which jobs do not work", hint, id="jobs.E061")]


@register("jobs")
def transactions_see_what_others_commit(**_: Any) -> list[CheckMessage]:
    """Warn if the database alias asks for an isolation level that makes concurrent claims fail."""
    settings = settings_in_force()
    if settings is None or settings.DATABASE not in connections.settings:
        return []
    options = connections.settings[settings.DATABASE].get("OPTIONS", {})
    level = options.get("isolation_level")
    if level is None or getattr(level, "name", str(level)) == "READ_COMMITTED":
        return []
    return [
        Warning(
            f"DATABASES[{settings.DATABASE!r}]['OPTIONS']['isolation_level'] is "
            f"{getattr(level, 'name', level)}; jobs need READ_COMMITTED",
            "remove it, or give the jobs an alias of their own: JOBS['DATABASE']",
            id="jobs.W062",
        )
    ]


@register("jobs", Tags.database)
def keys_in_use_are_kept(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """No row needs a key that was dropped; asked with ``check --database`` and at ``migrate``."""
    settings = settings_in_force()
    if settings is None or not databases or keys_are_there():
        return []
    if not (settings.KEYS or protection.users_of_keys()):
        return []
    from jobs.operate import keys

    try:
        lost = keys.missing(stores_of=databases)
    except (ProgrammingError, OperationalError):
        return []  # before the first migration there are no tables
    hint = "put it back, then run `manage.py jobs keys rotate` before it goes"
    return [
        Error(f"{rows} rows need the key {key!r}, which JOBS['KEYS'] lacks", hint, id="jobs.E042")
        for key, rows in sorted(lost.items())
    ]


@register("jobs", Tags.database)
def postgresql_is_new_enough(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """Looked at with ``check --database`` and at ``migrate``."""
    settings = settings_in_force()
    if settings is None or settings.DATABASE not in (databases or ()) or database_is_there():
        return []
    from jobs.operate import environment

    try:
        problem = environment.old_postgresql()
    except OperationalError:
        return []  # other checks report the database
    return [Error(problem, id="jobs.E071")] if problem else []
