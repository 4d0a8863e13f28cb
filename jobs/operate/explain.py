"""Why a job does not run: every reason that holds now, as data and in words. Reads only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobs import conf, registry, scopes
from jobs.engine import closures, leases, rq, sql
from jobs.errors import InvalidOption
from jobs.models import DeadLetter, Effect, Job, Lease, Slot
from jobs.operate.troubles import covers
from jobs.principals import EVERYTHING, Scope
from jobs.states import FINAL_STATES, JobState

SHOWN = 10
"""So many ids are named at most."""
COUNTED = 1000
"""Counts stop here."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a job from running, or says what became of it.

    ``until`` is the moment at which it ends by itself, where that is known. ``ids`` name the jobs,
    dead letters or effects that it is about.
    """

    code: str
    text: str
    until: datetime | None = None
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a job is and why; the first reason matters most."""

    job_id: UUID
    state: str | None
    """None where there is no such job."""
    reasons: tuple[Reason, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(reason.code for reason in self.reasons)

    @property
    def words(self) -> str:
        return "\n".join(reason.text for reason in self.reasons)

    def as_data(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "job_id": str(self.job_id),
            "state": self.state,
            "reasons": [
                {
                    "code": reason.code,
                    "text": reason.text,
                    "until": reason.until and reason.until.isoformat(),
                    "ids": list(reason.ids),
                }
                for reason in self.reasons
            ],
        }


def explain(job_id: UUID, scope: Scope = EVERYTHING) -> Explanation:
    """Why the job is not running, or that it is, or how it ended.

    Where others are in the way, those outside the scope are not counted, and nor are the words told
    with which somebody has closed more than the scope.
    """
    if not isinstance(job_id, UUID):
        raise InvalidOption("job_id", f"must be a UUID, got {job_id!r}")
    job = Job.objects.using(sql.alias()).filter(pk=job_id).first()
    if job is None:
        reason = Reason("not_found", "there is no job of this id: it never was, or its row is gone")
        return Explanation(job_id, None, (reason,))
    [(now,)] = sql.rows("SELECT jobs_clock()")
    return Explanation(job_id, job.state, tuple(_reasons(job, now, scope)))


def _reasons(job: Job, now: datetime, scope: Scope) -> Iterator[Reason]:
    if job.state in FINAL_STATES:
        yield from _end(job)
        return
    if job.state == JobState.RUNNING:
        yield from _running(job, now)
        return
    found = list(_waiting(job, now, scope))
    yield from found
    if job.state == JobState.BLOCKED:
        return
    surroundings = list(_surroundings(job))
    yield from surroundings
    if (not found and not surroundings) or job.state == JobState.QUEUED:
        yield _turn(job, scope)


def _waiting(job: Job, now: datetime, scope: Scope) -> Iterator[Reason]:
    if job.expires_at is not None and job.expires_at <= now:
        text = f"was to start before {_at(job.expires_at)} and is about to be closed"
        yield Reason("expired", text)
    if job.state == JobState.BLOCKED:
        yield from _parents(job)
    if job.run_at > now:
        yield _not_due(job)
    yield from _closures(job, scope)
    if job.state == JobState.PENDING:
        yield from _limits(job)
        yield from _key(job, now, scope)
    registry.autodiscover()
    if registry.find(job.kind) is None:
        yield Reason("unknown_kind", f"no handler is registered for kind {job.kind!r}")


# ---- time, parents, closures


def _not_due(job: Job) -> Reason:
    last = job.history[-1] if job.history else None
    by_attempt = last is not None and last[1:3] == ["running", "pending"]
    why = str(last[4] or "") if by_attempt and last is not None else ""
    when = _at(job.run_at)
    circuit = re.match(r"circuit (.+) is open", why)
    if circuit:
        return Reason(
            "circuit_open", f"circuit {circuit[1]} is open; it tries again at {when}", job.run_at
        )
    if by_attempt and job.failures:
        text = f"waits for its next attempt at {when}, after {job.failures} of {job.max_attempts}"
        return Reason("not_due", f"{text} failed: {job.error or why}", job.run_at)
    if why:
        return Reason("not_due", f"waits until {when}: {why}", job.run_at)
    return Reason("not_due", f"is not due before {when}", job.run_at)


def _parents(job: Job) -> Iterator[Reason]:
    open_ = sql.rows(
        "SELECT d.parent_id, d.policy, p.state FROM jobs_dependency d "
        "LEFT JOIN jobs_job p ON p.id = d.parent_id WHERE d.child_id = %s AND NOT d.done "
        "ORDER BY d.parent_id LIMIT %s",
        [job.id, SHOWN],
    )
    ids = tuple(str(parent) for parent, _, _ in open_)
    states = ", ".join(f"{parent} ({state or 'gone'})" for parent, _, state in open_)
    text = f"waits for {job.open_parents} unfinished parents: {states or 'none is known'}"
    yield Reason("parents", text, ids=ids)
    if stuck := [str(p) for p, policy, s in open_ if policy == "wait" and s in _NOT_SUCCEEDED]:
        text = f"waits until somebody retries {', '.join(stuck)}, which did not succeed"
        yield Reason("parents_not_succeeded", text, ids=tuple(stuck))


_NOT_SUCCEEDED = ("failed", "cancelled", "expired")


def _closures(job: Job, scope: Scope) -> Iterator[Reason]:
    mine = {f"queue:{job.queue}", f"kind:{job.kind}", f"tenant:{job.tenant}"}
    if job.exclusive_key:
        mine.add(f"key:{job.exclusive_key}")
    for stop in closures.stops():
        if mine & set(scopes.spellings(stop.scope)):
            end = "until somebody resumes it" if stop.until is None else f"until {_at(stop.until)}"
            code = "paused" if stop.what == "pause" else "blackout"
            words = f": {stop.words}" if covers(scope, stop.scope) else ""
            yield Reason(code, f"{stop.scope} is closed {end}{words}", stop.until)


# ---- limits and keys

_LIMITS = """
SELECT scope, at_once, per_second, CASE WHEN closed_until > jobs_clock() THEN closed_until END,
  least(burst, tokens + per_second
    * greatest(0, extract(epoch FROM jobs_clock() - coalesce(refilled_at, jobs_clock()))))::float8,
  jobs_clock()
FROM jobs_limiter WHERE scope = ANY (%s) ORDER BY scope
"""


def _limits(job: Job) -> Iterator[Reason]:
    wanted = {f"queue:{job.queue}": ("queue", job.queue), f"kind:{job.kind}": ("kind", job.kind)}
    if job.limit_key:
        wanted[f"key:{job.kind}|{job.limit_key}"] = ("limit_key", job.limit_key)
    for scope, at_once, per_second, closed_until, tokens, now in sql.rows(_LIMITS, [list(wanted)]):
        if closed_until is not None:
            text = f"{scope} was told to wait until {_at(closed_until)} by what it calls"
            yield Reason("rate_limited", text, closed_until)
        if at_once is not None:
            yield from _full(job, scope, at_once, wanted[scope][0])
        if per_second is not None and tokens < 0.999999:
            free = now + timedelta(seconds=(1 - tokens) / per_second)
            text = f"the rate of {scope} ({per_second:g}/s) is used up until {_at(free)}"
            yield Reason("rate", text, free)


_HOLDERS = {
    "queue": "j.queue = %s",
    "kind": "j.kind = %s",
    "limit_key": "j.limit_key = %s AND j.kind = %s",
}


def _full(job: Job, scope: str, at_once: int, what: str) -> Iterator[Reason]:
    values: dict[str, list[Any]] = {
        "queue": [job.queue],
        "kind": [job.kind],
        "limit_key": [job.limit_key, job.kind],
    }
    statement = (
        f"SELECT j.id FROM jobs_job j WHERE {_HOLDERS[what]} "  # noqa: S608 - constant text
        "AND j.state IN ('queued', 'running') ORDER BY j.queued_at, j.id LIMIT %s"
    )
    holders = [str(i) for (i,) in sql.rows(statement, [*values[what], at_once])]
    if len(holders) >= at_once:
        shown = tuple(holders[:SHOWN])
        more = f" and {at_once - SHOWN} others" if at_once > SHOWN else ""
        text = f"{scope} allows {at_once} at once, and they are there: {', '.join(shown)}{more}"
        yield Reason("limit", text, ids=shown)


def _key(job: Job, now: datetime, scope: Scope) -> Iterator[Reason]:
    if not job.exclusive_key:
        return
    slot = Slot.objects.using(sql.alias()).filter(key=job.exclusive_key).first()
    holder = None
    if slot is not None and slot.job_id != job.id:
        holder = Job.objects.using(sql.alias()).filter(pk=slot.job_id).first()
    if holder is not None:
        yield _held(job, holder, now)
    elif slot is None and job.wait == 2:
        before = _count(
            "SELECT 1 FROM jobs_job WHERE exclusive_key = %s AND state = 'pending' "
            "AND (NOT preempts, rank, id) < (%s, %s, %s)",
            [job.exclusive_key, not job.preempts, job.rank, job.id],
        )
        if before != "0":
            before = before if scope.is_everything else "others"
            text = f"key {job.exclusive_key!r} is free, and {before} wait for it before this job"
            yield Reason("key_queue", text)


def _held(job: Job, holder: Job, now: datetime) -> Reason:
    text = f"key {job.exclusive_key!r} is held by job {holder.id}, which is {holder.state}"
    if holder.state == JobState.RUNNING and holder.started_at is not None:
        lease = Lease.objects.using(sql.alias()).filter(owner=holder.owner or UUID(int=0)).first()
        text += (
            f" since {_at(holder.started_at)} by {lease.worker if lease else 'an unknown worker'}"
        )
        if job.preempts:
            text += _preemption(job, holder, now)
    return Reason("key_held", text, ids=(str(holder.id),))


def _preemption(job: Job, holder: Job, now: datetime) -> str:
    if not holder.preemptible:
        return "; it cannot be preempted"
    if holder.preempted_by is None or holder.preempt_asked_at is None:
        if holder.priority >= job.priority:
            return f"; its priority {holder.priority} is no lower, so it is not preempted"
        if holder.preemptions >= conf.settings().PREEMPTION_LIMIT:
            return f"; it was preempted {holder.preemptions} times already and may finish now"
        return "; it is about to be asked to make way"
    asked = f"; it was asked at {_at(holder.preempt_asked_at)} to make way"
    grace = timedelta(seconds=conf.settings().PREEMPTION_GRACE)
    if now - holder.preempt_asked_at < grace:
        return asked
    handler = registry.find(holder.kind)
    if handler is not None and handler.killable:
        return f"{asked}, has not obeyed, and is being killed"
    return f"{asked}, has not obeyed, and may not be killed"


# ---- who would run it


def _surroundings(job: Job) -> Iterator[Reason]:
    listening = job.queue in leases.live_queues()
    try:
        listening = listening or job.queue in rq.StockWorkers().by_queue()
        dispatchers = rq.live_dispatchers()
    except rq.Unavailable as error:
        yield Reason("redis_away", f"Redis cannot be reached: {error}")
        return
    if not listening:
        text = f"no live worker listens to queue {job.queue!r}"
        yield Reason("no_worker", f"{text}: start manage.py jobs worker")
    if not dispatchers:
        text = "no dispatcher is running"
        yield Reason("no_dispatcher", f"{text}: start manage.py jobs dispatch")


def _turn(job: Job, scope: Scope) -> Reason:
    if job.state == JobState.QUEUED:
        if scope.tenants is not None:
            return Reason("queued", "is queued and waits for a free slot")
        before = _count(
            "SELECT 1 FROM jobs_job WHERE queue = %s AND state = 'queued' "
            "AND (queued_at, id) < (%s, %s)",
            [job.queue, job.queued_at, job.id],
        )
        return Reason("queued", f"is queued and waits for a free slot; {before} are before it")
    before = _count(
        "SELECT 1 FROM jobs_job WHERE queue = %s AND lane = %s AND state = 'pending' "
        "AND wait = 0 AND (rank, id) < (%s, %s)",
        [job.queue, job.lane, job.rank, job.id],
    )
    return Reason(
        "turn",
        f"is due and waits for its turn in queue {job.queue!r}; {before} of its kind and tenant "
        "are before it",
    )


def _count(statement: str, parameters: list[Any]) -> str:
    """How many rows there are, in words."""
    limited = f"SELECT count(*) FROM ({statement} LIMIT %s) c"  # noqa: S608 - constant text
    [(found,)] = sql.rows(limited, [*parameters, COUNTED + 1])
    return f"more than {COUNTED}" if found > COUNTED else str(found)


# ---- running and ended


def _running(job: Job, now: datetime) -> Iterator[Reason]:
    lease = Lease.objects.using(sql.alias()).filter(owner=job.owner or UUID(int=0)).first()
    worker = lease.worker if lease else "an unknown worker"
    assert job.started_at is not None  # noqa: S101 - every claim writes it
    if lease is None or lease.dead_at is not None or lease.until <= now:
        # A kind may ask for a longer lease than its executor's.
        extra = max(0.0, job.lease - conf.settings().LEASE)
        until = lease.until + timedelta(seconds=extra) if lease else None
        end = f"; it is taken back after {_at(until)}" if until and until > now else ""
        text = (
            f"is held by {worker}, which has fallen silent{end or '; it is about to be taken back'}"
        )
        yield Reason("silent_worker", text, until)
    else:
        text = f"has been running since {_at(job.started_at)} on {worker}, attempt {job.attempt}"
        yield Reason("running", text, job.started_at + timedelta(seconds=job.timeout))
    if job.cancel_requested_at is not None:
        text = (
            f"was asked to stop at {_at(job.cancel_requested_at)} by {job.cancel_by or 'somebody'}"
        )
        yield Reason("cancel_requested", f"{text}: {job.cancel_reason}".rstrip(": "))
    if job.preempted_by is not None:
        if job.preempted_by.int == 0:
            yield Reason("preemption_asked", "was asked to stop and wait for the end of a pause")
            return
        text = f"was asked to make way for job {job.preempted_by}"
        yield Reason("preemption_asked", text, ids=(str(job.preempted_by),))


def _end(job: Job) -> Iterator[Reason]:
    assert job.finished_at is not None  # noqa: S101 - a constraint holds it
    _, _, _, by, why = job.history[-1] if job.history else (0, "", "", "", "")
    when = _at(job.finished_at)
    if job.state == JobState.SUCCEEDED:
        yield Reason("succeeded", f"succeeded at {when} in attempt {job.attempt}")
    elif job.state == JobState.FAILED:
        text = f"failed for good at {when} ({job.reason or why}) after {job.attempt} attempts"
        yield Reason("failed", f"{text}: {job.error}".rstrip(": "))
    elif job.state == JobState.CANCELLED:
        text = f"was cancelled at {when} by {job.cancel_by or by}: {job.cancel_reason or why or ''}"
        yield Reason("cancelled", text.rstrip(": "))
    else:
        yield Reason("expired", f"expired at {when}: it was not started in time")
    letters = DeadLetter.objects.using(sql.alias()).filter(job_id=job.id, state="open")
    if ids := tuple(str(pk) for pk in letters.values_list("pk", flat=True)):
        yield Reason("dead_letter", "its dead letter waits for somebody's decision", ids=ids)
    doubts = Effect.objects.using(sql.alias()).filter(job_id=job.id, state="in_doubt")
    if ids := tuple(str(pk) for pk in doubts.values_list("pk", flat=True)[:SHOWN]):
        text = "nobody knows whether its effects happened: somebody has to decide"
        yield Reason("in_doubt", text, ids=ids)
    if job.replayed_by is not None:
        ids = (str(job.replayed_by),)
        yield Reason("replayed", f"was replayed as job {job.replayed_by}", ids=ids)


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"
