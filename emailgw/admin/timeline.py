"""The history of an email, as entries for its page."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from emailgw.models import EmailEvent, OutboxEmail, Status

LIMIT = 200
_LABELS = {
    "CREATED": gettext_lazy("Submitted"),
    "RECEIVED": gettext_lazy("Received by a worker"),
    "VALIDATED": gettext_lazy("Validated"),
    "SENT_ATTEMPT": gettext_lazy("Being sent to the provider"),
    "SENT": gettext_lazy("Sent"),
    "NO_REPLY": gettext_lazy("No readable reply from the provider"),
    "IN_DOUBT": gettext_lazy("In doubt"),
    "RETRY_SCHEDULED": gettext_lazy("Retry scheduled"),
    "FAILED": pgettext_lazy("email", "Failed"),
    "EXPIRED": pgettext_lazy("email", "Expired"),
    "ENQUEUED": gettext_lazy("Enqueued again"),
    "RESEND": gettext_lazy("Resent by a user"),
    "ACCEPTED": gettext_lazy("Accepted by the provider"),
    "DELIVERED": gettext_lazy("Delivered"),
    "BOUNCED": gettext_lazy("Bounced"),
    "COMPLAINED": gettext_lazy("Complaint received"),
    "REJECTED": gettext_lazy("Rejected by the provider"),
    "DEFERRED": gettext_lazy("Deferred by the receiving server"),
}
_ICONS = {
    "SENT": "tick", "ACCEPTED": "tick", "DELIVERED": "tick", "VALIDATED": "tick",
    "FAILED": "cross", "BOUNCED": "cross", "REJECTED": "cross", "COMPLAINED": "alert",
    "NO_REPLY": "alert", "IN_DOUBT": "alert", "EXPIRED": "clock", "RETRY_SCHEDULED": "again",
    "DEFERRED": "again", "RESEND": "again", "SENT_ATTEMPT": "turn",
}  # fmt: skip


def entries(row: OutboxEmail) -> list[dict[str, Any]]:
    """Return the entries of the history, oldest first."""
    found = EmailEvent.objects.filter(outbox=row).order_by("id")[:LIMIT]
    return [
        {"event": e, "label": _LABELS.get(e.type, e.type), "lines": _lines(e.detail),
         "icon": _ICONS.get(e.type, "dot")}
        for e in found
    ]  # fmt: skip


def _lines(detail: dict[str, Any]) -> list[str]:
    """Return the details of an event, one per line."""
    names = {
        "reason": _("Reason"), "recipient": _("Recipient"), "messageId": _("Message id"),
        "description": _("Description"), "answer": _("Answer"),
    }  # fmt: skip
    lines = []
    if "code" in detail:
        lines.append(_("%(code)s, attempt %(n)s") % {
            "code": detail["code"], "n": detail.get("attempt", "?")
        })  # fmt: skip
    return lines + [f"{names[n]}: {text}" for n, text in detail.items() if n in names and text]


def has_failed(row: OutboxEmail) -> bool:
    """Return whether the email ended without being sent."""
    return row.status in (Status.FAILED, Status.EXPIRED)
