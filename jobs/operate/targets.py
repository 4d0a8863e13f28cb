"""What people act on: to whom each sort of target belongs, and what is said where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from jobs import registry, scopes
from jobs.engine import sql
from jobs.errors import UnknownBatch, UnknownJob, UnknownTarget


class Place(NamedTuple):
    """To whom a target belongs. None: it has no such thing; empty: it belongs to nobody alone, so
    that only those may touch it who see everything of its sort."""

    tenant: str | None = None
    queue: str | None = None


EVERYBODYS = Place("", "")
"""Of what concerns all tenants and queues."""

_QUEUE_OF_EVENT = """
CASE WHEN topic LIKE 'jobs.%%' AND topic NOT LIKE 'jobs.batch.%%' THEN coalesce(payload->>'queue',
  CASE WHEN payload->>'scope' LIKE 'queue:%%' THEN substr(payload->>'scope', 7) END, '') END
"""
"""NULL of what has no queue; empty where it is about all."""

# A webhook is told of jobs of all queues, so that it is nobody's who sees only some.
_PLACES = {
    "job": "SELECT tenant, queue FROM jobs_job WHERE id = %s",
    "batch": "SELECT tenant, NULL FROM jobs_batch WHERE id = %s",
    "deadletter": "SELECT tenant, queue FROM jobs_deadletter WHERE id = %s",
    "event": f"SELECT tenant, {_QUEUE_OF_EVENT} FROM jobs_outbox WHERE id = %s",  # noqa: S608
    "effect": "SELECT j.tenant, j.queue FROM jobs_effect e JOIN jobs_job j ON j.id = e.job_id "
    "WHERE e.id = %s",
    "webhook": "SELECT tenant, '' FROM jobs_webhook WHERE id = %s",
    "delivery": "SELECT w.tenant, '' FROM jobs_webhookdelivery d "
    "JOIN jobs_webhook w ON w.id = d.webhook_id WHERE d.id = %s",
    "view": "SELECT CASE WHEN is_shared THEN tenant ELSE nullif(tenant, '') END, NULL "
    "FROM jobs_savedview WHERE id = %s",
    "breaker": "SELECT '', '' FROM jobs_breaker WHERE name = %s",
}
_TYPES: dict[str, type] = {
    "job": UUID,
    "batch": UUID,
    "deadletter": int,
    "event": int,
    "effect": int,
    "webhook": UUID,
    "delivery": UUID,
    "view": int,
}


def unknown(kind: str, target: object) -> UnknownTarget:
    """What is raised where there is no such target, or none within somebody's scope."""
    if kind == "job":
        return UnknownJob(target)  # type: ignore[arg-type]
    if kind == "batch":
        return UnknownBatch(target)  # type: ignore[arg-type]
    return UnknownTarget(kind, target)


def find(kind: str, target: Any) -> Place:
    """To whom the target belongs; raises UnknownTarget, or one of its sorts."""
    if finder := _FINDERS.get(kind):
        return finder(target)
    statement = _PLACES.get(kind)
    if statement is None:
        return EVERYBODYS
    wanted = _TYPES.get(kind, str)
    if not isinstance(target, wanted) or isinstance(target, bool):
        raise unknown(kind, target)
    if isinstance(target, int) and not 0 <= target < 2**63:
        raise unknown(kind, target)
    if isinstance(target, str) and "\x00" in target:
        raise unknown(kind, target)
    found = sql.rows(statement, [target])
    if not found:
        raise unknown(kind, target)
    return Place(*found[0])


def _of_scope(scope: Any) -> Place:
    """A closed or limited scope belongs to those who see all that it concerns."""
    what, name = scopes.split(scopes.checked(scope))
    if what == "queue":
        return Place("", name)
    if what == "tenant":
        return Place(name, "")
    return EVERYBODYS


def _of_queue(name: Any) -> Place:
    return Place("", str(name))


def _of_schedule(name: Any) -> Place:
    """A schedule belongs to those to whom its jobs belong."""
    if not isinstance(name, str) or "\x00" in name:
        raise unknown("schedule", name)
    found = sql.rows(
        "SELECT coalesce(options->>'tenant', ''), coalesce(options->>'queue', ''), kind "
        "FROM jobs_schedule WHERE name = %s",
        [name],
    )
    if not found:
        raise unknown("schedule", name)
    [(tenant, queue, kind)] = found
    handler = registry.find(kind)
    return Place(tenant, queue or (handler.queue if handler else ""))


def _of_worker(name: Any) -> Place:
    """A worker belongs to those who see all queues and all tenants."""
    if not isinstance(name, str) or "\x00" in name:
        raise unknown("worker", name)
    found = sql.rows("SELECT 1 FROM jobs_worker WHERE name = %s", [name])
    if not found:
        raise unknown("worker", name)
    return Place("", "")


_FINDERS: dict[str, Callable[[Any], Place]] = {
    "scope": _of_scope,
    "queue": _of_queue,
    "schedule": _of_schedule,
    "worker": _of_worker,
}
