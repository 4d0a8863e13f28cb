"""The pipeline: RECEIVED, four validations, VALIDATED, SENT_ATTEMPT, and how it ends.

What may happen twice is written by compare-and-set, what must not happen twice goes through the
ledger of effects.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

import jobs
from emailgw import clients, config, states, validations
from emailgw.clock import now
from emailgw.errors import RETRIED, Down, Invalid, MaybeSent, NotSent, ProviderError
from emailgw.letters import Letter, UnsafeLetter, compose
from emailgw.models import Company, EmailEvent, EmailLog, OutboxEmail, Status
from emailgw.payloads import EmailSendJobData, EmailSendJobResult
from jobs.fields import mask_email, redact_text

EFFECT = "send"
REASON_LIMIT = 300


class Failed(jobs.JobsError):
    """The attempt failed, and another may follow. Says a code, and nothing of the mail."""


@dataclass(slots=True)
class Attempt:
    """One run of the job."""

    ctx: jobs.Context
    data: EmailSendJobData
    began: float
    message_id: str = ""
    refused: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """From 1: how often it has been tried, which the row knows and the payload does not."""
        return self.ctx.failures + 1


def run(ctx: jobs.Context, data: EmailSendJobData) -> dict[str, Any]:
    """The email is sent, now or earlier; raises what becomes of its job otherwise."""
    attempt = Attempt(ctx, data, time.monotonic())
    if (sent := _sent_already(data)) is not None:
        return _result(attempt, sent.provider_message_id or "", "ALREADY_SENT", now())
    try:
        letter, company = _prepare(attempt)
    except Invalid as error:
        _fail(attempt, error.code, error.reason)
        raise jobs.Unrecoverable(error.code) from None
    return _send(attempt, letter, company)


def _sent_already(data: EmailSendJobData) -> EmailLog | None:
    return EmailLog.objects.filter(
        outbox_id=data.outboxId, company_id=data.companyId, status=Status.SENT
    ).first()


def _prepare(attempt: Attempt) -> tuple[Letter, Company]:
    """The email is SENT_ATTEMPT, and its letter is what was validated."""
    data = attempt.data
    with transaction.atomic():
        row = OutboxEmail.objects.select_related("company", "recipient", "html").filter(
            pk=data.outboxId
        ).first()  # fmt: skip
        if row is None or row.company_id != data.companyId:
            raise Invalid("OUTBOX_NOT_FOUND", "there is no such email of this company")
        _refuse_late(row)
        # One that was under way stays so until it is known what became of it.
        is_under_way = row.status == Status.SENT_ATTEMPT
        if not is_under_way:
            states.outbox.move(row, Status.RECEIVED, by="worker")
        body = validations.validate(data, row)
        if not is_under_way:
            states.outbox.move(row, Status.VALIDATED, by="worker")
            states.outbox.move(row, Status.SENT_ATTEMPT, by="worker", attempts=attempt.number)
        _take(attempt)
    try:
        return compose(data, row, body), row.company
    except UnsafeLetter as error:
        raise Invalid("INVALID_EMAIL", str(error)) from None


def _take(attempt: Attempt) -> None:
    """The email is this attempt's; an older one that thaws now hands nothing over any more."""
    run = attempt.ctx.attempt
    rows = OutboxEmail.objects.filter(pk=attempt.data.outboxId, run__lte=run)
    if not rows.update(run=run, attempts=attempt.number):
        raise Failed("a later attempt has the email")


def _begin(attempt: Attempt) -> None:
    """It is on record, before the first byte, that the content may be gone; raises NotSent."""
    run = attempt.ctx.attempt
    rows = OutboxEmail.objects.filter(pk=attempt.data.outboxId, run=run)
    if not rows.update(handed_over=run):
        raise NotSent("UNKNOWN_ERROR", "a later attempt has the email")


def _refuse_late(row: OutboxEmail) -> None:
    if row.status not in (Status.SENT_ATTEMPT, Status.SENT) and now() >= row.expires_at:
        raise Invalid("EXPIRED", "its time is over")


def _send(attempt: Attempt, letter: Letter, company: Company) -> dict[str, Any]:
    provider = OutboxEmail.objects.values_list("provider", flat=True).get(pk=letter.outbox_id)
    rerun = company.on_doubt == Company.OnDoubt.RESEND

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
    """The email is SENT, and its log says so, in one transaction."""
    data, moment = attempt.data, now()
    reason = ""
    if attempt.refused:
        shown = ", ".join(mask_email(address) for address in attempt.refused)
        reason = f"not taken for {shown}"
    with transaction.atomic():
        row = OutboxEmail.objects.select_for_update(no_key=True).get(pk=data.outboxId)
        if row.status != Status.SENT:
            _write_log(attempt, row, Status.SENT, moment, message_id=message_id)
            states.outbox.move(
                row, Status.SENT, by="worker", processed_at=moment, in_doubt=False,
                error_code="", error_reason=reason,
            )  # fmt: skip
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
        attempt.data.outboxId, Status.RETRY_SCHEDULED, expect=Status.SENT_ATTEMPT, by="worker",
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
    EmailLog.objects.update_or_create(
        outbox=row,
        defaults={
            "company_id": row.company_id,
            "status": status,
            "provider": row.provider,
            "provider_message_id": message_id or None,
            "attempts": attempt.number,
            "duration_ms": _elapsed(attempt),
            "error_code": code,
            "sent_at": moment if is_sent else None,
            "failed_at": None if is_sent else moment,
        },
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
