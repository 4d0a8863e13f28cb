"""What keeps a job that has not begun: its time, its parents, a closure, or nobody to run it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from jobs import registry, scopes
from jobs.engine import breakers, closures, leases, rq, sql
from jobs.models import Job
from jobs.operate.explain.keys import key_taken
from jobs.operate.explain.limits import limits
from jobs.operate.explain.reasons import COUNTED, SHOWN, Reason, count, moment, reason
from jobs.operate.phrases import Phrase, plain, say, say_many, scope_word
from jobs.operate.troubles import covers
from jobs.principals import Scope
from jobs.states import JobState


def waiting(job: Job, now: datetime, scope: Scope) -> Iterator[Reason]:
    """What lies in the way of the job itself."""
    if job.expires_at is not None and job.expires_at <= now:
        words = say(
            "too late: it was to start before %(at)s, and is about to be closed",
            at=moment(job.expires_at),
        )  # fmt: skip
        yield reason("expired", words)
    if job.state == JobState.BLOCKED:
        yield from _parents(job)
    if job.run_at > now:
        yield _not_due(job)
    yield from _closures(job, scope)
    if job.state == JobState.PENDING:
        yield from limits(job)
        yield from key_taken(job, now, scope)
    registry.autodiscover()
    if registry.find(job.kind) is None:
        words = say("no handler is registered for kind %(kind)s", kind=repr(job.kind))
        yield reason("unknown_kind", words)


def _not_due(job: Job) -> Reason:
    last = job.history[-1] if job.history else None
    by_attempt = last is not None and last[1:3] == ["running", "pending"]
    why = str(last[4] or "") if by_attempt and last is not None else ""
    when = moment(job.run_at)
    circuit = re.match(r"circuit (.+) is open", why)
    if circuit:
        return _circuit(job, circuit[1], when)
    if meter := re.match(r"meter (.+) is (full|closed) for", why):
        return _meter(job, meter[1], meter[2], when)
    if by_attempt and job.failures:
        words = say(
            "waits for its next attempt at %(at)s, after %(n)s of %(most)s failed: %(error)s",
            at=when, n=job.failures, most=job.max_attempts, error=job.error or why,
        )  # fmt: skip
    elif why:
        words = say("waits until %(at)s: %(why)s", at=when, why=why)
    else:
        words = say("not due before %(at)s", at=when)
    return reason("not_due", words, job.run_at)


def _circuit(job: Job, name: str, when: Phrase) -> Reason:
    """A circuit that was open when the job ran last; it may have been closed since."""
    if not breakers.look(name).may_call:
        words = say("circuit %(name)s is open; it tries again at %(at)s", name=name, at=when)
        return reason("circuit_open", words, job.run_at)
    words = say(
        "waits until %(at)s: circuit %(name)s was open when it ran last, and is closed now",
        at=when, name=name,
    )  # fmt: skip
    return reason("not_due", words, job.run_at)


def _meter(job: Job, name: str, state: str, when: Phrase) -> Reason:
    """A meter that had no room when the job ran last."""
    if state == "closed":
        words = say(
            "meter %(name)s was closed when it ran last; it tries again at %(at)s",
            at=when, name=name,
        )  # fmt: skip
    else:
        words = say(
            "meter %(name)s had no room when it ran last; it tries again at %(at)s",
            at=when, name=name,
        )  # fmt: skip
    return reason("metered", words, job.run_at)


def _parents(job: Job) -> Iterator[Reason]:
    open_ = sql.rows(
        "SELECT d.parent_id, d.policy, p.state FROM jobs_dependency d "
        "LEFT JOIN jobs_job p ON p.id = d.parent_id WHERE d.child_id = %s AND NOT d.done "
        "ORDER BY d.parent_id LIMIT %s",
        [job.id, SHOWN],
    )
    ids = tuple(str(parent) for parent, _, _ in open_)
    states = ", ".join(f"{parent} ({state or 'gone'})" for parent, _, state in open_)
    words = say_many("waits for %(n)s unfinished parent: ", "waits for %(n)s unfinished parents: ",
                     job.open_parents)  # fmt: skip
    words += plain(states) if states else say("none is known")
    yield reason("parents", words, ids=ids)
    if stuck := [str(p) for p, policy, s in open_ if policy == "wait" and s in _NOT_SUCCEEDED]:
        words = say("waits until %(ids)s, which did not succeed, is retried", ids=", ".join(stuck))
        yield reason("parents_not_succeeded", words, ids=tuple(stuck))


_NOT_SUCCEEDED = ("failed", "cancelled", "expired")


def _closures(job: Job, scope: Scope) -> Iterator[Reason]:
    mine = {f"queue:{job.queue}", f"kind:{job.kind}", f"tenant:{job.tenant}"}
    if job.exclusive_key:
        mine.add(f"key:{job.exclusive_key}")
    if job.limit_key:
        mine.add(f"limit_key:{job.limit_key}")
    for stop in closures.stops():
        if mine & set(scopes.spellings(stop.scope)):
            words = _closed(stop)
            if covers(scope, stop.scope):
                words += plain(": ") + _why(stop)
            yield reason("paused" if stop.what == "pause" else "blackout", words, stop.until)


def _closed(stop: closures.Stop) -> Phrase:
    if stop.until is None:
        return say("%(scope)s is closed until it is resumed", scope=scope_word(stop.scope))
    scope = scope_word(stop.scope)
    return say("%(scope)s is closed until %(at)s", scope=scope, at=moment(stop.until))


def _why(stop: closures.Stop) -> Phrase:
    """As the stop's words."""
    pause = stop.what == "pause"
    words = say("paused by %(by)s", by=stop.by) if pause else say("blackout window")
    return words + plain(f": {stop.reason}") if stop.reason else words


