"""What providers tell of mail that they took: events of the email, and suppressed addresses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from anymail.signals import tracking
from django.db import transaction
from django.dispatch import receiver

import jobs
from emailgw import suppressions, telling
from emailgw.clock import now
from emailgw.models import EmailEvent, EmailLog, OutboxEmail, Suppression
from emailgw.pipeline import shown
from jobs.fields import blind_index, mask_email

SOFT_FOR = timedelta(days=3)
"""How long nothing is sent to an address that could not take mail for now."""
_TYPES = {
    "sent": "ACCEPTED",
    "delivered": "DELIVERED",
    "bounced": "BOUNCED",
    "complained": "COMPLAINED",
    "rejected": "REJECTED",
    "failed": "REJECTED",
    "deferred": "DEFERRED",
}
_ACCEPTED = frozenset({"ACCEPTED", "DELIVERED", "BOUNCED", "COMPLAINED", "DEFERRED"})


@receiver(tracking, dispatch_uid="emailgw.feedback")
def told(sender: Any, event: Any, esp_name: str, **_: Any) -> None:
    """The event is in the email's story, once, and what follows from it has followed."""
    kind = _TYPES.get(str(event.event_type))
    row = _email_of(event) if kind else None
    if kind is None or row is None:
        return
    with transaction.atomic():
        is_new = EmailEvent.objects.get_or_create(
            provider_event_id=_event_id(esp_name, event),
            defaults={"outbox": row, "type": kind, "source": esp_name, "detail": _detail(event)},
        )[1]
        if not is_new:
            return
        _note(row, kind, event)
        if kind in ("BOUNCED", "COMPLAINED") and event.recipient:
            _suppress(row, kind, event)
            telling.tell_feedback(row, _failure_code(kind, event), event.recipient)
        if row.in_doubt and kind in _ACCEPTED:
            _settle(row)


def _email_of(event: Any) -> OutboxEmail | None:
    """The email that it is about: by our own mark, else by the provider's id."""
    try:
        mark = UUID(str((event.metadata or {}).get("outbox_id", "")))
    except ValueError:
        log = EmailLog.objects.filter(provider_message_id=event.message_id or "").first()
        return None if log is None else log.outbox
    return OutboxEmail.objects.filter(pk=mark).first()


def _event_id(esp_name: str, event: Any) -> str:
    """The same however often it is told; one per recipient."""
    who = blind_index(f"{event.event_id}|{event.recipient}", "emailgw.event")
    return f"{esp_name}:{event.event_type}:{who}"


def _detail(event: Any) -> dict[str, str]:
    told = {
        "messageId": str(event.message_id or "")[:300],
        "recipient": mask_email(event.recipient) if event.recipient else "",
        "description": shown(str(event.description or "")),
        "answer": shown(str(event.mta_response or "")),
    }
    return {name: text for name, text in told.items() if text}


def _note(row: OutboxEmail, kind: str, event: Any) -> None:
    log = EmailLog.objects.filter(outbox=row)
    if kind == "DELIVERED":
        log.filter(delivered_at=None).update(delivered_at=now())
    elif kind == "BOUNCED":
        log.update(bounce_type=shown(str(event.description or ""))[:100])
    elif kind == "COMPLAINED":
        log.update(complaint_type=shown(str(event.description or "unknown"))[:100])


def _is_soft(event: Any) -> bool:
    return str(event.description or "").startswith("Transient")


def _failure_code(kind: str, event: Any) -> str:
    if kind == "COMPLAINED":
        return "COMPLAINT"
    return "BOUNCE_TEMPORARY" if _is_soft(event) else "BOUNCE_PERMANENT"


def _suppress(row: OutboxEmail, kind: str, event: Any) -> None:
    reason, until = Suppression.Reason.SPAM_COMPLAINT, None
    if kind == "BOUNCED":
        is_soft = _is_soft(event)
        reason = Suppression.Reason.SOFT_BOUNCE if is_soft else Suppression.Reason.HARD_BOUNCE
        until = now() + SOFT_FOR if is_soft else None
    known = {row.to, *row.cc, *row.bcc}
    address = str(event.recipient).strip().lower()
    if address in known:  # nobody suppresses whom we never wrote to
        suppressions.suppress(row.company_id, address, reason, by="provider", until=until)


def _settle(row: OutboxEmail) -> None:
    """Its job asks again, and finds the event."""
    try:
        with transaction.atomic():
            jobs.retry(row.pk, by="provider", reason="the provider has told of it")
    except (jobs.NotAllowed, jobs.UnknownJob):
        return  # it runs already, and will find the event
