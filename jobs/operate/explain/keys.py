"""The exclusive key that a job waits for: who holds it, and who is before it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from jobs import conf, registry
from jobs.engine import sql
from jobs.models import Job, Lease, Slot
from jobs.operate.explain.reasons import COUNTED, Reason, count, moment, reason, worker_word
from jobs.operate.phrases import Phrase, say, say_many, state_word
from jobs.principals import Scope
from jobs.states import JobState


def key_taken(job: Job, now: datetime, scope: Scope) -> Iterator[Reason]:
    """Who has the key of the job, or is before it in the line for one that is free."""
    if not job.exclusive_key:
        return
    slot = Slot.objects.using(sql.alias()).filter(key=job.exclusive_key).first()
    holder = None
    if slot is not None and slot.job_id != job.id:
        holder = Job.objects.using(sql.alias()).filter(pk=slot.job_id).first()
    if holder is not None:
        yield _held(job, holder, now)
    elif slot is None and job.wait == 2:
        before = count(
            "SELECT 1 FROM jobs_job WHERE exclusive_key = %s AND state = 'pending' "
            "AND (NOT preempts, rank, id) < (%s, %s, %s)",
            [job.exclusive_key, not job.preempts, job.rank, job.id],
        )
        if before:
            key = repr(job.exclusive_key)
            if not scope.is_everything:
                words = say("key %(key)s is free, and others wait for it before this job", key=key)
            elif before > COUNTED:
                words = say(
                    "key %(key)s is free, and more than %(n)s wait for it before this job",
                    key=key, n=COUNTED,
                )  # fmt: skip
            else:
                words = say_many(
                    "key %(key)s is free, and %(n)s waits for it before this job",
                    "key %(key)s is free, and %(n)s wait for it before this job",
                    before, key=key,
                )  # fmt: skip
            yield reason("key_queue", words)


def _held(job: Job, holder: Job, now: datetime) -> Reason:
    words = say(
        "key %(key)s is held by job %(id)s, which is %(state)s",
        key=repr(job.exclusive_key), id=holder.id, state=state_word(holder.state),
    )  # fmt: skip
    if holder.state == JobState.RUNNING and holder.started_at is not None:
        lease = Lease.objects.using(sql.alias()).filter(owner=holder.owner or UUID(int=0)).first()
        words += say(
            " since %(at)s by %(worker)s", at=moment(holder.started_at), worker=worker_word(lease)
        )
    if job.preempts and holder.state in (JobState.QUEUED, JobState.RUNNING):
        words += _preemption(job, holder, now)
    return reason("key_held", words, ids=(str(holder.id),))


def _preemption(job: Job, holder: Job, now: datetime) -> Phrase:
    if not holder.preemptible:
        return say("; it cannot be preempted")
    if holder.preempted_by is None or holder.preempt_asked_at is None:
        if holder.priority >= job.priority:
            return say("; its priority %(n)s is no lower, so it is not preempted",
                       n=holder.priority)  # fmt: skip
        if holder.preemptions >= _limit_of(holder):
            return say_many("; it was preempted once already and may finish now",
                            "; it was preempted %(n)s times already and may finish now",
                            holder.preemptions)  # fmt: skip
        if holder.state == JobState.QUEUED:
            return say("; it is about to make way")
        return say("; it is about to be asked to make way")
    asked = say("; it was asked at %(at)s to make way", at=moment(holder.preempt_asked_at))
    grace = timedelta(seconds=conf.settings().PREEMPTION_GRACE)
    if now - holder.preempt_asked_at < grace:
        return asked
    handler = registry.find(holder.kind)
    if handler is not None and handler.killable:
        return asked + say(", has not obeyed, and is being killed")
    return asked + say(", has not obeyed, and may not be killed")


def _limit_of(holder: Job) -> int:
    """Return how often the holder may be preempted."""
    handler = registry.find(holder.kind)
    if handler is None or handler.preemptions is None:
        return conf.settings().PREEMPTION_LIMIT
    return handler.preemptions
