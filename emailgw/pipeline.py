"""The pipeline: RECEIVED, four validations, VALIDATED, SENT_ATTEMPT, and how it ends.

What may happen twice is written by compare-and-set, what must not happen twice goes through the
ledger of effects.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q

import jobs
from emailgw import clients, config, states, validations
from emailgw.clock import Now, now
from emailgw.errors import RETRIED, Down, Invalid, MaybeSent, NotSent, ProviderError
from emailgw.letters import Letter, UnsafeLetter, compose
from emailgw.models import Company, EmailEvent, EmailLog, OutboxEmail, Status
from emailgw.payloads import EmailSendJobData, EmailSendJobResult
from jobs.fields import mask_email, redact_text

EFFECT = "send"
REASON_LIMIT = 300


_LOOKED_AT = (
    *("company_id", "recipient_id", "html_id", "status", "run", "attempts", "provider"),
    *("request_id", "external_id", "tags", "expires_at", "html_digest"),
    *("from_email", "to", "cc", "bcc", "subject", "reply_to", "headers"),
    *("company__is_suspended", "company__from_domains", "company__on_doubt"),
    *("recipient__company_id", "recipient__email", "recipient__deleted_at"),
    *("html__company_id", "html__body", "log__status", "log__provider_message_id"),
)
"""Columns: what is not asked for need not be decrypted either."""


class Failed(jobs.JobsError):
    """The attempt failed, and another may follow. Says a code, and nothing of the mail."""


@dataclass(slots=True)
class Attempt:
    """One run of the job."""

    ctx: jobs.Context
    data: EmailSendJobData
    row: OutboxEmail
    began: float
    message_id: str = ""
    refused: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """From 1: how often it has been tried, which the row knows and the payload does not."""
        return self.ctx.failures + 1


def run(ctx: jobs.Context, data: EmailSendJobData) -> dict[str, Any]:
    """The email is sent, now or earlier; raises what becomes of its job otherwise."""
    began = time.monotonic()
    row = _find(data)
    if row is None:
        raise jobs.Unrecoverable("OUTBOX_NOT_FOUND")
    attempt = Attempt(ctx, data, row, began)
    if (sent := _sent(row)) is not None:
        return _result(attempt, sent.provider_message_id or "", "ALREADY_SENT", _moment(row))
    try:
        letter = _prepare(attempt)
    except Invalid as error:
        _fail(attempt, error.code, error.reason)
        raise jobs.Unrecoverable(error.code) from None
    return _send(attempt, letter)


def _find(data: EmailSendJobData) -> OutboxEmail | None:
    """The email of the job, with all that is looked at before it is sent, and the moment."""
    found = (
        OutboxEmail.objects.filter(pk=data.outboxId, company_id=data.companyId)
        .select_related("company", "recipient", "html", "log")
        .only(*_LOOKED_AT)
        .annotate(moment=Now())
    )
    return next(iter(found), None)


def _moment(row: OutboxEmail) -> datetime:
    """When the row was read, by the database's clock."""
    found: datetime = row.moment  # type: ignore[attr-defined]
    return found


def _sent(row: OutboxEmail) -> EmailLog | None:
    log: EmailLog | None = getattr(row, "log", None)
    return log if log is not None and log.status == Status.SENT else None


def _prepare(attempt: Attempt) -> Letter:
    """The email is SENT_ATTEMPT, and its letter is what was validated."""
    _refuse_late(attempt.row)
    body = validations.validate(attempt.data, attempt.row)
    _take(attempt)
    try:
        return compose(attempt.data, attempt.row, body)
    except UnsafeLetter as error:
        raise Invalid("INVALID_EMAIL", str(error)) from None


