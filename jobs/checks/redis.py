"""Redis: where it is, who reaches it, and what it keeps."""

from __future__ import annotations

from typing import Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured

from jobs import versions
from jobs.addresses import is_loopback
from jobs.checks.common import near, settings_in_force, url_of, urls
from jobs.errors import ConfigError


@register("jobs")
def connection_is_there(**_: Any) -> list[CheckMessage]:
    """RQ_QUEUES has our connection."""
    settings = settings_in_force()
    if settings is None:
        return []
    queues = getattr(django_settings, "RQ_QUEUES", None) or {}
    name = settings.CONNECTION
    if name not in queues:
        message = f"JOBS['CONNECTION'] is {name!r}, which RQ_QUEUES lacks"
        return [Error(message, near(name, queues), id="jobs.E005")]
    from jobs.engine import clients

    try:
        clients.client()
    except Exception as error:  # whatever django-rq and redis-py raise for what they cannot use
        what = f"lacks {error}" if isinstance(error, KeyError) else f"cannot be used: {error}"
        return [Error(f"RQ_QUEUES[{name!r}] {what}", id="jobs.E005")]
    return []


@register("jobs", Tags.security, deploy=True)
def redis_is_closed_to_strangers(**_: Any) -> list[CheckMessage]:
    """Redis is on this machine, or behind TLS or a password."""
    if settings_in_force() is None or connection_is_there():
        return []
    from jobs.engine import rq

    pool = rq.client().connection_pool
    address = pool.connection_kwargs
    host = str(address.get("host", "localhost"))
    is_local = "path" in address or "host" not in address or is_loopback(host)
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
    if settings_in_force() is None or connection_is_there():
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


@register("jobs", deploy=True)
def redis_is_new_enough(**_: Any) -> list[CheckMessage]:
    """Redis knows the commands that it is given."""
    if settings_in_force() is None or connection_is_there():
        return []
    from jobs.engine import rq

    try:
        problem = versions.too_old("Redis", rq.server_info().version, versions.REDIS)
    except (*rq.Unavailable, KeyError):
        return []  # jobs.W011 says it
    return [Error(problem, id="jobs.E072")] if problem else []


@register("jobs")
def dashboard_is_closed(**_: Any) -> list[CheckMessage]:
    """Nobody reaches the pages of django-rq, which know no permissions and unpickle results."""
    try:
        found = url_of("django_rq.", urls())
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
