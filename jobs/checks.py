"""`manage.py check`: wrong settings and risky set-ups, said before they hurt.

``E`` is an error, ``W`` a warning; ``check --deploy`` also looks at the Redis server.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import OperationalError, ProgrammingError, connections, router
from django.urls import NoReverseMatch, reverse
from django.utils.module_loading import import_string

from jobs import conf, protection, registry
from jobs.errors import ConfigError, JobsError

NOT_JSON = "the default serializer of RQ unpickles what it finds in Redis, which may be forged"


@register("jobs")
def settings_are_valid(**_: Any) -> list[CheckMessage]:
    """The JOBS setting parses."""
    try:
        conf.settings()
    except ConfigError as error:
        return [Error(str(error), id="jobs.E001")]
    return []


def _settings() -> conf.Settings | None:
    """The settings in force; None where they do not parse, which has a message of its own."""
    try:
        return conf.settings()
    except ConfigError:
        return None


@register("jobs")
def database_is_there(**_: Any) -> list[CheckMessage]:
    """The database alias exists, is PostgreSQL, and the routers send the jobs there."""
    settings = _settings()
    return list(_database(settings.DATABASE)) if settings else []


def _database(alias: str) -> Iterator[CheckMessage]:
    if alias not in connections.settings:
        hint = _near(alias, connections.settings)
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
def connection_is_there(**_: Any) -> list[CheckMessage]:
    """RQ_QUEUES has our connection, and nothing is unpickled."""
    settings = _settings()
    if settings is None:
        return []
    queues = getattr(django_settings, "RQ_QUEUES", None) or {}
    name = settings.CONNECTION
    if name not in queues:
        message = f"JOBS['CONNECTION'] is {name!r}, which RQ_QUEUES lacks"
        return [Error(message, _near(name, queues), id="jobs.E005")]
    serializer = str(queues[name].get("SERIALIZER", ""))
    if "json" not in serializer.lower():
        hint = f"RQ_QUEUES[{name!r}]['SERIALIZER'] = 'rq.serializers.JSONSerializer'"
        return [Warning(NOT_JSON, hint, id="jobs.W006")]
    return []


@register("jobs")
def durations_fit(**_: Any) -> list[CheckMessage]:
    """A shutdown gives handlers the time that they need."""
    settings = _settings()
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
def redis_is_closed_to_strangers(**_: Any) -> list[CheckMessage]:
    """Redis is on this machine, or behind TLS or a password."""
    if _settings() is None or connection_is_there():
        return []
    from jobs.engine import rq

    pool = rq.client().connection_pool
    address = pool.connection_kwargs
    host = str(address.get("host", "localhost"))
    is_local = "path" in address or "host" not in address or _is_loopback(host)
    if is_local or address.get("password") or "SSL" in pool.connection_class.__name__:
        return []
    return [
        Warning(
            f"Redis at {host} is reached over the network, without TLS and without a password",
            "give it a password and TLS (rediss://…), or bind it to this machine",
            id="jobs.W009",
        )
    ]


@register("jobs", deploy=True)
def redis_keeps_what_it_is_given(**_: Any) -> list[CheckMessage]:
    """Redis answers and evicts nothing."""
    if _settings() is None or connection_is_there():
        return []
    from jobs.engine import rq

    try:
        policy = rq.server_info().policy
    except (*rq.Unavailable, KeyError) as error:
        return [Warning(f"Redis cannot be reached: {error}", id="jobs.W011")]
    if policy == "noeviction":
        return []
    return [
        Warning(
            f"the maxmemory-policy of Redis is {policy or 'unknown'}: short of memory, it may "
            "drop the lists of queued jobs, which delays them",
            "set maxmemory-policy noeviction",
            id="jobs.W010",
        )
    ]


@register("jobs", Tags.security, deploy=True)
def calls_stay_outside(**_: Any) -> list[CheckMessage]:
    """Outgoing calls reach public addresses only."""
    settings = _settings()
    if settings is None or not settings.HTTP_ALLOW:
        return []
    return [
        Warning(
            f"outgoing calls may reach {', '.join(settings.HTTP_ALLOW)}, whoever names their URL",
            "empty JOBS['HTTP_ALLOW'], or leave in it only what strangers may talk to",
            id="jobs.W020",
        )
    ]


@register("jobs")
def schedules_can_make_jobs(**_: Any) -> list[CheckMessage]:
    """Every schedule that is declared in code has a kind with a handler, and sound options."""
    if _settings() is None:
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
    if _settings() is None:
        return []
    found: list[CheckMessage] = []
    if problem := protection.key_problem():
        found.append(Error(problem, id="jobs.E040"))
    if problem := protection.index_key_problem():
        found.append(Error(problem, id="jobs.E041"))
    return found


@register("jobs", Tags.database)
def keys_in_use_are_kept(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """No row needs a key that was dropped; asked with ``check --database`` and at ``migrate``."""
    settings = _settings()
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


@register("jobs")
def sockets_are_served(**_: Any) -> list[CheckMessage]:
    """Where live events are mounted, ASGI_APPLICATION names an application."""
    try:
        reverse("jobs-events-stream")
    except (NoReverseMatch, ImportError):
        return []
    hint = "without it nobody serves sockets and streams; see docs/realtime.md"
    name = getattr(django_settings, "ASGI_APPLICATION", None)
    try:
        problem = "" if name and import_string(name) else "is not set"
    except ImportError as error:
        problem = str(error)
    return [Warning(f"ASGI_APPLICATION: {problem}", hint, id="jobs.W051")] if problem else []


@register("jobs", deploy=True)
def throttling_holds_over_processes(**_: Any) -> list[CheckMessage]:
    """What counts the requests of the API is shared by its processes."""
    cache = django_settings.CACHES.get("default", {}).get("BACKEND", "")
    settings = _settings()
    if settings is None or django_settings.DEBUG or not settings.API_RATES:
        return []
    if not cache.endswith(("LocMemCache", "DummyCache")):
        return []
    return [
        Warning(
            "the limits of JOBS['API_RATES'] hold for each process apart: CACHES['default'] is "
            f"{cache.rpartition('.')[2]}",
            "use a cache that the processes share: Redis, Memcached or the database",
            id="jobs.W050",
        )
    ]


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _near(name: str, known: Any) -> str | None:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else None
