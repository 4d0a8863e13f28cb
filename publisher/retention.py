"""Trimming old publications: their text goes, and their key stays for ever."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db import transaction

from publisher.clock import now
from publisher.models import Publication, PublicationEvent

KEEP = timedelta(days=180)
KEEP_LETTERS = timedelta(days=90)
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
