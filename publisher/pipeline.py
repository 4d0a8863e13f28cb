"""One attempt at a publication: claim its row, publish, and write down how it went."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction

import jobs
from jobs import effects, http
from publisher import (
    assets,
    channels,
    comments,
    config,
    connectors,
    metrics,
    plans,
    signals,
    states,
)
from publisher.clock import now
from publisher.connectors import tokens
from publisher.connectors.base import Published, Run
from publisher.content import Content
from publisher.errors import Expired, ProviderError, Unclear
from publisher.models import Account, Publication

Status, Reason = Publication.Status, Publication.Reason
ACCOUNT_WAIT = 30.0
"""Seconds between two looks at an account that is not connected."""
DOUBT_WAIT = 60.0
BY = "worker"


class Failed(jobs.JobsError):
    """The attempt failed and may be retried. Holds a code, and nothing of the post."""


def run(ctx: jobs.Context, publication_id: UUID, channel: str) -> dict[str, str]:
    """Publish the post unless it has appeared; raise how the attempt ends otherwise."""
    row = (
        Publication.objects.select_related("brand", "account")
        .filter(pk=publication_id, channel=channel)
        .first()
    )
    # A job that names another post must not read or change it.
    if row is None or ctx.job_id != row.pk or ctx.tenant != row.tenant:
        raise jobs.Unrecoverable("the job and its publication do not belong together")
    if row.status == Status.COMPLETED:
        return _result(row)
    if plans.is_withdrawn(row):
        raise jobs.Unrecoverable("its plan has changed or its slot has moved")
    attempt = Run(ctx, row)
    _claim(attempt)
    try:
        return _finish(attempt, _published(attempt))
    except (jobs.Snooze, jobs.RateLimited, effects.CircuitOpen, jobs.flow.MeterFull) as wait:
        _put_off(attempt, wait.delay, str(wait))
        raise
    except Expired:
        raise _give_up(attempt, Reason.EXPIRED, "its time was over") from None
    except ProviderError as error:
        raise _after(attempt, error) from None
    except Unclear as error:
        raise _retry(attempt, str(error), in_doubt=attempt.has_begun) from None
    except http.HttpError as error:
        ctx.log.warning("a call to %s failed: %s", channel, error.detail or type(error).__name__)
        doubtful = attempt.has_begun and error.sent
        raise _retry(attempt, f"the provider {_words(error)}", in_doubt=doubtful) from None


def _words(error: http.HttpError) -> str:
    return "did not answer in time" if isinstance(error, http.TooSlow) else "cannot be reached"


def _claim(attempt: Run) -> None:
    """Move the row to running; a job that an operator retried brings its failed row with it."""
    row, ctx = attempt.row, attempt.ctx
    path = {Status.FAILED: [Status.PENDING, Status.RUNNING], Status.PENDING: [Status.RUNNING]}
    with transaction.atomic():
        ctx.fence()
        if (steps := path.get(Status(row.status))) is not None:
            states.publication.walk(
                row, steps, by=BY, attempts=ctx.failures + 1, reason="", error="", ended_at=None
            )
        else:
            row.attempts = ctx.failures + 1
            row.save(update_fields=["attempts"])


def _published(attempt: Run) -> Published:
    row = attempt.row
    if not attempt.has_begun:
        attempt.check_time()
    if row.account.status != Account.Status.CONNECTED:
        left = (row.publish_until - now()).total_seconds()
        wait = ACCOUNT_WAIT if attempt.has_begun else min(ACCOUNT_WAIT, max(left, 0))
        raise jobs.Snooze(wait, "its account needs reconnecting")
    if (decided := _asked(attempt)) is not None:
        return decided
    attempt.content = assets.resolved(row, attempt.content, is_checked=bool(row.handle))
    return connectors.of(row.channel).publish(attempt)


def _asked(attempt: Run) -> Published | None:
    """Return what a receiver of ``process_job`` has done; None if nobody took the job."""
    if attempt.has_begun:
        return None
    job = signals.ClaimedJob(attempt.row, attempt.ctx.attempt)
    try:
        signals.process_job.send(sender=channels.sender(attempt.row.channel), job=job)
    finally:
        job.close()
    if job.outcome is None:
        return None
    what, text, retryable = job.outcome
    if what == "completed":
        return Published(text[:191])
    raise ProviderError("retry" if retryable else "permanent", text[:500])


def _finish(attempt: Run, made: Published) -> dict[str, str]:
    row = attempt.row
    comment, ended = comments.prepare(attempt, made), now()
    with transaction.atomic():
        attempt.ctx.fence()
        states.publication.move(
            row, Status.COMPLETED, by=BY, remote_id=made.remote_id[:191], url=made.url, error="",
            ended_at=ended,
        )  # fmt: skip
        row.remote_id = made.remote_id[:191]
        comments.create(row, comment)
        assets.note_use(attempt.content.assets)
    lateness = (ended - row.scheduled_at).total_seconds()
    metrics.publications.inc(channel=row.channel, outcome="completed")
    metrics.lateness.observe(max(lateness, 0), channel=row.channel)
    return _result(row)


def _result(row: Publication) -> dict[str, str]:
    return {"remote_id": row.remote_id, "status": "completed"}


def _after(attempt: Run, error: ProviderError) -> BaseException:
    """Return how the attempt ends after a clear refusal."""
    if error.action == "retry":
        return _retry(attempt, error.code)
    if error.action == "later":
        _put_off(attempt, error.delay, error.code)
        return jobs.RateLimited(error.delay, scope=error.scope)
    if error.action == "token":
        tokens.give_up(attempt.account, error.code)
        _put_off(attempt, ACCOUNT_WAIT, error.code)
        return jobs.Snooze(ACCOUNT_WAIT, "its account needs reconnecting")
    return _give_up(attempt, Reason.PERMANENT, error.code)


def _retry(attempt: Run, error: str, *, in_doubt: bool = False) -> BaseException:
    """Return how a failed attempt ends: another one follows, if any is left."""
    ctx = attempt.ctx
    if in_doubt:
        attempt.doubt()
    if ctx.is_last_attempt and in_doubt:  # the provider is asked before a person is
        _put_off(attempt, DOUBT_WAIT, error)
        return jobs.Snooze(DOUBT_WAIT, error)
    if ctx.is_last_attempt:
        return _give_up(attempt, Reason.EXHAUSTED, error)
    delay = config.settings().backoff(attempt.row.channel).drawn(ctx.failures + 1)
    _put_off(attempt, delay, error)
    return jobs.RetryAfter(delay, error)


def _put_off(attempt: Run, delay: float, error: str) -> None:
    with transaction.atomic():
        attempt.ctx.fence()
        states.publication.move(
            attempt.row, Status.PENDING, by=BY, error=error[:5000],
            run_at=now() + timedelta(seconds=delay),
        )  # fmt: skip


def _give_up(attempt: Run, reason: str, error: str) -> BaseException:
    """Fail the row and return the end of its job."""
    row = attempt.row
    with transaction.atomic():
        attempt.ctx.fence()
        fail(row, reason, error, by=BY)
    if reason == Reason.EXHAUSTED:
        return Failed(error)
    return jobs.Unrecoverable(error)


def fail(row: Publication, reason: str, error: str, *, by: str) -> None:
    """Fail a row, in the caller's transaction."""
    states.publication.move(
        row, Status.FAILED, by=by, reason=reason, error=error[:5000], ended_at=now()
    )
    metrics.publications.inc(channel=row.channel, outcome=reason)
    assets.note_use(Content.model_validate(row.content).assets)
    comments.report(row, error)


_REASONS: dict[str, str] = {
    "in_doubt": Reason.IN_DOUBT, "bad_payload": Reason.PERMANENT, "unknown_kind": Reason.PERMANENT,
    "unrecoverable": Reason.PERMANENT,
}  # fmt: skip


def close(ended: jobs.types.Ended) -> None:
    """Copy the end of a job to its publication, whoever ended it."""
    row = Publication.objects.select_for_update(no_key=True).filter(pk=ended.id).first()
    if row is None or row.status == Status.COMPLETED:
        return
    reason = _reason_of(ended)
    if row.status != Status.FAILED:
        fail(row, reason, row.error or f"its job is {ended.state.value}", by="jobs")
    elif row.reason == Reason.IN_DOUBT and not ended.in_doubt:
        row.reason, row.error = Reason.PERMANENT, "it has not appeared"
        row.save(update_fields=["reason", "error"])


def _reason_of(ended: jobs.types.Ended) -> str:
    if ended.in_doubt:
        return Reason.IN_DOUBT
    if ended.state == jobs.JobState.CANCELLED:
        return Reason.CANCELLED
    if ended.state == jobs.JobState.EXPIRED:
        return Reason.EXPIRED
    return _REASONS.get(ended.reason, Reason.EXHAUSTED)
