"""Accepting an email: its rows and its job are written in one transaction."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from pydantic import ValidationError

import jobs
from emailgw import addresses, config, html
from emailgw.clock import now
from emailgw.documents import document_hash
from emailgw.errors import Refused
from emailgw.models import Company, EmailBatch, IdempotencyKey, OutboxEmail
from emailgw.payloads import (
    EmailSendJobData,
    EmailSendJobOptions,
    engine_priority,
    validate_email_job_data,
)
from emailgw.permissions import name_of
from emailgw.requests import EmailRequest, parse
from emailgw.services.insert import insert, new_html
from emailgw.services.lookup import Lookup, look_up
from emailgw.services.recipients import update_or_build
from jobs.fields import blind_index

if TYPE_CHECKING:
    from jobs.acts import By

KEY = r"[A-Za-z0-9_-]{1,128}"
"""The form of an idempotency key."""
KEY_LIFETIME = timedelta(hours=24)
MAX_TRIES = 4


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted email; ``repeated`` if the same key was used before."""

    outbox_id: uuid.UUID
    request_id: str
    received_at: datetime
    external_id: str | None = None
    recipient_external_id: str | None = None
    repeated: bool = False

    @property
    def job_id(self) -> uuid.UUID:
        """Return the id of the job, which is the id of the email."""
        return self.outbox_id


def accept(
    company: Company,
    request: Mapping[str, Any] | EmailRequest,
    *,
    by: By,
    idempotency_key: str = "",
    request_id: str = "",
    batch: EmailBatch | None = None,
    **options: Any,
) -> Accepted:
    """Store an email and enqueue its job, in one transaction; raise Refused.

    ``options`` are ``priority``, ``delay`` and ``ttl`` of the contract. The same key with the same
    request returns the first email; with a different request it is a conflict.
    """
    with transaction.atomic():
        return accept_within(
            company, request, by=by, idempotency_key=idempotency_key, request_id=request_id,
            batch=batch, **options,
        )  # fmt: skip


def accept_within(
    company: Company,
    request: Mapping[str, Any] | EmailRequest,
    *,
    by: By,
    idempotency_key: str = "",
    request_id: str = "",
    batch: EmailBatch | None = None,
    **options: Any,
) -> Accepted:
    """Accept an email in the caller's transaction, which must be rolled back if this raises."""
    asked = parse(request)
    source = name_of(by)
    if request_id and (len(request_id) > 128 or addresses.line_problem(request_id)):
        raise Refused("BAD_REQUEST", "must have at most 128 characters in one line", "requestId")
    key = idempotency_key or (asked.externalId or "")
    if idempotency_key and not re.fullmatch(KEY, idempotency_key):
        raise Refused("BAD_REQUEST", "must be 1 to 128 letters, digits, _ or -", "Idempotency-Key")
    outbox_id = uuid.uuid4()
    job_options = _options(outbox_id, options)
    request_hash = _fingerprint(asked, options, company) if key else ""
    digest = html.digest(asked.html, company.pk)
    for _ in range(MAX_TRIES):
        known = look_up(company, asked, digest, key)
        if known.key_is_used:
            named = "Idempotency-Key" if idempotency_key else "externalId"
            if earlier := _earlier(company, key, request_hash, named):
                return earlier
        _check_allowed(known, asked)
        row = _row(known, asked, outbox_id, job_options, request_id, digest, batch)
        if _insert(row, known, asked, key, request_hash, source):
            _enqueue(row, asked, job_options)
            return Accepted(
                row.id, row.request_id, row.enqueued_at, asked.externalId,
                asked.recipient.externalId,
            )  # fmt: skip
    raise Refused("CONFLICT", "the same email is being submitted concurrently; retry")


def _options(outbox_id: uuid.UUID, given: dict[str, Any]) -> EmailSendJobOptions:
    try:
        made = EmailSendJobOptions(jobId=outbox_id, **given)
    except (ValidationError, TypeError) as error:
        field, message = "options", "must be options of the contract"
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            field, message = ".".join(map(str, first["loc"])), first["msg"]
        raise Refused("VALIDATION_ERROR", message, field) from None
    settings = config.settings()
    for name, value in (
        ("removeOnComplete", settings.REMOVE_ON_COMPLETE),
        ("removeOnFail", settings.REMOVE_ON_FAIL),
    ):
        if getattr(made, name) not in (None, value):
            raise Refused("VALIDATION_ERROR", f"must be {value}, as set for every email", name)
    return made


def _fingerprint(asked: EmailRequest, options: dict[str, Any], company: Company) -> str:
    text = json.dumps([asked.model_dump(mode="json"), options], sort_keys=True, default=str)
    return blind_index(text, "emailgw.request", str(company.pk))


