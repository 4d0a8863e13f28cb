"""Trimming what is old: texts of publications, whose keys stay for ever, and unused assets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from publisher import assets, drafts
from publisher.clock import now
from publisher.content import Content
from publisher.models import (
    Asset,
    Consent,
    Plan,
    PlanVersion,
    Publication,
    PublicationEvent,
    Template,
)

KEEP = timedelta(days=180)
KEEP_LETTERS = timedelta(days=90)
KEEP_ASSETS = timedelta(days=7)
"""Since their last use."""
KEEP_CONSENTS = timedelta(hours=1)
_KEPT = Publication.Reason.IN_DOUBT
"""Somebody still has to decide about these."""


def trim(dry_run: bool, chunk: int) -> Iterator[dict[str, int]]:
    """Delete text, error and history of publications that ended long ago; keep their rows."""
    rows = (
        Publication.objects.filter(ended_at__lt=now() - KEEP)
        .exclude(content={})
        .exclude(reason=_KEPT)
    )
    if dry_run:
        yield {"publications trimmed": rows.count()}
        return
    while True:
        with transaction.atomic():
            some = list(rows.select_for_update(skip_locked=True).order_by("pk")[:chunk])
            for row in some:
                row.content, row.handle, row.error = {}, {}, ""
                row.save(update_fields=["content", "handle", "error"])
            PublicationEvent.objects.filter(publication__in=some).delete()
        if some:
            yield {"publications trimmed": len(some)}
        if len(some) < chunk:
            return


def trim_assets(dry_run: bool, chunk: int) -> Iterator[dict[str, int]]:
    """Delete assets with their bytes that nothing has used for a while, and unfinished uploads."""
    in_use = _assets_in_use()
    rows = Asset.objects.filter(used_at__lt=now() - KEEP_ASSETS).exclude(pk__in=in_use)
    if dry_run:
        yield {"assets deleted": rows.count()}
        return
    while True:
        with transaction.atomic():
            # What is stored meanwhile with one of them has moved ``used_at``, or waits for this.
            some = list(rows.select_for_update(skip_locked=True).order_by("pk")[:chunk])
            for row in some:
                assets.discard(row)
                row.delete()
        if some:
            yield {"assets deleted": len(some)}
        if len(some) < chunk:
            return


def trim_consents(dry_run: bool, chunk: int) -> Iterator[dict[str, int]]:
    """Delete old consents, with the tokens that nobody has chosen."""
    rows = Consent.objects.filter(created_at__lt=now() - KEEP_CONSENTS)
    yield {"consents deleted": rows.count() if dry_run else rows.delete()[0]}


def _assets_in_use() -> set[UUID]:
    """Return the assets of posts that wait or are in doubt, of plans to come, and of templates."""
    waiting = Q(status__in=[Publication.Status.PENDING, Publication.Status.RUNNING])
    posts = Publication.objects.filter(waiting | Q(reason=_KEPT), content__has_key="media")
    over = [Plan.Status.PUBLISHED, Plan.Status.FAILED]
    versions = PlanVersion.objects.filter(number=F("plan__version")).exclude(plan__status__in=over)
    found: set[UUID] = set()
    for content in posts.values_list("content", flat=True).iterator():
        found |= Content.model_validate(content).assets
    for table in (versions, Template.objects.all()):
        for content in table.values_list("content", flat=True).iterator():
            found |= drafts.read(content).assets
    return found
