"""Retention: deletes emails that ended long ago, and content that no email uses any more.

An email is kept while its job exists or it is in doubt. Once it is deleted, a job with its id sends
nothing, because a worker looks for the email first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

import jobs
from emailgw import config
from emailgw.clock import Now, now
from emailgw.models import (
    EmailBatch,
    EmailEvent,
    EmailLog,
    IdempotencyKey,
    OutboxEmail,
    Status,
    StoredHtml,
    Suppression,
)

Rows = Mapping[str, int]


def clear(dry_run: bool, chunk: int) -> Iterator[Rows]:
    """Delete expired rows in chunks; each step is one short transaction."""
    keys = IdempotencyKey.objects.filter(expires_at__lt=Now())
    ended = Suppression.objects.filter(expires_at__lt=Now())
    if dry_run:
        yield {
            "emails": _old().count(), "email keys": keys.count(), "suppressions": ended.count()
        }  # fmt: skip
        return
    for name, rows in (("email keys", keys), ("suppressions", ended)):
        yield from _each(name, rows, chunk)
    while found := _clear_emails(chunk):
        yield found


def _old() -> QuerySet[OutboxEmail]:
    settings, moment = config.settings(), now()
    return OutboxEmail.objects.filter(
        Q(status=Status.SENT, processed_at__lt=moment - settings.KEEP_SENT)
        | Q(
            status__in=[Status.FAILED, Status.EXPIRED],
            processed_at__lt=moment - settings.KEEP_UNSENT,
        ),
        ~Exists(jobs.Job.objects.filter(pk=OuterRef("pk"))),
        in_doubt=False,
    )


def _each(name: str, rows: QuerySet[Any], chunk: int) -> Iterator[Rows]:
    while True:
        with transaction.atomic():
            some = rows.select_for_update(skip_locked=True).order_by("pk")
            ids = list(some.values_list("pk", flat=True)[:chunk])
            gone, _ = rows.model._default_manager.filter(pk__in=ids).delete()
        if gone:
            yield {name: gone}
        if len(ids) < chunk:
            return


def _clear_emails(chunk: int) -> Rows:
    """Delete the oldest expired emails, with the rows that only they used."""
    with transaction.atomic():
        found = list(_old().order_by("processed_at", "pk").values("pk", "html_id")[:chunk])
        # Lock contents first: of two sweepers with the same one, the later sees all deletes.
        contents = sorted({row["html_id"] for row in found})
        list(
            StoredHtml.objects.select_for_update().filter(pk__in=contents).order_by("pk").only("pk")
        )
        wanted = OutboxEmail.objects.filter(pk__in=[row["pk"] for row in found])
        still = _old().filter(pk__in=wanted.values("pk")).select_for_update(of=("self",))
        rows = list(still.order_by("pk").values("pk", "batch_id"))
        ids = [row["pk"] for row in rows]
        for model in (IdempotencyKey, EmailEvent, EmailLog):
            model.objects.filter(outbox_id__in=ids).delete()
        OutboxEmail.objects.filter(pk__in=ids).delete()
        used = OutboxEmail.objects.filter(html_id=OuterRef("pk"))
        bodies, _ = StoredHtml.objects.filter(~Exists(used), pk__in=contents).delete()
        member = OutboxEmail.objects.filter(batch_id=OuterRef("pk"))
        batches = {row["batch_id"] for row in rows}
        EmailBatch.objects.filter(~Exists(member), pk__in=batches).delete()
    counted = {"emails": len(ids), "email contents": bodies}
    return counted if ids else {}
