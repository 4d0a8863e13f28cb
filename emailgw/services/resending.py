"""Resending: the same row and the same job have another chance."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction

import jobs
from emailgw import states
from emailgw.clock import now
from emailgw.config import TTL
from emailgw.errors import Refused
from emailgw.models import EmailEvent, OutboxEmail, Status
from emailgw.people import require
from emailgw.pipeline import EFFECT

if TYPE_CHECKING:
    from jobs.acts import By


def resend(outbox_id: UUID, *, by: By, reason: str, even_if_sent: bool = False) -> None:
    """The failed or expired email is tried again, with a day of its own; raises Refused.

    One that is in doubt asks its provider first, and stays in doubt where that knows nothing;
    ``even_if_sent`` sends it again all the same. One that was sent is never sent again.
    """
    company = OutboxEmail.objects.filter(pk=outbox_id).values_list("company_id", flat=True).first()
    permission = "resolve_doubt" if even_if_sent else "retry_job"
    name = require(by, permission, company, reason)
    with transaction.atomic():
        row = OutboxEmail.objects.select_for_update(no_key=True).filter(pk=outbox_id).first()
        if row is None:
            raise Refused("NOT_FOUND", "there is no such email")
        if row.status not in (Status.FAILED, Status.EXPIRED) and not row.in_doubt:
            raise Refused("CONFLICT", f"it is {row.status}")
        if even_if_sent and not row.in_doubt:
            raise Refused("CONFLICT", "it is not in doubt")
        row.expires_at = now() + timedelta(seconds=TTL)
        was_in_doubt, row.in_doubt = row.in_doubt, False
        row.save(update_fields=["expires_at", "in_doubt"])
        if not was_in_doubt:
            states.outbox.move(row, Status.ENQUEUED, by=name, why=reason)
        EmailEvent.objects.create(
            outbox=row, type="RESEND", source=name,
            detail={"reason": reason[:200], "evenIfSent": even_if_sent},
        )  # fmt: skip
        _try_again(row, by, reason, even_if_sent)


def _try_again(row: OutboxEmail, by: By, reason: str, even_if_sent: bool) -> None:
    """Its job runs again; ``even_if_sent`` is a decision about this one doubt, and no other."""
    try:
        if even_if_sent:
            done = jobs.resolve_doubt(
                row.pk, EFFECT, "resend", by=by, reason=reason, expires=row.expires_at
            )
            if done.retried:
                return
        jobs.retry(row.pk, by=by, reason=reason, expires=row.expires_at)
    except (jobs.UnknownTarget, jobs.UnknownJob):
        raise Refused("CONFLICT", "its job is gone; send it anew") from None
    except (jobs.NotAllowed, jobs.EffectError) as error:
        raise Refused("CONFLICT", str(error)) from None