def _take(attempt: Attempt) -> None:
    """The email is this attempt's; an older one that thaws now hands nothing over any more."""
    row, run, number = attempt.row, attempt.ctx.attempt, attempt.number
    is_ours = Q(run__lte=run)
    # One that was under way stays so until it is known what became of it.
    if row.status == Status.SENT_ATTEMPT:
        rows = OutboxEmail.objects.filter(is_ours, pk=row.pk)
        if not rows.update(run=run, attempts=number):
            raise Failed("a later attempt has the email")
        return
    try:
        states.outbox.walk(
            row, states.STARTED, given=is_ours, by="worker", run=run, attempts=number
        )
    except jobs.StaleState:
        raise Failed("another attempt has the email") from None


def _begin(attempt: Attempt) -> None:
    """It is on record, before the first byte, that the content may be gone; raises NotSent."""
    run = attempt.ctx.attempt
    rows = OutboxEmail.objects.filter(pk=attempt.data.outboxId, run=run)
    if not rows.update(handed_over=run):
        raise NotSent("UNKNOWN_ERROR", "a later attempt has the email")


def _refuse_late(row: OutboxEmail) -> None:
    if row.status not in (Status.SENT_ATTEMPT, Status.SENT) and _moment(row) >= row.expires_at:
        raise Invalid("EXPIRED", "its time is over")


def _send(attempt: Attempt, letter: Letter) -> dict[str, Any]:
    provider = attempt.row.provider
    rerun = attempt.row.company.on_doubt == Company.OnDoubt.RESEND

    def call() -> dict[str, str]:
        delivery = breaker(provider).call(
            clients.deliver,
            provider,
            letter,
            begin=lambda: _begin(attempt),
            is_last=attempt.ctx.is_last_attempt,
        )
        attempt.message_id = delivery.message_id
        attempt.refused = tuple(delivery.refused)
        return {"id": delivery.message_id.encode().hex()}

    try:
        outcome = attempt.ctx.effect(
            EFFECT,
            call,
            probe=lambda intent: find_out(letter.outbox_id, intent),
            request={"provider": provider},
            definite=(NotSent,),
            on_doubt="rerun" if rerun else "park",
        )
    except jobs.CircuitOpen:
        _put_off(attempt, "SES_CIRCUIT_OPEN", "the provider is out of order")
        raise
    except jobs.InDoubt:
        _mark_doubt(attempt)
        raise
    except NotSent as error:
        raise _after(attempt, error) from None
    except MaybeSent as error:
        # The next attempt asks the probe: nothing is sent before that.
        if attempt.ctx.is_last_attempt:
            _mark_doubt(attempt)
        raise Failed(error.code) from None
    return _finish(attempt, attempt.message_id or _message_id(outcome, letter))


def breaker(provider: str) -> Any:
    """The circuit breaker of a provider."""
    settings = config.settings()
    return jobs.breaker(
        f"email:{provider}",
        threshold=settings.BREAKER_THRESHOLD,
        open_for=settings.BREAKER_OPEN_FOR,
        counts=(Down, MaybeSent),
    )


def find_out(outbox_id: UUID, intent: jobs.Intent) -> Any:
    """What became of a letter whose attempt has not told: our record, else the provider's events.

    An attempt that never began to hand over the content cannot begin any more: see ``_take``.
    """
    if not OutboxEmail.objects.filter(pk=outbox_id, handed_over__gte=intent.attempt).exists():
        return jobs.NotHappened()
    found = (
        EmailEvent.objects.filter(outbox_id=outbox_id, provider_event_id__isnull=False)
        .order_by("id")
        .values_list("detail", flat=True)
        .first()
    )
    if found is None:
        return jobs.Unknown("the provider has told nothing of it")
    return jobs.Happened({"id": str(found.get("messageId", "")).encode().hex()})


def _message_id(outcome: Any, letter: Letter) -> str:
    """The provider's id as an earlier attempt or an event knew it."""
    try:
        return bytes.fromhex(outcome["id"]).decode() or letter.message_id
    except (KeyError, TypeError, ValueError):  # somebody decided without an id
        return letter.message_id


