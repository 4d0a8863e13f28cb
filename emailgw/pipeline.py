"""The pipeline: RECEIVED, four validations, VALIDATED, SENT_ATTEMPT, and the outcome.

Steps that may run twice are compare-and-set updates; the send itself must not run twice and is an
effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

import jobs
from emailgw import clients, config, feedback, states, validations
from emailgw.breakers import breakers_of, held, wait_for_breakers
from emailgw.clock import Now, now
from emailgw.errors import (
    RETRIED,
    Invalid,
    MaybeSent,
    NotSent,
    ProviderError,
)
from emailgw.messages import OutgoingEmail, UnsafeEmail, compose, message_id
from emailgw.models import Company, EmailEvent, EmailLog, OutboxEmail, Status
from emailgw.outcomes import fail, mark_doubt, note_no_reply, put_off, write_log
from emailgw.payloads import EmailSendJobData, EmailSendJobResult
from jobs import flow
from jobs.fields import mask_email

EFFECT = "send"


_COLUMNS = (
    *("company_id", "recipient_id", "html_id", "status", "run", "attempts", "provider"),
    *("request_id", "external_id", "tags", "expires_at", "html_digest"),
    *("from_email", "to", "cc", "bcc", "subject", "reply_to", "headers"),
    *("company__is_suspended", "company__from_domains", "company__on_doubt"),
    *("recipient__company_id", "recipient__email", "recipient__deleted_at"),
    *("html__company_id", "html__body", "log__status", "log__provider_message_id"),
)
"""Columns to load: columns that are not loaded are not decrypted either."""


class Failed(jobs.JobsError):
    """The attempt failed and may be retried. Contains a code, and nothing of the email."""


@dataclass(slots=True)
class Attempt:
    """One run of the job."""

    ctx: jobs.Context
    data: EmailSendJobData
    row: OutboxEmail
    began: float
    handed_over: bool = False
    """Whether this attempt sent the email, rather than learned that it was sent."""
    refused: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """Return the number of the attempt, from 1; attempts that cost nothing are not counted."""
        return self.ctx.failures + 1

    @property
    def elapsed_ms(self) -> int:
        """Return the milliseconds since the attempt began."""
        return int((time.monotonic() - self.began) * 1000)


def run(ctx: jobs.Context, data: EmailSendJobData) -> EmailSendJobResult:
    """Send the email unless it was sent before; raise the outcome of the job otherwise."""
    began = time.monotonic()
    # A job that names another email or company must not read or change it.
    if ctx.job_id != data.outboxId or ctx.tenant != str(data.companyId):
        raise jobs.Unrecoverable("INVALID_PAYLOAD")
    row = _find(data)
    if row is None:
        raise jobs.Unrecoverable("OUTBOX_NOT_FOUND")
    attempt = Attempt(ctx, data, row, began)
    if row.status == Status.RETRY_SCHEDULED:
        wait_for_breakers(row)
    if (sent := _sent(row)) is not None:
        return _result(attempt, sent.provider_message_id or "", "ALREADY_SENT", _moment(row))
    try:
        return _send(attempt, _prepare(attempt))
    except Invalid as error:
        fail(attempt, error.code, error.reason)
        raise jobs.Unrecoverable(error.code) from None


def _find(data: EmailSendJobData) -> OutboxEmail | None:
    """Load the email with everything that is checked before it is sent, and the current time."""
    found = (
        OutboxEmail.objects.filter(pk=data.outboxId, company_id=data.companyId)
        .select_related("company", "recipient", "html", "log")
        .only(*_COLUMNS)
        .annotate(moment=Now())
    )
    return next(iter(found), None)


def _moment(row: OutboxEmail) -> datetime:
    """Return when the row was read, by the database's clock."""
    found: datetime = row.moment  # type: ignore[attr-defined]
    return found


def _sent(row: OutboxEmail) -> EmailLog | None:
    log: EmailLog | None = getattr(row, "log", None)
    return log if log is not None and log.status == Status.SENT else None


def _prepare(attempt: Attempt) -> Callable[[], OutgoingEmail]:
    """Move the email to SENT_ATTEMPT; return a function that composes its message.

    An email that may have been sent is validated only once it is known that it was not: a
    validation that fails now does not undo a send.
    """
    row = attempt.row
    if row.status == Status.SENT_ATTEMPT:
        _take(attempt)
        return lambda: _compose(attempt, _validated(attempt))
    body = _validated(attempt)
    _take(attempt)
    email = _compose(attempt, body)
    return lambda: email


def _validated(attempt: Attempt) -> str:
    """Return the validated HTML; raise Invalid."""
    if _moment(attempt.row) >= attempt.row.expires_at:
        raise Invalid("EXPIRED", "its ttl has passed")
    return validations.validate(attempt.data, attempt.row)


def _compose(attempt: Attempt, body: str) -> OutgoingEmail:
    try:
        return compose(attempt.data, attempt.row, body)
    except UnsafeEmail as error:
        raise Invalid("INVALID_EMAIL", str(error)) from None


def _take(attempt: Attempt) -> None:
    """Claim the email for this attempt; an older attempt that resumes now cannot send it."""
    row, run, number = attempt.row, attempt.ctx.attempt, attempt.number
    is_ours = Q(run__lte=run)
    # Keep the state of an email whose send may have begun until its outcome is known.
    if row.status == Status.SENT_ATTEMPT:
        rows = OutboxEmail.objects.filter(is_ours, pk=row.pk)
        if not rows.update(run=run, attempts=number):
            raise Failed("a later attempt has the email")
        return
    try:
        states.outbox.walk(
            row, states.STARTED, given=is_ours, by="worker", run=run, attempts=number
        )
    except jobs.errors.StaleState:
        raise Failed("another attempt has the email") from None


