"""Why a job does not run: every reason that holds now, as data and in words. Reads only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from jobs import conf, registry, scopes
from jobs.engine import closures, leases, rq, sql
from jobs.errors import InvalidOption
from jobs.models import DeadLetter, Effect, Job, Lease, Slot
from jobs.operate.phrases import Phrase, plain, say, state_word
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
    dead letters or effects that it is about. The ``text`` is English; ``told`` says the same in
    the language of whoever asked.
    """

    code: str
    text: str
    until: datetime | None = None
    ids: tuple[str, ...] = ()
    told: str = field(default="", compare=False)


def _reason(
    code: str, words: Phrase, until: datetime | None = None, ids: tuple[str, ...] = ()
) -> Reason:
    return Reason(code, words.english, until, ids, words.told)


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
        reason = _reason(
            "not_found", say("there is no job of this id: it never was, or its row is gone")
        )
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
        words = say("was to start before %(at)s and is about to be closed", at=_at(job.expires_at))
        yield _reason("expired", words)
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
        words = say("no handler is registered for kind %(kind)s", kind=repr(job.kind))
        yield _reason("unknown_kind", words)


# ---- time, parents, closures


def _not_due(job: Job) -> Reason:
    last = job.history[-1] if job.history else None
    by_attempt = last is not None and last[1:3] == ["running", "pending"]
    why = str(last[4] or "") if by_attempt and last is not None else ""
    when = _at(job.run_at)
    circuit = re.match(r"circuit (.+) is open", why)
    if circuit:
        words = say("circuit %(name)s is open; it tries again at %(at)s", name=circuit[1], at=when)
        return _reason("circuit_open", words, job.run_at)
    if by_attempt and job.failures:
        words = say(
            "waits for its next attempt at %(at)s, after %(n)s of %(most)s failed: %(error)s",
            at=when, n=job.failures, most=job.max_attempts, error=job.error or why,
        )  # fmt: skip
    elif why:
        words = say("waits until %(at)s: %(why)s", at=when, why=why)
    else:
        words = say("is not due before %(at)s", at=when)
    return _reason("not_due", words, job.run_at)


def _parents(job: Job) -> Iterator[Reason]:
    open_ = sql.rows(
        "SELECT d.parent_id, d.policy, p.state FROM jobs_dependency d "
        "LEFT JOIN jobs_job p ON p.id = d.parent_id WHERE d.child_id = %s AND NOT d.done "
        "ORDER BY d.parent_id LIMIT %s",
        [job.id, SHOWN],
    )
    ids = tuple(str(parent) for parent, _, _ in open_)
    states = ", ".join(f"{parent} ({state or 'gone'})" for parent, _, state in open_)
    words = say("waits for %(n)s unfinished parents: ", n=job.open_parents)
    words += plain(states) if states else say("none is known")
    yield _reason("parents", words, ids=ids)
    if stuck := [str(p) for p, policy, s in open_ if policy == "wait" and s in _NOT_SUCCEEDED]:
        words = say(
            "waits until somebody retries %(ids)s, which did not succeed", ids=", ".join(stuck)
        )
        yield _reason("parents_not_succeeded", words, ids=tuple(stuck))


_NOT_SUCCEEDED = ("failed", "cancelled", "expired")


def _closures(job: Job, scope: Scope) -> Iterator[Reason]:
    mine = {f"queue:{job.queue}", f"kind:{job.kind}", f"tenant:{job.tenant}"}
    if job.exclusive_key:
        mine.add(f"key:{job.exclusive_key}")
    for stop in closures.stops():
        if mine & set(scopes.spellings(stop.scope)):
            words = _closed(stop)
            if covers(scope, stop.scope):
                words += plain(": ") + _why(stop)
            yield _reason("paused" if stop.what == "pause" else "blackout", words, stop.until)


def _closed(stop: closures.Stop) -> Phrase:
    if stop.until is None:
        return say("%(scope)s is closed until somebody resumes it", scope=stop.scope)
    return say("%(scope)s is closed until %(at)s", scope=stop.scope, at=_at(stop.until))


