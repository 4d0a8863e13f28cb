"""What runs the jobs and serves the pages."""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from jobs import groups, registry, versions
from jobs.checks.common import has_url, settings_in_force, urls
from jobs.errors import ConfigError


@register("jobs")
def workers_listen_to_queues(**_: Any) -> list[CheckMessage]:
    """The groups of workers and the handlers name the same queues."""
    settings = settings_in_force()
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


@register("jobs", deploy=True)
def sockets_are_served(**_: Any) -> list[CheckMessage]:
    """Warn if live events are mounted and ASGI_APPLICATION names no application.

    Only with ``--deploy``: new projects have no ASGI_APPLICATION, and everything else works.
    """
    try:
        if not has_url("jobs-events-stream", urls()):
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
def packages_are_new_enough(**_: Any) -> list[CheckMessage]:
    """Python, Django and redis-py are of versions on which the tests run."""
    return [Error(problem, id="jobs.E070") for problem in versions.old_packages()]


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