def surroundings(job: Job) -> Iterator[Reason]:
    """Who is missing that would hand it out and run it."""
    listening = job.queue in leases.live_queues()
    try:
        dispatchers = rq.live_dispatchers()
    except rq.Unavailable as error:
        yield reason("redis_away", say("Redis cannot be reached: %(error)s", error=error))
        return
    if not listening:
        words = say("no live worker listens to queue %(queue)s: start manage.py jobs worker",
                    queue=repr(job.queue))  # fmt: skip
        yield reason("no_worker", words)
    if not dispatchers:
        words = say("no dispatcher is running: start manage.py jobs dispatch")
        yield reason("no_dispatcher", words)


def turn(job: Job, scope: Scope) -> Reason:
    """It may run, and others are before it."""
    if job.state == JobState.QUEUED:
        if scope.tenants is not None:
            return reason("queued", say("queued, and waits for a free slot"))
        before = count(
            "SELECT 1 FROM jobs_job WHERE queue = %s AND state = 'queued' "
            "AND (queued_at, id) < (%s, %s)",
            [job.queue, job.queued_at, job.id],
        )
        if before > COUNTED:
            words = say("queued, and waits for a free slot; more than %(n)s are before it",
                        n=COUNTED)  # fmt: skip
        else:
            words = say_many(
                "queued, and waits for a free slot; %(n)s is before it",
                "queued, and waits for a free slot; %(n)s are before it", before,
            )  # fmt: skip
        return reason("queued", words)
    before = count(
        "SELECT 1 FROM jobs_job WHERE queue = %s AND lane = %s AND state = 'pending' "
        "AND wait = 0 AND (rank, id) < (%s, %s)",
        [job.queue, job.lane, job.rank, job.id],
    )
    if before > COUNTED:
        words = say(
            "due, and waits for its turn in queue %(queue)s; more than %(n)s of its kind and "
            "tenant are before it",
            queue=repr(job.queue), n=COUNTED,
        )  # fmt: skip
    else:
        words = say_many(
            "due, and waits for its turn in queue %(queue)s; %(n)s of its kind and tenant is "
            "before it",
            "due, and waits for its turn in queue %(queue)s; %(n)s of its kind and tenant are "
            "before it",
            before, queue=repr(job.queue),
        )  # fmt: skip
    return reason("turn", words)