def _finish(attempt: Attempt, message_id: str) -> dict[str, Any]:
    """The email is SENT, and its log says so, in one transaction; unless somebody has noted it."""
    data, row = attempt.data, attempt.row
    reason = ""
    if attempt.refused:
        shown = ", ".join(mask_email(address) for address in attempt.refused)
        reason = f"not taken for {shown}"
    with transaction.atomic():
        moment = now()
        with suppress(jobs.StaleState):
            states.outbox.move(
                row, Status.SENT, expect=states.UNTOLD, by="worker", processed_at=moment,
                in_doubt=False, error_code="", error_reason=reason,
            )  # fmt: skip
            _write_log(attempt, row, Status.SENT, moment, message_id=message_id)
    attempt.ctx.log.info("email %s sent to %s", data.outboxId, mask_email(data.to))
    return _result(attempt, message_id, "SENT", moment)


def _after(attempt: Attempt, error: ProviderError) -> BaseException:
    """What follows when the provider has surely not taken the letter."""
    if error.category == "QUOTA_ERROR":
        _put_off(attempt, error.code, error.reason)
        return jobs.RateLimited(config.QUOTA_DELAY, scope="key")
    if error.category not in RETRIED:
        _fail(attempt, error.code, error.reason)
        return jobs.Unrecoverable(error.code)
    if attempt.ctx.is_last_attempt:
        _fail(attempt, error.code, error.reason)
    else:
        _put_off(attempt, error.code, error.reason)
    return Failed(error.code)


def _put_off(attempt: Attempt, code: str, reason: str) -> None:
    states.outbox.move(
        attempt.row, Status.RETRY_SCHEDULED, expect=Status.SENT_ATTEMPT, by="worker",
        error_code=code, error_reason=shown(reason), attempts=attempt.number,
    )  # fmt: skip


def _fail(attempt: Attempt, code: str, reason: str) -> None:
    """The email is FAILED, or EXPIRED, if it is there at all and not at its end."""
    to = Status.EXPIRED if code == "EXPIRED" else Status.FAILED
    moment = now()
    with transaction.atomic():
        row = (
            OutboxEmail.objects.select_for_update(no_key=True)
            .filter(pk=attempt.data.outboxId, company_id=attempt.data.companyId)
            .first()
        )
        if row is None or row.status not in states.OPEN:
            return
        _write_log(attempt, row, to, moment, code=code)
        states.outbox.move(
            row, to, by="worker", error_code=code, error_reason=shown(reason),
            attempts=attempt.number, processed_at=moment,
        )  # fmt: skip


def _mark_doubt(attempt: Attempt) -> None:
    OutboxEmail.objects.filter(pk=attempt.data.outboxId).update(
        in_doubt=True, error_code="IN_DOUBT", error_reason="it may or may not have been sent"
    )


def _write_log(
    attempt: Attempt, row: OutboxEmail, status: str, moment: datetime, *, message_id: str = "",
    code: str = "",
) -> None:  # fmt: skip
    is_sent = status == Status.SENT
    told: dict[str, Any] = {
        "company_id": row.company_id,
        "status": status,
        "provider": row.provider,
        "provider_message_id": message_id or None,
        "attempts": attempt.number,
        "duration_ms": _elapsed(attempt),
        "error_code": code,
        "sent_at": moment if is_sent else None,
        "failed_at": None if is_sent else moment,
    }
    EmailLog.objects.bulk_create(
        [EmailLog(outbox_id=row.pk, **told)],
        update_conflicts=True,
        unique_fields=["outbox"],
        update_fields=[name.removesuffix("_id") if name == "company_id" else name for name in told],
    )


def shown(reason: str) -> str:
    """Somebody else's words, with everything in them masked that looks personal."""
    return redact_text(reason)[:REASON_LIMIT]


def _elapsed(attempt: Attempt) -> int:
    return int((time.monotonic() - attempt.began) * 1000)


def _result(attempt: Attempt, message_id: str, status: Any, moment: datetime) -> dict[str, Any]:
    return EmailSendJobResult(
        sesMessageId=message_id, status=status, processedAt=moment,
        durationMs=_elapsed(attempt), attempt=min(attempt.number, 5),
    ).model_dump(mode="json")  # fmt: skip
