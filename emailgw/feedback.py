"""Provider feedback: deliveries, bounces and complaints about accepted emails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from anymail.signals import tracking
from django.db import transaction
from django.dispatch import receiver

import jobs
from emailgw import events, suppressions
from emailgw.clock import now
from emailgw.models import EmailEvent, EmailLog, OutboxEmail, Suppression
from emailgw.provider_text import known_words, provider_id
from jobs.fields import blind_index, mask_email

SOFT_FOR = timedelta(days=3)
"""How long an address is suppressed after a soft bounce."""
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
def record_event(sender: Any, event: Any, esp_name: str, **_: Any) -> None:
    """Add the event to the email's history once, and act on it."""
    kind = _TYPES.get(str(event.event_type))
    row = _email_of(event) if kind else None
    if kind is None or row is None:
        return
    with transaction.atomic():
        is_new = EmailEvent.objects.get_or_create(
            provider_event_id=_event_id(esp_name, event),
            defaults={
                "outbox": row,
                "type": kind,
                "source": esp_name,
                "detail": _detail(row, event),
            },
        )[1]
        if not is_new:
            return
        catch_up(row)
        if kind in ("BOUNCED", "COMPLAINED") and event.recipient:
            _suppress(row, kind, event)
            events.publish_feedback(row, _failure_code(kind, event), event.recipient)
        if row.in_doubt and kind in _ACCEPTED:
            _settle(row)


def _email_of(event: Any) -> OutboxEmail | None:
    """Find the email of an event by its outbox id, or by the provider's message id."""
    if (outbox_id := _outbox_id(event)) is not None:
        return OutboxEmail.objects.filter(pk=outbox_id).first()
    log = EmailLog.objects.filter(provider_message_id=event.message_id or "").first()
    return None if log is None else log.outbox


def _outbox_id(event: Any) -> UUID | None:
    """Return the email's id from a header, a tag, or its Message-ID.

    Which headers an event contains depends on the provider's configuration.
    """
    for found in _candidates(event):
        try:
            return UUID(str(found))
        except ValueError:
            continue
    return None


def _candidates(event: Any) -> Iterator[object]:
    yield _member(event.metadata, "outbox_id")
    mail = _member(event.esp_event, "mail")
    tags = _member(_member(mail, "tags"), "outbox_id")
    yield from tags if isinstance(tags, list) else ()
    ids = [_member(_member(mail, "commonHeaders"), "messageId")]
    headers = _member(mail, "headers")
    for header in headers if isinstance(headers, list) else ():
        if str(_member(header, "name")).lower() == "message-id":
            ids.append(_member(header, "value"))
    for found in ids:
        yield str(found).lstrip("<").partition("@")[0]


def _member(data: Any, name: str) -> Any:
    return data.get(name) if isinstance(data, dict) else None


def _event_id(esp_name: str, event: Any) -> str:
    """Return an id that is the same for every delivery of the event, one per recipient."""
    hashed = blind_index(f"{event.event_id}|{event.recipient}", "emailgw.event")
    return f"{esp_name}:{event.event_type}:{hashed}"


def _detail(row: OutboxEmail, event: Any) -> dict[str, str]:
    detail = {
        "messageId": provider_id(event.message_id, (row.to, *row.cc, *row.bcc)),
        "recipient": mask_email(event.recipient) if event.recipient else "",
        "description": known_words(str(event.description or "")),
        "answer": known_words(str(event.mta_response or "")),
    }
    return {name: text for name, text in detail.items() if text}


def catch_up(row: OutboxEmail) -> None:
    """Copy the reported events to the email's log entry, if it exists."""
    reported = EmailEvent.objects.filter(
        outbox=row, type__in=("DELIVERED", "BOUNCED", "COMPLAINED")
    )
    columns: dict[str, Any] = {}
    for kind, detail, at in reported.order_by("id").values_list("type", "detail", "at"):
        description = detail.get("description", "")[:100]
        if kind == "DELIVERED":
            columns.setdefault("delivered_at", at)
        elif kind == "BOUNCED":
            columns["bounce_type"] = description
        else:
            columns["complaint_type"] = description or "unknown"
    if columns:
        EmailLog.objects.filter(outbox=row).update(**columns)


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
    if address in known:  # ignore addresses that this email was not sent to
        suppressions.suppress(row.company_id, address, reason, by="provider", until=until)


def _settle(row: OutboxEmail) -> None:
    """Retry the job, whose probe finds the event."""
    try:
        with transaction.atomic():
            jobs.retry(row.pk, by="provider", reason="the provider reported an event")
    except (jobs.errors.NotAllowed, jobs.errors.UnknownJob):
        return  # it is running and will find the event