def _why(stop: closures.Stop) -> Phrase:
    """As the stop's words."""
    pause = stop.what == "pause"
    words = say("paused by %(by)s", by=stop.by) if pause else say("blackout window")
    return words + plain(f": {stop.reason}") if stop.reason else words


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
            words = say("%(scope)s was told to wait until %(at)s by what it calls",
                        scope=scope, at=_at(closed_until))  # fmt: skip
            yield _reason("rate_limited", words, closed_until)
        if at_once is not None:
            yield from _full(job, scope, at_once, wanted[scope][0])
        if per_second is not None and tokens < 0.999999:
            free = now + timedelta(seconds=(1 - tokens) / per_second)
            words = say("the rate of %(scope)s (%(rate)s/s) is used up until %(at)s",
                        scope=scope, rate=f"{per_second:g}", at=_at(free))  # fmt: skip
            yield _reason("rate", words, free)


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
        words = say("%(scope)s allows %(n)s at once, and they are there: %(ids)s",
                    scope=scope, n=at_once, ids=", ".join(shown))  # fmt: skip
        if at_once > SHOWN:
            words += say(" and %(n)s others", n=at_once - SHOWN)
        yield _reason("limit", words, ids=shown)


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
                words = say(
                    "key %(key)s is free, and %(n)s wait for it before this job",
                    key=key, n=before,
                )  # fmt: skip
            yield _reason("key_queue", words)


def _held(job: Job, holder: Job, now: datetime) -> Reason:
    words = say(
        "key %(key)s is held by job %(id)s, which is %(state)s",
        key=repr(job.exclusive_key), id=holder.id, state=state_word(holder.state),
    )  # fmt: skip
    if holder.state == JobState.RUNNING and holder.started_at is not None:
        lease = Lease.objects.using(sql.alias()).filter(owner=holder.owner or UUID(int=0)).first()
        words += say(
            " since %(at)s by %(worker)s", at=_at(holder.started_at), worker=_worker(lease)
        )
        if job.preempts:
            words += _preemption(job, holder, now)
    return _reason("key_held", words, ids=(str(holder.id),))


def _worker(lease: Lease | None) -> Phrase:
    return plain(lease.worker) if lease else say("an unknown worker")


def _preemption(job: Job, holder: Job, now: datetime) -> Phrase:
    if not holder.preemptible:
        return say("; it cannot be preempted")
    if holder.preempted_by is None or holder.preempt_asked_at is None:
        if holder.priority >= job.priority:
            return say("; its priority %(n)s is no lower, so it is not preempted",
                       n=holder.priority)  # fmt: skip
        if holder.preemptions >= conf.settings().PREEMPTION_LIMIT:
            return say("; it was preempted %(n)s times already and may finish now",
                       n=holder.preemptions)  # fmt: skip
        return say("; it is about to be asked to make way")
    asked = say("; it was asked at %(at)s to make way", at=_at(holder.preempt_asked_at))
    grace = timedelta(seconds=conf.settings().PREEMPTION_GRACE)
    if now - holder.preempt_asked_at < grace:
        return asked
    handler = registry.find(holder.kind)
    if handler is not None and handler.killable:
        return asked + say(", has not obeyed, and is being killed")
    return asked + say(", has not obeyed, and may not be killed")


# ---- who would run it


def _surroundings(job: Job) -> Iterator[Reason]:
    listening = job.queue in leases.live_queues()
    try:
        listening = listening or job.queue in rq.StockWorkers().by_queue()
        dispatchers = rq.live_dispatchers()
    except rq.Unavailable as error:
        yield _reason("redis_away", say("Redis cannot be reached: %(error)s", error=error))
        return
    if not listening:
        words = say("no live worker listens to queue %(queue)s: start manage.py jobs worker",
                    queue=repr(job.queue))  # fmt: skip
        yield _reason("no_worker", words)
    if not dispatchers:
        words = say("no dispatcher is running: start manage.py jobs dispatch")
        yield _reason("no_dispatcher", words)


def _turn(job: Job, scope: Scope) -> Reason:
    if job.state == JobState.QUEUED:
        if scope.tenants is not None:
            return _reason("queued", say("is queued and waits for a free slot"))
        before = _count(
            "SELECT 1 FROM jobs_job WHERE queue = %s AND state = 'queued' "
            "AND (queued_at, id) < (%s, %s)",
            [job.queue, job.queued_at, job.id],
        )
        if before > COUNTED:
            words = say("is queued and waits for a free slot; more than %(n)s are before it",
                        n=COUNTED)  # fmt: skip
        else:
            words = say("is queued and waits for a free slot; %(n)s are before it", n=before)
        return _reason("queued", words)
    before = _count(
        "SELECT 1 FROM jobs_job WHERE queue = %s AND lane = %s AND state = 'pending' "
        "AND wait = 0 AND (rank, id) < (%s, %s)",
        [job.queue, job.lane, job.rank, job.id],
    )
    if before > COUNTED:
        words = say(
            "is due and waits for its turn in queue %(queue)s; more than %(n)s of its kind and "
            "tenant are before it",
            queue=repr(job.queue), n=COUNTED,
        )  # fmt: skip
    else:
        words = say(
            "is due and waits for its turn in queue %(queue)s; %(n)s of its kind and tenant are "
            "before it",
            queue=repr(job.queue), n=before,
        )  # fmt: skip
    return _reason("turn", words)