def _earlier(company: Company, key: str, request_hash: str, named: str) -> Accepted | None:
    """Return the email that was accepted with this key; raise Refused if it was another one."""
    known = IdempotencyKey.objects.select_related("outbox__recipient").filter(
        company=company, key=key
    ).first()  # fmt: skip
    if known is None:
        return None
    if known.expires_at <= now():
        known.delete()
        return None
    if known.request_hash != request_hash:
        raise Refused("CONFLICT", "was used with a different request", named)
    row, recipient = known.outbox, known.outbox.recipient
    return Accepted(
        row.id, row.request_id, row.enqueued_at, row.external_id or None,
        recipient.external_id or recipient.former_external_id, repeated=True,
    )  # fmt: skip


def _check_allowed(known: Lookup, asked: EmailRequest) -> None:
    """Check that the company may send this email; raise Refused."""
    company, settings = known.company, config.settings()
    if settings.provider_name(company.provider) not in settings.PROVIDERS:
        raise Refused("SERVICE_UNAVAILABLE", "no provider is configured for the company")
    if company.is_suspended:
        raise Refused("FORBIDDEN", "the company is suspended")
    if addresses.domain_of(company.default_from) not in company.from_domains:
        raise Refused("FORBIDDEN", "the sender's domain is not verified")
    if asked.replyTo and not _may_reply_to(company, asked.replyTo):
        raise Refused("VALIDATION_ERROR", "must be in one of the company's domains", "replyTo")
    for field, many in (("to", [asked.to]), ("cc", asked.cc), ("bcc", asked.bcc)):
        if known.suppressed.intersection(many):
            raise Refused("VALIDATION_ERROR", "is on the suppression list", field)


def _may_reply_to(company: Company, address: str) -> bool:
    return "*" in company.reply_domains or addresses.domain_of(address) in {
        *company.from_domains,
        *company.reply_domains,
    }


def _row(
    known: Lookup, asked: EmailRequest, outbox_id: uuid.UUID, job_options: EmailSendJobOptions,
    request_id: str, digest: str, batch: EmailBatch | None,
) -> OutboxEmail:  # fmt: skip
    """Build the email's row, without its content and its recipient."""
    return OutboxEmail(
        id=outbox_id, company=known.company, batch=batch,
        request_id=request_id or f"req-{outbox_id}", external_id=asked.externalId or "",
        from_email=known.company.default_from, to=asked.to, cc=asked.cc, bcc=asked.bcc,
        subject=asked.subject, reply_to=asked.replyTo or "", headers=asked.headers,
        tags=asked.tags, html_digest=digest, priority=job_options.priority,
        provider=config.settings().provider_name(known.company.provider),
        enqueued_at=known.moment, expires_at=known.moment + timedelta(milliseconds=job_options.ttl),
    )  # fmt: skip


def _insert(
    row: OutboxEmail, known: Lookup, asked: EmailRequest, key: str, request_hash: str, source: str
) -> bool:
    """Insert the email with everything it needs; return False if a concurrent one was faster."""
    html_id, content = known.html_id, None
    if html_id is None:
        content = new_html(row, asked.html)
        html_id = content.id
    row.html_id = html_id
    row.recipient_id, recipient = update_or_build(row.company_id, asked, known.recipient)
    kept = IdempotencyKey(
        company_id=row.company_id, key=key, request_hash=request_hash, outbox_id=row.id,
        expires_at=row.enqueued_at + KEY_LIFETIME,
    ) if key else None  # fmt: skip
    return insert(row, source, content, recipient, kept)


def _enqueue(row: OutboxEmail, asked: EmailRequest, job_options: EmailSendJobOptions) -> None:
    jobs.enqueue(
        job_data(row, asked),
        job_id=row.id,
        tenant=str(row.company_id),
        priority=engine_priority(job_options.priority),
        delay=job_options.delay / 1000 or None,
        expires=row.expires_at,
        limit_key=row.provider,
        correlation_id=row.request_id[:120],
    )


def job_data(row: OutboxEmail, asked: EmailRequest) -> EmailSendJobData:
    """Return the payload of the email's job."""
    given = asked.recipient
    recipient = {
        "recipientId": row.recipient_id, "externalId": given.externalId,
        "cpfCnpjHash": document_hash(given.cpfCnpj, row.company_id) if given.cpfCnpj else None,
        "razaoSocial": given.razaoSocial, "nome": given.nome, "email": asked.to,
    }  # fmt: skip
    fields = {
        "outboxId": row.id, "companyId": row.company_id, "requestId": row.request_id,
        "to": asked.to, "cc": asked.cc or None, "bcc": asked.bcc or None,
        "subject": asked.subject, "htmlRef": row.html_id, "replyTo": asked.replyTo,
        "headers": asked.headers or None, "tags": asked.tags or None,
        "recipient": {k: v for k, v in recipient.items() if v is not None},
        "attempt": 1, "enqueuedAt": row.enqueued_at,
    }  # fmt: skip
    return validate_email_job_data({k: v for k, v in fields.items() if v is not None})