def _begin(attempt: Attempt) -> None:
    """Record, before the first byte, that the content may be sent; raise NotSent."""
    run = attempt.ctx.attempt
    rows = OutboxEmail.objects.filter(pk=attempt.data.outboxId, run=run)
    if not rows.update(handed_over=run):
        raise NotSent("UNKNOWN_ERROR", "a later attempt has the email")


def _send(attempt: Attempt, email: Callable[[], OutgoingEmail]) -> EmailSendJobResult:
    provider = attempt.row.provider
    provider_breaker, sender_breaker = breakers_of(attempt.row, is_first=attempt.number == 1)
    rerun = attempt.row.company.on_doubt == Company.OnDoubt.RESEND

    def call() -> jobs.types.Vouched:
        composed = email()
        with flow.together(provider_breaker, sender_breaker):
            delivery = clients.deliver(
                provider,
                composed,
                begin=lambda: _begin(attempt),
                is_last=attempt.ctx.is_last_attempt,
            )
        attempt.handed_over, attempt.refused = True, tuple(delivery.refused)
        return jobs.types.Vouched({"messageId": delivery.message_id})

    try:
        outcome = attempt.ctx.effect(
            EFFECT,
            call,
            probe=lambda intent: find_out(attempt.row.pk, intent),
            request=jobs.types.Vouched({"provider": provider}),
            definite=(NotSent, Invalid),
            on_doubt="rerun" if rerun else "park",
        )
    except jobs.effects.CircuitOpen:
        put_off(attempt, "SES_CIRCUIT_OPEN", "the provider is not called while its circuit is open")
        raise
    except jobs.effects.InDoubt:
        mark_doubt(attempt)
        raise
    except NotSent as error:
        raise _error_for(attempt, error) from None
    except MaybeSent as error:
        # The next attempt asks the probe: nothing is sent before that.
        note_no_reply(attempt, error.code, error.reason)
        if attempt.ctx.is_last_attempt:
            mark_doubt(attempt)
        raise Failed(error.code) from None
    return _finish(attempt, outcome)


def find_out(outbox_id: UUID, intent: jobs.effects.Intent) -> Any:
    """Probe: find out whether an unfinished attempt sent the email.

    Checks the row first, then the provider's events. An attempt that had not begun to send cannot
    begin any more: see ``_take``.
    """
    if not OutboxEmail.objects.filter(pk=outbox_id, handed_over__gte=intent.attempt).exists():
        return jobs.effects.NotHappened()
    found = (
        EmailEvent.objects.filter(outbox_id=outbox_id, provider_event_id__isnull=False)
        .order_by("id")
        .values_list("detail", flat=True)
        .first()
    )
    if found is None:
        return jobs.effects.Unknown("the provider reported no event")
    return jobs.effects.Happened(jobs.types.Vouched({"messageId": str(found.get("messageId", ""))}))


def _message_id(outcome: Any, row: OutboxEmail) -> str:
    """Return the provider's message id from this attempt, an earlier one or an event."""
    known = outcome.get("messageId") if isinstance(outcome, dict) else None
    return str(known or message_id(row))  # a decision by a person has no id


def _finish(attempt: Attempt, outcome: Any) -> EmailSendJobResult:
    """Move the email to SENT and write its log, in one transaction, unless that was done."""
    data, row = attempt.data, attempt.row
    known = _message_id(outcome, row)
    reason = ""
    if attempt.refused:
        shown = ", ".join(mask_email(address) for address in attempt.refused)
        reason = f"the provider refused {shown}"
    with transaction.atomic():
        moment = now()
        with suppress(jobs.errors.StaleState):
            states.outbox.move(
                row, Status.SENT, expect=states.CONFIRMABLE, by="worker", processed_at=moment,
                in_doubt=False, error_code="", error_reason=reason,
            )  # fmt: skip
            write_log(attempt, row, Status.SENT, moment, message_id=known)
            if not attempt.handed_over:
                feedback.catch_up(row)
    attempt.ctx.log.info("email %s sent to %s", data.outboxId, mask_email(data.to))
    return _result(attempt, known, "SENT", moment)


def _error_for(attempt: Attempt, error: ProviderError) -> BaseException:
    """Return the error to raise when the provider has certainly not accepted the email."""
    if (waiting := held(attempt.row, error)) is not None:
        put_off(attempt, error.code, error.reason)
        return waiting
    if error.category == "QUOTA_ERROR":
        put_off(attempt, error.code, error.reason)
        is_rate = error.code == "SES_MAX_SEND_RATE_EXCEEDED"
        return jobs.RateLimited(config.RATE_DELAY if is_rate else config.QUOTA_DELAY, scope="key")
    if error.category not in RETRIED:
        fail(attempt, error.code, error.reason)
        return jobs.Unrecoverable(error.code)
    if attempt.ctx.is_last_attempt:
        fail(attempt, error.code, error.reason)
    else:
        put_off(attempt, error.code, error.reason)
    return Failed(error.code)


def _result(attempt: Attempt, message_id: str, status: Any, moment: datetime) -> EmailSendJobResult:
    return EmailSendJobResult(
        sesMessageId=message_id, status=status, processedAt=moment,
        durationMs=attempt.elapsed_ms, attempt=min(attempt.number, 5),
    )  # fmt: skip