def _count(statement: str, parameters: list[Any]) -> int:
    """How many rows there are; one more than are counted, where there are more."""
    limited = f"SELECT count(*) FROM ({statement} LIMIT %s) c"  # noqa: S608 - constant text
    [(found,)] = sql.rows(limited, [*parameters, COUNTED + 1])
    return int(found)


# ---- running and ended


def _running(job: Job, now: datetime) -> Iterator[Reason]:
    lease = Lease.objects.using(sql.alias()).filter(owner=job.owner or UUID(int=0)).first()
    worker = _worker(lease)
    assert job.started_at is not None  # noqa: S101 - every claim writes it
    if lease is None or lease.dead_at is not None or lease.until <= now:
        # A kind may ask for a longer lease than its executor's.
        extra = max(0.0, job.lease - conf.settings().LEASE)
        until = lease.until + timedelta(seconds=extra) if lease else None
        words = say("is held by %(worker)s, which has fallen silent", worker=worker)
        if until and until > now:
            words += say("; it is taken back after %(at)s", at=_at(until))
        else:
            words += say("; it is about to be taken back")
        yield _reason("silent_worker", words, until)
    else:
        words = say("has been running since %(at)s on %(worker)s, attempt %(n)s",
                    at=_at(job.started_at), worker=worker, n=job.attempt)  # fmt: skip
        yield _reason("running", words, job.started_at + timedelta(seconds=job.timeout))
    if job.cancel_requested_at is not None:
        by = plain(job.cancel_by) if job.cancel_by else say("somebody")
        words = say("was asked to stop at %(at)s by %(by)s", at=_at(job.cancel_requested_at), by=by)
        yield _reason("cancel_requested", words + _because(job.cancel_reason))
    if job.preempted_by is not None:
        if job.preempted_by.int == 0:
            words = say("was asked to stop and wait for the end of a pause")
            yield _reason("preemption_asked", words)
            return
        words = say("was asked to make way for job %(id)s", id=job.preempted_by)
        yield _reason("preemption_asked", words, ids=(str(job.preempted_by),))


def _because(why: str | None) -> Phrase:
    return plain(f": {why}" if why else "")


def _end(job: Job) -> Iterator[Reason]:
    assert job.finished_at is not None  # noqa: S101 - a constraint holds it
    _, _, _, by, why = job.history[-1] if job.history else (0, "", "", "", "")
    when = _at(job.finished_at)
    if job.state == JobState.SUCCEEDED:
        words = say("succeeded at %(at)s in attempt %(n)s", at=when, n=job.attempt)
        yield _reason("succeeded", words)
    elif job.state == JobState.FAILED:
        words = say("failed for good at %(at)s (%(reason)s) after %(n)s attempts",
                    at=when, reason=job.reason or why, n=job.attempt)  # fmt: skip
        yield _reason("failed", words + _because(job.error))
    elif job.state == JobState.CANCELLED:
        words = say("was cancelled at %(at)s by %(by)s", at=when, by=job.cancel_by or by)
        yield _reason("cancelled", words + _because(job.cancel_reason or why))
    else:
        words = say("expired at %(at)s: it was not started in time", at=when)
        yield _reason("expired", words)
    letters = DeadLetter.objects.using(sql.alias()).filter(job_id=job.id, state="open")
    if ids := tuple(str(pk) for pk in letters.values_list("pk", flat=True)):
        words = say("its dead letter waits for somebody's decision")
        yield _reason("dead_letter", words, ids=ids)
    doubts = Effect.objects.using(sql.alias()).filter(job_id=job.id, state="in_doubt")
    if ids := tuple(str(pk) for pk in doubts.values_list("pk", flat=True)[:SHOWN]):
        words = say("nobody knows whether its effects happened: somebody has to decide")
        yield _reason("in_doubt", words, ids=ids)
    if job.replayed_by is not None:
        words = say("was replayed as job %(id)s", id=job.replayed_by)
        yield _reason("replayed", words, ids=(str(job.replayed_by),))


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"
