"""`manage.py check`: wrong settings and risky set-ups, said before they hurt.

``E`` is an error, ``W`` a warning; ``check --deploy`` also looks at the Redis server, and
``check --database`` at PostgreSQL.
"""

from __future__ import annotations

import difflib
import logging
import sys
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, ProgrammingError, connections, router
from django.urls import get_resolver
from django.utils.module_loading import import_string

from jobs import conf, groups, protection, registry, versions
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

    settings = _settings()
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
def permissions_of_verbs_exist(**_: Any) -> list[CheckMessage]:
    """Somebody can have the permission of every verb."""
    from jobs.operate import verbs
    from jobs.principals import every_permission

    known, of_django = every_permission(), _permissions_of_models()
    found: list[CheckMessage] = []
    for verb in verbs.every().values():
        for name in (verb.permission, *verb.also):
            problem = f"verb {verb.name!r}: nobody can have the permission {name!r}"
            if name not in known:
                hint = "Name it in jobs.verbs.add_permissions, in ready() of the app."
                found.append(Error(problem, hint, id="jobs.E012"))
            elif "." in name and name not in of_django:
                hint = "Django does not know it: add it to Meta.permissions of a model of the app."
                found.append(
                    Warning(f"{problem} but superusers and API keys", hint, id="jobs.W013")
                )
    return found


@register("jobs")
def permissions_of_operations_exist(**_: Any) -> list[CheckMessage]:
    """Somebody can have the permission of every operation of the API."""
    from jobs.principals import every_permission

    list(_urls())  # which imports the operations
    endpoints = sys.modules.get("jobs.api.endpoints")
    needed: dict[str, str] = endpoints.NEEDED if endpoints is not None else {}
    known = every_permission()
    return [
        Error(
            f"operation {operation!r}: nobody can have the permission {name!r}",
            _near(name, known) or "Name it in jobs.verbs.add_permissions, in ready() of the app.",
            id="jobs.E014",
        )
        for name, operation in needed.items()
        if name and name not in known
    ]


def _permissions_of_models() -> frozenset[str]:
    """Return the permissions that Django makes at ``migrate``, by their full names."""
    return frozenset(
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_models()
        for codename in (
            *(f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions),
            *(codename for codename, _words in model._meta.permissions),
        )
    )


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
def pool_is_large_enough(**_: Any) -> list[CheckMessage]:
    """A pool has a connection for everything that an executor does at the same time."""
    settings = _settings()
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
def workers_listen_to_queues(**_: Any) -> list[CheckMessage]:
    """The groups of workers and the handlers name the same queues."""
    settings = _settings()
    if settings is None or not settings.WORKERS:
        return []
    found = groups.parse(settings.WORKERS)
    used = {handler.queue for handler in registry.handlers()}
    heard = {
        queue
        for group in found.values()
        for queue, _ in groups.queues_of(group, found.values(), used)
    }
    return [
        *(
            Warning(
                f"JOBS['WORKERS']: no group listens to queue {queue!r}",
                "name it in a group, or add a group without queues, which takes the rest",
                id="jobs.W053",
            )
            for queue in sorted(used - heard)
        ),
        *(
            Warning(
                f"JOBS['WORKERS']: no handler names queue {queue!r}{groups.near(queue, used)}",
                "its jobs are only those that are enqueued with queue=",
                id="jobs.W054",
            )
            for queue in sorted(heard - used)
        ),
    ]


@register("jobs")
def times_are_aware(**_: Any) -> list[CheckMessage]:
    """Times have a zone, so that those of all machines mean the same."""
    if django_settings.USE_TZ:
        return []
    hint = "USE_TZ = True; times without a zone are ambiguous when clocks change"
    return [Error("USE_TZ is False, with which jobs do not work", hint, id="jobs.E061")]


@register("jobs")
def connection_is_there(**_: Any) -> list[CheckMessage]:
    """RQ_QUEUES has our connection."""
    settings = _settings()
    if settings is None:
        return []
    queues = getattr(django_settings, "RQ_QUEUES", None) or {}
    name = settings.CONNECTION
    if name not in queues:
        message = f"JOBS['CONNECTION'] is {name!r}, which RQ_QUEUES lacks"
        return [Error(message, _near(name, queues), id="jobs.E005")]
    from jobs.engine import clients

    try:
        clients.client()
    except Exception as error:  # whatever django-rq and redis-py raise for what they cannot use
        what = f"lacks {error}" if isinstance(error, KeyError) else f"cannot be used: {error}"
        return [Error(f"RQ_QUEUES[{name!r}] {what}", id="jobs.E005")]
    return []


@register("jobs")
def transactions_see_what_others_commit(**_: Any) -> list[CheckMessage]:
    """Warn if the database alias asks for an isolation level that makes concurrent claims fail."""
    settings = _settings()
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
    except rq.Refused:
        return []  # the doctor says so; jobs need no INFO
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
            f"outgoing calls may reach {', '.join(settings.HTTP_ALLOW)}, whatever the URL",
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


