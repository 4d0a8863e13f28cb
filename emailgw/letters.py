"""Letters: an email as it goes to a provider, checked once more against what was validated."""

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


class UnsafeLetter(Exception):
    """The letter says something else than what was validated. It is not sent."""


@dataclass(frozen=True, slots=True)
class Letter:
    """What is handed to a provider: the message, and exactly who is to get it."""

    outbox_id: UUID
    message: EmailMultiAlternatives = field(repr=False)
    envelope: tuple[str, ...] = field(repr=False)
    """The first is the one that matters: without it nothing is sent."""

    @property
    def message_id(self) -> str:
        return str(self.message.extra_headers["Message-ID"])


def compose(data: EmailSendJobData, row: OutboxEmail, html: str) -> Letter:
    """The letter of a validated job; raises UnsafeLetter."""
    sender = addresses.domain_of(row.from_email)
    message = EmailMultiAlternatives(
        subject=data.subject,
        body=as_text(html),
        from_email=row.from_email,
        to=[data.to],
        cc=[a for a in data.envelope[1:] if a in (data.cc or ())],
        bcc=[a for a in data.envelope[1:] if a not in (data.cc or ())],
        reply_to=[data.replyTo] if data.replyTo else None,
        headers={**(data.headers or {}), "Message-ID": f"<{data.outboxId}@{sender}>"},
    )
    message.attach_alternative(page(html), "text/html")
    # Providers with an interface of their own take these along, and tell them with each event.
    message.metadata = {"outbox_id": str(data.outboxId)}  # type: ignore[attr-defined]
    message.tags = list(data.tags or ())  # type: ignore[attr-defined]
    letter = Letter(data.outboxId, message, tuple(data.envelope))
    _check_fields(letter)
    return letter


def checked(letter: Letter) -> Message[Any, Any]:
    """What is sent; raises UnsafeLetter unless it goes to whom it says, with headers of ours."""
    _check_fields(letter)
    made: Message[Any, Any] = letter.message.message()
    names = [name.lower() for name, _ in made.items()]
    foreign = [n for n in names if n not in _OURS and not n.startswith(("x-custom-", "x-priority"))]
    if foreign or len(names) != len(set(names)) or "bcc" in names:
        raise UnsafeLetter("it has headers that nobody asked for")
    return made


def _check_fields(letter: Letter) -> None:
    for address in (letter.message.from_email, *letter.message.reply_to, *letter.envelope):
        if addresses.address_problem(address):
            raise UnsafeLetter("an address is not one address")
    if letter.message.recipients() != list(letter.envelope):
        raise UnsafeLetter("it would go to others than those that were validated")
    for name, value in letter.message.extra_headers.items():
        if name != "Message-ID" and addresses.header_problem(name, value):
            raise UnsafeLetter("a header is not allowed")
    if addresses.line_problem(str(letter.message.subject)):
        raise UnsafeLetter("the subject has more than one line")
