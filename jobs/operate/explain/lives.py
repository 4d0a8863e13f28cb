"""What a job that has begun is doing, and how one ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from jobs import conf
from jobs.engine import sql
from jobs.models import DeadLetter, Effect, Job, Lease
from jobs.operate.explain.reasons import SHOWN, Reason, because, moment, reason, worker_word
from jobs.operate.phrases import plain, reason_word, say, say_many
from jobs.states import JobState


def running(job: Job, now: datetime) -> Iterator[Reason]:
    """Where it runs, and whether somebody wants it to stop."""
    lease = Lease.objects.using(sql.alias()).filter(owner=job.owner or UUID(int=0)).first()
    worker = worker_word(lease)
    assert job.started_at is not None  # noqa: S101 - every claim writes it
    if lease is None or lease.dead_at is not None or lease.until <= now:
        # A kind may ask for a longer lease than its executor's.
        extra = max(0.0, job.lease - conf.settings().LEASE)
        until = lease.until + timedelta(seconds=extra) if lease else None
        words = say("held by %(worker)s, which has fallen silent", worker=worker)
        if until and until > now:
            words += say("; it is taken back after %(at)s", at=moment(until))
        else:
            words += say("; it is about to be taken back")
        yield reason("silent_worker", words, until)
    else:
        words = say("running since %(at)s on %(worker)s, attempt %(n)s",
                    at=moment(job.started_at), worker=worker, n=job.attempt)  # fmt: skip
        yield reason("running", words, job.started_at + timedelta(seconds=job.timeout))
    if job.cancel_requested_at is not None:
        by = plain(job.cancel_by) if job.cancel_by else say("somebody")
        words = say("asked to stop at %(at)s by %(by)s", at=moment(job.cancel_requested_at), by=by)
        yield reason("cancel_requested", words + because(job.cancel_reason))
    if job.preempted_by is not None:
        if job.preempted_by.int == 0:
            words = say("asked to stop and wait for the end of a pause")
            yield reason("preemption_asked", words)
            return
        words = say("asked to make way for job %(id)s", id=job.preempted_by)
        yield reason("preemption_asked", words, ids=(str(job.preempted_by),))


def ended(job: Job) -> Iterator[Reason]:
    """How it ended, and what waits for a decision since."""
    assert job.finished_at is not None  # noqa: S101 - a constraint holds it
    _, _, _, by, why = job.history[-1] if job.history else (0, "", "", "", "")
    when = moment(job.finished_at)
    if job.state == JobState.SUCCEEDED:
        words = say("succeeded at %(at)s in attempt %(n)s", at=when, n=job.attempt)
        yield reason("succeeded", words)
    elif job.state == JobState.FAILED:
        words = say_many(
            "failed for good at %(at)s (%(reason)s) after %(n)s attempt",
            "failed for good at %(at)s (%(reason)s) after %(n)s attempts",
            job.attempt, at=when, reason=reason_word(job.reason or why),
        )  # fmt: skip
        yield reason("failed", words + because(job.error))
    elif job.state == JobState.CANCELLED:
        words = say("cancelled at %(at)s by %(by)s", at=when, by=job.cancel_by or by)
        yield reason("cancelled", words + because(job.cancel_reason or why))
    else:
        words = say("expired at %(at)s: it was not started in time", at=when)
        yield reason("expired", words)
    letters = DeadLetter.objects.using(sql.alias()).filter(job_id=job.id, state="open")
    if ids := tuple(str(pk) for pk in letters.values_list("pk", flat=True)):
        words = say("its dead letter waits for a decision")
        yield reason("dead_letter", words, ids=ids)
    doubts = Effect.objects.using(sql.alias()).filter(job_id=job.id, state="in_doubt")
    if ids := tuple(str(pk) for pk in doubts.values_list("pk", flat=True)[:SHOWN]):
        words = say("it is unknown whether its effects happened: a person has to decide")
        yield reason("in_doubt", words, ids=ids)
    if job.replayed_by is not None:
        words = say("replayed as job %(id)s", id=job.replayed_by)
        yield reason("replayed", words, ids=(str(job.replayed_by),))
