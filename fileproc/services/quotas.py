"""Quotas: how much an owner stores, and how many batches are open."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from fileproc import config
from fileproc.errors import Refused
from fileproc.models import Batch, BatchStatus, File, FileStatus, Quota

OPEN = (BatchStatus.PENDING_UPLOAD, BatchStatus.ACTIVE)


@dataclass(frozen=True, slots=True)
class Usage:
    """What an owner uses, and may use."""

    bytes_used: int
    bytes_limit: int
    open_batches: int
    batches_limit: int


def usage(owner: str) -> Usage:
    """Return what an owner uses, and may use."""
    given = Quota.objects.filter(owner=owner).first() or Quota(owner=owner)
    return Usage(
        used_bytes(owner), _bytes_limit(given), open_batches(owner), _batches_limit(given)
    )  # fmt: skip


def _bytes_limit(given: Quota) -> int:
    return config.settings().QUOTA_BYTES if given.bytes_limit is None else given.bytes_limit


def _batches_limit(given: Quota) -> int:
    return config.settings().QUOTA_BATCHES if given.batches_limit is None else given.batches_limit


def _locked(owner: str) -> Quota:
    """Return the owner's quota, locked: a request counts what one before it took."""
    Quota.objects.get_or_create(owner=owner)
    return Quota.objects.select_for_update().get(owner=owner)


def _stored() -> QuerySet[File]:
    """Return the files that count: those that are there or expected, also while failed."""
    return File.objects.shown().exclude(status=FileStatus.FAILED, blob_etag="")


def used_bytes(owner: str) -> int:
    """Return how many bytes the owner's files have."""
    return int(_stored().filter(owner=owner).aggregate(total=Sum("size"))["total"] or 0)


def with_used(rows: QuerySet[Quota]) -> QuerySet[Quota]:
    """Return the quotas with the bytes that are ``used``."""
    sums = _stored().filter(owner=OuterRef("owner")).order_by().values("owner")
    return rows.annotate(used=Coalesce(Subquery(sums.annotate(n=Sum("size")).values("n")), 0))


def open_batches(owner: str) -> int:
    """Return how many open batches count towards the owner's quota."""
    return Batch.objects.filter(
        Q(used_at__gt=timezone.now() - config.IDLE_BATCH), owner=owner, status__in=OPEN
    ).count()  # fmt: skip


def check_batches(owner: str) -> None:
    """Check that the owner may begin one more batch."""
    limit, used = _batches_limit(_locked(owner)), open_batches(owner)
    if used >= limit:
        raise Refused(
            "QUOTA_EXCEEDED", f"there may be {limit} open batches, and there are {used}",
            used=used, limit=limit,
        )  # fmt: skip


def check_bytes(owner: str, more: int) -> None:
    """Check that the owner may store this many more bytes."""
    limit, used = _bytes_limit(_locked(owner)), used_bytes(owner)
    if used + more > limit:
        words = [filesizeformat(n).replace("\xa0", " ") for n in (limit, used, more)]
        raise Refused(
            "QUOTA_EXCEEDED", "all files together may have {}; {} are used, {} more were announced"
            .format(*words), used=used, limit=limit,
        )  # fmt: skip
