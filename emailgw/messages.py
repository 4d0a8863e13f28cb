"""Messages for providers, composed from validated jobs and checked again before they are sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from uuid import UUID

from django.core.mail import EmailMultiAlternatives

from emailgw import addresses
from emailgw.html import as_text, page
from emailgw.models import OutboxEmail
from emailgw.payloads import EmailSendJobData

_OURS = {
    "from", "to", "cc", "bcc", "subject", "date", "message-id", "reply-to", "mime-version",
    "content-type", "content-transfer-encoding",
}  # fmt: skip


class UnsafeEmail(Exception):
    """The message differs from what was validated. It is not sent."""


@dataclass(frozen=True, slots=True)
class OutgoingEmail:
    """A message for a provider, and the exact addresses to send it to."""

    outbox_id: UUID
    message: EmailMultiAlternatives = field(repr=False)
    envelope: tuple[str, ...] = field(repr=False)
    """The first address is the recipient: if it is refused, nothing is sent."""

    @property
    def message_id(self) -> str:
        return str(self.message.extra_headers["Message-ID"])


def message_id(row: OutboxEmail) -> str:
    """Return the email's Message-ID, which is the same for every attempt."""
    return f"<{row.pk}@{addresses.domain_of(row.from_email)}>"


def compose(data: EmailSendJobData, row: OutboxEmail, html: str) -> OutgoingEmail:
    """Compose the message of a validated job; raise UnsafeEmail."""
    message = EmailMultiAlternatives(
        subject=data.subject,
        body=as_text(html),
        from_email=row.from_email,
        to=[data.to],
        cc=[a for a in data.envelope[1:] if a in (data.cc or ())],
        bcc=[a for a in data.envelope[1:] if a not in (data.cc or ())],
        reply_to=[data.replyTo] if data.replyTo else None,
        headers={**(data.headers or {}), "Message-ID": message_id(row)},
    )
    message.attach_alternative(page(html), "text/html")
    # Provider APIs send these back with each event.
    message.metadata = {"outbox_id": str(data.outboxId)}  # type: ignore[attr-defined]
    message.tags = list(data.tags or ())  # type: ignore[attr-defined]
    email = OutgoingEmail(data.outboxId, message, tuple(data.envelope))
    _check_fields(email)
    return email


def checked(email: OutgoingEmail) -> Message[Any, Any]:
    """Return the MIME message; raise UnsafeEmail if its recipients or headers were changed."""
    _check_fields(email)
    made: Message[Any, Any] = email.message.message()
    names = [name.lower() for name, _ in made.items()]
    foreign = [n for n in names if n not in _OURS and not n.startswith(("x-custom-", "x-priority"))]
    if foreign or len(names) != len(set(names)) or "bcc" in names:
        raise UnsafeEmail("it has unexpected headers")
    return made


def _check_fields(email: OutgoingEmail) -> None:
    for address in (email.message.from_email, *email.message.reply_to, *email.envelope):
        if addresses.address_problem(address):
            raise UnsafeEmail("an address is not valid")
    if email.message.recipients() != list(email.envelope):
        raise UnsafeEmail("its recipients are not those that were validated")
    for name, value in email.message.extra_headers.items():
        if name != "Message-ID" and addresses.header_problem(name, value):
            raise UnsafeEmail("a header is not allowed")
    if addresses.line_problem(str(email.message.subject)):
        raise UnsafeEmail("the subject has more than one line")
