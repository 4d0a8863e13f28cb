"""What ``manage.py check`` says about the settings."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from jobs import http
from operations import config

SHARING = {
    "erp-sync": "killing a sync that does not stop kills the writes of its process, too",
    "erp-read": "reads can take every slot from writes",
}
"""What follows if writes share their workers with another queue."""


@checks.register("operations")
def check_settings(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check that ``OPERATIONS`` is valid."""
    try:
        found = config.settings()
        if found.ERP_URL:
            http.check(found.ERP_URL)
    except (ImproperlyConfigured, TypeError) as error:
        return [checks.Error(str(error), id="operations.E001")]
    except http.HttpError as error:
        return [checks.Error(f"OPERATIONS['ERP_URL']: {error}", id="operations.E002")]
    return []


@checks.register("operations", deploy=True)
def check_erp(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if no ERP is configured."""
    try:
        url = config.settings().ERP_URL
    except (ImproperlyConfigured, TypeError):
        return []  # reported by check_settings
    if url:
        return []
    hint = "Set ERP_URL."
    return [checks.Warning("no operation can be enqueued: OPERATIONS names no ERP", hint,
                           id="operations.W001")]  # fmt: skip


@checks.register("operations")
def check_groups(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if groups of workers are declared, and writes share one with syncs or reads."""
    workers = getattr(settings, "JOBS", {}).get("WORKERS") or {}
    group_of = {
        str(queue).partition(":")[0]: name
        for name, rules in workers.items()
        for queue in rules.get("queues", ())
    }
    if not workers or "erp-write" not in group_of:
        return []
    hint = "Give the queue a group of its own."
    return [
        checks.Warning(
            f"JOBS['WORKERS'][{group_of['erp-write']!r}]: {words}", hint, id="operations.W002"
        )
        for queue, words in SHARING.items() if group_of.get(queue) == group_of["erp-write"]
    ]  # fmt: skip


@checks.register(checks.Tags.database)
def check_browser(app_configs: Any = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if agents use a browser, and none can be started here."""
    from operations.clients import chromium
    from operations.models import Agent, ClientKind

    if not kwargs.get("databases") or not (problem := chromium.problem()):
        return []
    try:
        wanted = Agent.objects.filter(client=ClientKind.BROWSER).exists()
    except DatabaseError:
        return []  # its table is not there yet
    if not wanted:
        return []
    hint = "Their operations wait until a worker has one."
    return [checks.Warning(f"agents use a browser: {problem}", hint, id="operations.W003")]
