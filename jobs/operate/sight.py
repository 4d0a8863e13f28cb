"""Sight: rows within the caller's scope; what lies outside does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import F, Model, Q, QuerySet

from jobs.engine import sql
from jobs.errors import JobsError, UnknownBatch, UnknownJob, UnknownTarget
from jobs.events import OF_BATCHES, RESERVED
from jobs.models import Batch, Blackout, DeadLetter, Effect, Job, Limiter, Outbox, Schedule
from jobs.models.clock import Clock
from jobs.operate import targets
from jobs.principals import Principal

M = TypeVar("M", bound=Model)


def within(
    rows: QuerySet[M], who: Principal, *, tenant: str = "tenant", queue: str = "queue"
) -> QuerySet[M]:
    """The rows that the caller may see; an empty name stands for a table without the column."""
    scope = who.scope
    if scope.tenants is not None and tenant:
        rows = rows.filter(**{f"{tenant}__in": sorted(scope.tenants)})
    if scope.queues is not None and queue:
        rows = rows.filter(**{f"{queue}__in": sorted(scope.queues)})
    return rows


def jobs(who: Principal) -> QuerySet[Job]:
    return within(Job.objects.using(sql.alias()), who)


def batches(who: Principal) -> QuerySet[Batch]:
    return within(Batch.objects.using(sql.alias()), who, queue="")


def letters(who: Principal) -> QuerySet[DeadLetter]:
    return within(DeadLetter.objects.using(sql.alias()), who)


def outbox(who: Principal) -> QuerySet[Outbox]:
    rows = within(Outbox.objects.using(sql.alias()), who, queue="")
    if not who.is_staff:
        rows = rows.filter(audience="tenant")
    if (queues := who.scope.queues) is None:
        return rows
    names = sorted(queues)
    return rows.filter(
        ~Q(topic__startswith=RESERVED)
        | Q(topic__startswith=OF_BATCHES)
        | Q(payload__queue__in=names)
        | Q(payload__scope__in=[f"queue:{name}" for name in names])
    )


def effects(who: Principal) -> QuerySet[Effect]:
    rows = Effect.objects.using(sql.alias())
    return within(rows, who, tenant="job__tenant", queue="job__queue")


def schedules(who: Principal) -> QuerySet[Schedule]:
    rows = Schedule.objects.using(sql.alias())
    return within(rows, who, tenant="options__tenant", queue="options__queue")


def limits(who: Principal) -> QuerySet[Limiter]:
    """Return the limits of queues, kinds, and keys that are closed; ``key:<kind>`` is for each key.

    They concern everybody, so only callers who see everything get them.
    """
    rows = Limiter.objects.using(sql.alias()).filter(Q(key=None) | Q(closed_until__gt=Clock()))
    rows = rows.order_by(F("key").asc(nulls_first=True), "scope")
    return rows if who.scope.is_everything else rows.none()


def blackouts(who: Principal) -> list[Blackout]:
    """Windows of what the caller may see."""
    rows = Blackout.objects.using(sql.alias()).order_by("scope", "start", "id")[:1000]
    return [row for row in rows if is_visible(who, "scope", row.scope)]


def job(who: Principal, job_id: UUID) -> Job:
    """The job; raises UnknownJob."""
    found = jobs(who).filter(pk=job_id).first()
    if found is None:
        raise UnknownJob(job_id)
    return found


def batch(who: Principal, batch_id: UUID) -> Batch:
    """The batch; raises UnknownBatch."""
    found = batches(who).filter(pk=batch_id).first()
    if found is None:
        raise UnknownBatch(batch_id)
    return found


def one(rows: QuerySet[M], kind: str, key: Any, name: str = "pk") -> M:
    """The row with this key; raises UnknownTarget."""
    found = rows.filter(**{name: key}).first() if _is_storable(key) else None
    if found is None:
        raise UnknownTarget(kind, key)
    return found


def check_tenant(who: Principal, tenant: str | None) -> None:
    """Raises UnknownTarget where the tenant is out of sight; None names none."""
    if tenant is not None and not who.scope.covers(tenant):
        raise UnknownTarget("tenant", tenant)


def check_queue(who: Principal, queue: str | None) -> None:
    """The same of a queue."""
    if queue is not None and not who.scope.covers(None, queue):
        raise UnknownTarget("queue", queue)


def check_scope(who: Principal, scope: str) -> None:
    """The same of ``queue:…``, ``tenant:…``, ``kind:…``, ``key:…`` or ``limit_key:…``."""
    check(who, "scope", scope)


def check(who: Principal, kind: str, key: Any) -> None:
    """Raises UnknownTarget where the target is out of sight, or is not there."""
    if not who.scope.covers(*targets.find(kind, key)):
        raise UnknownTarget(kind, key)


def is_visible(who: Principal, kind: str, key: Any) -> bool:
    """Whether the target may be seen."""
    try:
        return who.scope.covers(*targets.find(kind, key))
    except JobsError:
        return False


def check_jobs(who: Principal, ids: Iterable[UUID]) -> None:
    """Raises UnknownJob for the first of these that is out of sight."""
    wanted = list(ids)
    if not wanted:
        return
    seen = set(jobs(who).filter(pk__in=wanted).values_list("pk", flat=True))
    for job_id in wanted:
        if job_id not in seen:
            raise UnknownJob(job_id)


def _is_storable(key: Any) -> bool:
    if isinstance(key, str):
        return "\x00" not in key
    return not isinstance(key, int) or 0 <= key < 2**63


NOBODY = Q(pk__in=[])