@register("jobs", deploy=True)
def sockets_are_served(**_: Any) -> list[CheckMessage]:
    """Warn if live events are mounted and ASGI_APPLICATION names no application.

    Only with ``--deploy``: new projects have no ASGI_APPLICATION, and everything else works.
    """
    try:
        if not _has_url("jobs-events-stream", _urls()):
            return []
    except (ConfigError, ImproperlyConfigured, ImportError):
        return []  # each has a message of its own
    hint = (
        "WebSockets and server-sent events are not available without it; "
        "set it to 'yourproject.asgi.application'"
    )
    name = getattr(django_settings, "ASGI_APPLICATION", None)
    try:
        problem = "" if name and import_string(name) else "is not set"
    except ImportError as error:
        problem = str(error)
    return [Warning(f"ASGI_APPLICATION: {problem}", hint, id="jobs.W051")] if problem else []


@register("jobs")
def dashboard_is_closed(**_: Any) -> list[CheckMessage]:
    """Nobody reaches the pages of django-rq, which know no permissions and unpickle results."""
    try:
        found = _url_of("django_rq.", _urls())
    except (ConfigError, ImproperlyConfigured, ImportError):
        return []  # each has a message of its own
    if found is None:
        return []
    return [
        Warning(
            f"the pages of django-rq are reachable, at {found!r}: any staff user may empty lists "
            "there, whatever his permissions, and what it reads from Redis is unpickled",
            "set RQ_SHOW_ADMIN_LINK = False and include no django_rq.urls",
            id="jobs.W052",
        )
    ]


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


@register("jobs")
def packages_are_new_enough(**_: Any) -> list[CheckMessage]:
    """Python, Django and redis-py are of versions on which the tests run."""
    return [Error(problem, id="jobs.E070") for problem in versions.old_packages()]


@register("jobs", Tags.database)
def postgresql_is_new_enough(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """Looked at with ``check --database`` and at ``migrate``."""
    settings = _settings()
    if settings is None or settings.DATABASE not in (databases or ()) or database_is_there():
        return []
    from jobs.operate import environment

    try:
        problem = environment.old_postgresql()
    except OperationalError:
        return []  # other checks report the database
    return [Error(problem, id="jobs.E071")] if problem else []


@register("jobs", deploy=True)
def redis_is_new_enough(**_: Any) -> list[CheckMessage]:
    """Redis knows the commands that it is given."""
    if _settings() is None or connection_is_there():
        return []
    from jobs.engine import rq

    try:
        problem = versions.too_old("Redis", rq.server_info().version, versions.REDIS)
    except (*rq.Unavailable, KeyError):
        return []  # jobs.W011 says it
    return [Error(problem, id="jobs.E072")] if problem else []


@register("jobs")
def blobs_have_a_store(**_: Any) -> list[CheckMessage]:
    """The store of blobs has all options that its kind needs, and no others."""
    settings = _settings()
    if settings is None or not settings.BLOBS:
        return []
    from jobs import blobs

    try:
        blobs.build(settings.BLOBS)
    except ConfigError as error:
        return [Error(str(error), id="jobs.E080")]
    return []


@register("jobs")
def sandboxes_are_closed(**_: Any) -> list[CheckMessage]:
    """Where a parser runs in a sandbox, the kernel can isolate it."""
    registry.handlers()  # whose modules import what they use
    sandbox = sys.modules.get("jobs.sandbox")
    if sandbox is None or sandbox.isolation() == "full":
        return []
    return [
        Warning(
            "this kernel has no Landlock or no seccomp: parsers in a sandbox have limits of memory "
            "and time, but may read files and reach the network",
            "run workers that parse files of strangers on Linux 5.13 or newer",
            id="jobs.W080",
        )
    ]


def _urls() -> Iterable[Any]:
    """Return the URL patterns of the project; a project of workers alone may have none."""
    if not hasattr(django_settings, "ROOT_URLCONF"):
        return ()
    try:
        return get_resolver().url_patterns
    except ConfigError:  # the check of the settings reports it
        return ()


def _has_url(name: str, patterns: Iterable[Any]) -> bool:
    return any(
        getattr(one, "name", "") == name or _has_url(name, getattr(one, "url_patterns", ()))
        for one in patterns
    )


def _url_of(package: str, patterns: Iterable[Any], before: str = "") -> str | None:
    """Return the first path at which a view of the package is found."""
    for one in patterns:
        path = before + str(one.pattern)
        if getattr(getattr(one, "callback", None), "__module__", "").startswith(package):
            return path
        if found := _url_of(package, getattr(one, "url_patterns", ()), path):
            return found
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _near(name: str, known: Any) -> str | None:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else None
