"""Bulk operations as people see them: which there are, what became of each job, how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from jobs.engine import sql
from jobs.errors import InvalidOption
from jobs.models import Bulk, BulkItem
from jobs.operate import bulkscan, targets
from jobs.operate.bulkplans import IDS_LIMIT, whole
from jobs.operate.explain import explain
from jobs.operate.phrases import Phrase, plain, say
from jobs.principals import By, Scope, principal


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a bulk operation is."""

    bulk: Bulk
    waiting: int
    rate: float
    """Items decided per second, over the last minute."""
    eta: float | None
    """Seconds until the end at this rate; None where that is unknown."""
    held: str = ""
    """Why it does not go on, in words: its job was cancelled, or may not run; empty: it goes on."""
    held_told: str = ""
    """The same in the caller's language."""


def find(bulk_id: UUID, *, by: By) -> Bulk:
    """The operation; raises UnknownTarget where there is none that the caller may see."""
    if not isinstance(bulk_id, UUID):
        raise targets.unknown("bulk", bulk_id)
    found = Bulk.objects.using(sql.alias()).filter(id=bulk_id).first()
    if found is None or not _sees(principal(by).scope, found):
        raise targets.unknown("bulk", bulk_id)
    return found


def every(*, by: By, limit: int = 100, before: UUID | None = None) -> list[Bulk]:
    """The newest operations that the caller may see."""
    whole("limit", limit, 1, IDS_LIMIT)
    scope = principal(by).scope
    found = Bulk.objects.using(sql.alias()).order_by("-created_at", "-id")
    for name, mine in bulkscan.as_json(scope).items():  # as _sees
        found = found.filter(**{f"scope__{name}__contained_by": mine})
    if before is not None:
        last = find(before, by=by)
        found = found.filter(created_at__lte=last.created_at).exclude(
            created_at=last.created_at, id__gte=last.id
        )
    return list(found[:limit])


def items(
    bulk_id: UUID, *, by: By, state: str | None = None, after: int = 0, limit: int = 100
) -> list[BulkItem]:
    """Items by their number, of this outcome only where one is given."""
    whole("limit", limit, 1, IDS_LIMIT)
    bulk = find(bulk_id, by=by)
    found = BulkItem.objects.using(sql.alias()).filter(bulk=bulk, id__gt=after).order_by("id")
    if state is not None:
        if state not in ("waiting", "done", "skipped", "failed"):
            raise InvalidOption("state", f"{state!r} is none of waiting, done, skipped, failed")
        found = found.filter(state=state)
    return list(found[:limit])


_FIRST = " UNION ALL ".join(
    "(SELECT * FROM jobs_bulkitem "  # noqa: S608 - constants
    f"WHERE bulk_id = %s AND state = '{state}' ORDER BY id LIMIT %s)"
    for state in ("failed", "skipped", "done")
)


def first_items(bulk: Bulk, limit: int) -> list[BulkItem]:
    """Of an operation that was found, this many of each outcome, those first that went wrong."""
    return list(BulkItem.objects.using(sql.alias()).raw(_FIRST, [bulk.pk, limit] * 3))


def progress(bulk_id: UUID | Bulk, *, by: By) -> Progress:
    """How far it is, how fast, and how long it will take; also of one that was just found."""
    bulk = bulk_id if isinstance(bulk_id, Bulk) else find(bulk_id, by=by)
    [(seconds,)] = sql.rows(
        "SELECT extract(epoch FROM coalesce(%s, jobs_clock()) "
        "- coalesce(%s, jobs_clock()))::float8",
        [bulk.finished_at, bulk.started_at],
    )
    rate = bulk.decided / seconds if seconds > 0 else 0.0
    if bulk.per_minute is not None:
        rate = min(rate, bulk.per_minute / 60)
    waiting = bulk.total - bulk.decided
    known = rate > 0 and bulk.state in ("running", "canary")
    held = _held(bulk)
    eta = waiting / rate if known else None
    return Progress(bulk, waiting, rate, eta, held.english, held.told)


_HARMLESS = frozenset({"not_due", "queued", "running", "turn", "ready", "dispatch"})


def _held(bulk: Bulk) -> Phrase:
    if bulk.is_over:
        return plain("")
    job = sql.rows(
        "SELECT id FROM jobs_job WHERE kind = 'jobs.bulk' AND tenant = '' AND unique_key = %s "
        "AND state IN ('blocked', 'pending', 'queued', 'running')",
        [str(bulk.id)],
    )
    if not job:
        return say("its job was cancelled or has failed: carry it on, or abort it")
    found = [r for r in explain(job[0][0]).reasons if r.code not in _HARMLESS]
    return Phrase(found[0].text, found[0].told) if found else plain("")


def _sees(scope: Scope, bulk: Bulk) -> bool:
    """Whether all that the operation may touch lies within the scope."""
    frozen = bulkscan.from_json(bulk.scope)
    return all(
        mine is None or (its is not None and its <= mine)
        for mine, its in ((scope.tenants, frozen.tenants), (scope.queues, frozen.queues))
    )
