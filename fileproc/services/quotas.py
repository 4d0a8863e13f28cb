"""Quotas: how much an owner stores, and how many batches are open."""

from __future__ import annotations

from django.db.models import Q, Sum
from django.utils import timezone

from fileproc import config
from fileproc.errors import Refused
from fileproc.models import Batch, BatchStatus, File, FileStatus, Quota

OPEN = (BatchStatus.PENDING_UPLOAD, BatchStatus.ACTIVE)


def _quota(owner: str) -> Quota:
    Quota.objects.get_or_create(owner=owner)
    return Quota.objects.select_for_update().get(owner=owner)


def used_bytes(owner: str) -> int:
    """Return how many bytes the owner's files have."""
    rows = File.objects.shown().filter(owner=owner).exclude(status=FileStatus.FAILED)
    return int(rows.aggregate(total=Sum("size"))["total"] or 0)


def open_batches(owner: str) -> int:
    """Return how many open batches count towards the owner's quota."""
    return Batch.objects.filter(
        Q(used_at__gt=timezone.now() - config.IDLE_BATCH), owner=owner, status__in=OPEN
    ).count()  # fmt: skip


def check_batches(owner: str) -> None:
    """Check that the owner may begin one more batch."""
    given = _quota(owner).batches_limit
    limit = config.settings().QUOTA_BATCHES if given is None else given
    if open_batches(owner) >= limit:
        raise Refused("QUOTA_EXCEEDED", f"there may be {limit} open batches")


def check_bytes(owner: str, more: int) -> None:
    """Check that the owner may store this many more bytes."""
    given = _quota(owner).bytes_limit
    limit = config.settings().QUOTA_BYTES if given is None else given
    if used_bytes(owner) + more > limit:
        raise Refused("QUOTA_EXCEEDED", f"all files together may have {limit} bytes")
