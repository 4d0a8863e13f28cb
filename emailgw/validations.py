"""The four validations before an email is sent; a failure is final."""

from __future__ import annotations

from emailgw import html, suppressions
from emailgw.errors import Invalid
from emailgw.models import OutboxEmail
from emailgw.payloads import EmailSendJobData, InvalidEmailJob, validate_email_job_data


def validate(data: EmailSendJobData, row: OutboxEmail) -> str:
    """Validate INTEGRITY, OUTBOX, RECIPIENT and TEMPLATE; return the HTML, or raise Invalid."""
    _check_integrity(data)
    _check_outbox(data, row)
    _check_recipient(data, row)
    return _checked_template(data, row)


def _check_integrity(data: EmailSendJobData) -> None:
    # Validate again: the job may be older than the rules of this process.
    fields = {name: getattr(data, name) for name in type(data).model_fields}
    fields["recipient"] = data.recipient.model_dump()
    try:
        validate_email_job_data({k: v for k, v in fields.items() if v is not None})
    except InvalidEmailJob as error:
        raise Invalid("INVALID_PAYLOAD", str(error)) from None


def _check_outbox(data: EmailSendJobData, row: OutboxEmail) -> None:
    same = (
        (row.to, row.cc, row.bcc) == (data.to, data.cc or [], data.bcc or [])
        and (row.subject, row.reply_to) == (data.subject, data.replyTo or "")
        and row.headers == (data.headers or {})
    )
    if not same:
        raise Invalid("INVALID_PAYLOAD", "the job does not match its email")
    if row.company.is_suspended:
        raise Invalid("COMPANY_SUSPENDED", "the company is suspended")
    if row.from_email.rpartition("@")[2] not in row.company.from_domains:
        raise Invalid("SES_MAIL_FROM_DOMAIN_NOT_VERIFIED", "the sender's domain is not verified")


def _check_recipient(data: EmailSendJobData, row: OutboxEmail) -> None:
    known, given = row.recipient, data.recipient
    if (
        known.deleted_at is not None
        or known.company_id != data.companyId
        or (given.recipientId is not None and given.recipientId != known.id)
        or known.email != data.to
    ):
        raise Invalid("RECIPIENT_NOT_FOUND", "the company has no such recipient")
    if suppressions.suppressed(row.company_id, data.envelope):
        raise Invalid("RECIPIENT_SUPPRESSED", "a recipient is on the suppression list")


def _checked_template(data: EmailSendJobData, row: OutboxEmail) -> str:
    content = row.html
    if content.id != data.htmlRef or content.company_id != data.companyId:
        raise Invalid("INVALID_TEMPLATE", "the company has no such content")
    body: str = content.body
    if html.digest(body, row.company_id) != row.html_digest:
        raise Invalid("INVALID_TEMPLATE", "the content has changed since the email was accepted")
    if problem := html.html_problem(body):
        raise Invalid("INVALID_TEMPLATE", problem)
    return body
