"""The testing kit: run jobs inside a test, look at what was enqueued, stop the clock, plan faults.

::

    def test_an_order_sends_a_mail(db):
        place_order(customer)
        assert_enqueued(SendEmail, to=customer.email)
        assert run_jobs().succeeded == 1

Everything here uses the real tables, statements and triggers, in the calling thread and on its
connection; it works inside a test's transaction as well as without one. Only Redis, processes and
timeouts are left out.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NoReturn
from uuid import UUID

import psycopg
from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction

from jobs import keyring, registry, sensitive
from jobs.backoff import Duration, seconds
from jobs.context import Context, JobFence, Signal
from jobs.engine import (
    claims,
    dispatch,
    endings,
    feed,
    leases,
    outbox,
    reconcile,
    runner,
    settler,
    sql,
)
from jobs.engine.claims import Claim
from jobs.engine.intake import enqueue
from jobs.errors import JobsError
from jobs.events import Event
from jobs.ids import uuid7
from jobs.models import Job
from jobs.operate.doctor import violations
from jobs.outcomes import Fault, decide
from jobs.payloads import Payload
from jobs.registry import Handler
from jobs.states import JobState

__all__ = [
    "Clock",
    "Run",
    "Summary",
    "assert_enqueued",
    "assert_not_enqueued",
    "check_handler",
    "emitted",
    "enqueued",
    "fail_next",
    "freeze_clock",
    "lose_at_fence",
    "run_jobs",
    "violations",
]

_WORKER = "inline"


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One attempt that ``run_jobs`` made."""

    job_id: UUID
    kind: str
    attempt: int
    state: JobState
    """Where the attempt left the job."""
    error: str


@dataclasses.dataclass(frozen=True, slots=True)
class Summary:
    """The attempts that ``run_jobs`` made, in their order."""

    runs: tuple[Run, ...]

    @property
    def succeeded(self) -> int:
        return self._count(JobState.SUCCEEDED)

    @property
    def failed(self) -> int:
        """Jobs that were given up; attempts with a retry ahead are in ``waiting``."""
        return self._count(JobState.FAILED)

    @property
    def waiting(self) -> int:
        """Attempts after which the job waits for another: failed, snoozed or handed back."""
        return self._count(JobState.PENDING)

    @property
    def errors(self) -> list[str]:
        """What was raised, as it is stored on the jobs."""
        return [run.error for run in self.runs if run.error]

    def __len__(self) -> int:
        return len(self.runs)

    def _count(self, state: JobState) -> int:
        return sum(run.state is state for run in self.runs)


def run_jobs(queues: Sequence[str] | None = None, limit: int = 1000) -> Summary:
    """Everything that is due has run, and what it enqueued, too; answers what was run.

    Jobs whose time has not come stay (see ``freeze_clock``). Code that asked to hear of jobs that
    ended without success (``jobs.ended``) has been told. Inside a transaction each handler has a
    savepoint: what it wrote stays unless it broke the transaction. Raises an AssertionError
    when there is still something due after ``limit`` attempts.
    """
    runs: list[Run] = []
    teller = endings.Teller(raises=True)
    with _executor() as owner:
        while (claimed := _next(queues, owner)) or teller.run():
            if claimed is None:
                continue
            if len(runs) >= limit:
                raise AssertionError(f"after {limit} attempts there are still jobs due")
            runs.append(_run(claimed))
    return Summary(tuple(runs))


def enqueued(payload: type[Payload], /, **fields: Any) -> list[Job]:
    """The jobs of this kind whose payload has these fields, in the order of their enqueue."""
    if unknown := sorted(set(fields) - set(payload.model_fields)):
        near = difflib.get_close_matches(unknown[0], payload.model_fields, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"{payload.__qualname__} has no field {unknown[0]!r}{hint}")
    names = [payload.kind, *payload.aliases]
    found = Job.objects.using(sql.alias()).filter(kind__in=names).order_by("created_at", "id")
    return [job for job in found if _has(payload, job, fields)]


def emitted(*topics: str) -> list[Event]:
    """Return the published events of these topics (globs; all without any), oldest first.

    They are relayed on the spot, and their subscribers told.
    """
    while outbox.relay_once().moved:
        pass
    found: list[Event] = []
    page = feed.feed(topics=topics or None)
    found += page
    while not page.is_end:
        page = feed.feed(page.position, topics=topics or None)
        found += page
    return found


def assert_enqueued(payload: type[Payload], /, **fields: Any) -> Job:
    """Some job of this kind has these fields; answers the newest."""
    found = enqueued(payload, **fields)
    if not found:
        others = [job.payload for job in enqueued(payload)]
        raise AssertionError(
            f"no {payload.kind} with {fields} was enqueued; "
            + (f"there are {others[:10]}" if others else "there is none at all")
        )
    return found[-1]


def assert_not_enqueued(payload: type[Payload], /, **fields: Any) -> None:
    """No job of this kind has these fields."""
    if found := enqueued(payload, **fields):
        raise AssertionError(f"{payload.kind} was enqueued: {[job.payload for job in found[:10]]}")


class Clock:
    """The stopped clock of the jobs, as seen by this thread's database connection."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def tick(self, delta: Duration) -> datetime:
        """The clock shows so much later; answers what it shows."""
        self.now += timedelta(seconds=seconds(delta))
        _set_clock(self.now.isoformat())
        return self.now


@contextmanager
def freeze_clock(moment: datetime | None = None) -> Iterator[Clock]:
    """The clock of the jobs stands still at the moment, or at the present one."""
    if moment is not None and moment.utcoffset() is None:
        raise ValueError("freeze_clock: the moment needs a time zone")
    [(before, present)] = sql.rows(
        "SELECT coalesce(current_setting('jobs.now', true), ''), jobs_clock()"
    )
    clock = Clock(moment or present)
    clock.tick(0)
    try:
        yield clock
    finally:
        # In a transaction that is broken, its rollback takes the setting back.
        if not _is_broken():
            _set_clock(before)


@contextmanager
def fail_next(payload: type[Payload], error: BaseException, times: int = 1) -> Iterator[None]:
    """The next runs of the kind raise the error instead of calling its handler.

    Raises an AssertionError at the end of the block when they were not run that often.
    """
    handler = registry.get(payload.kind)
    left = times

    def failing(*arguments: Any) -> Any:
        nonlocal left
        if left > 0:
            left -= 1
            raise error
        return handler.function(*arguments)  # of an async handler, its coroutine

    with _in_place_of(handler, dataclasses.replace(handler, function=failing)):
        yield
    if left:
        raise AssertionError(f"{left} of {times} planned failures of {handler.kind} did not happen")


@contextmanager
def lose_at_fence(payload: type[Payload], times: int = 1) -> Iterator[None]:
    """The next fences of the kind find that the job was given to another attempt.

    ``ctx.fence()`` raises ``StaleClaim`` there, as in a worker that was frozen for too long, and
    the job is run again. Raises an AssertionError at the end of the block when its handler did not
    call the fence that often.
    """
    handler = registry.get(payload.kind)
    left = times

    def losing(context: Context, given: Any) -> Any:
        nonlocal left
        if left > 0:
            context._fence = _Lost(context._fence, noticed)
        return handler.function(context, given)  # of an async handler, its coroutine

    def noticed() -> None:
        nonlocal left
        left -= 1

    with _in_place_of(handler, dataclasses.replace(handler, function=losing)):
        yield
    if left:
        raise AssertionError(f"{left} of {times} planned losses of {handler.kind} met no fence")


def check_handler(payload: Payload) -> Any:
    """The payload's handler keeps its contract; answers its result.

    The payload survives its way through JSON, the handler succeeds, and it succeeds with the
    same result once more when the first attempt's completion was lost (unless its kind is never
    run again after a loss). Due jobs of other kinds are left alone.
    """
    handler = registry.get(payload.kind)
    again = _through_json(payload)
    if again != payload:
        raise AssertionError(f"{payload.kind}: the payload comes back from JSON as {again!r}")
    job_id = enqueue(payload, queue=f"check.{uuid7()}").id
    first = _lose(job_id) if handler.on_lost == "rerun" and not handler.atomic else None
    with _executor() as owner:
        run = _run(_claim(job_id, owner))
    job = Job.objects.using(sql.alias()).get(id=job_id)
    if run.state is not JobState.SUCCEEDED:
        raise AssertionError(f"{payload.kind}: {'the repeat ' if first else ''}ended {run}")
    if first is not None and first != job.result:
        raise AssertionError(f"{payload.kind}: the repeat gave {job.result!r} instead of {first!r}")
    return job.result


# ---- running


class _Lost:
    """The fence of an attempt that has lost its job."""

    def __init__(self, fence: JobFence, noticed: Callable[[], None]) -> None:
        self._fence, self._noticed = fence, noticed

    def hold(self) -> None:
        self._fence.hold()  # what it refuses is refused here, too
        self._noticed()
        self._fence.refuse()

    async def hold_async(self) -> None:
        await sync_to_async(self.hold, thread_sensitive=True)()

    def refuse(self) -> NoReturn:
        self._fence.refuse()


@contextmanager
def _executor() -> Iterator[UUID]:
    """An executor that lives as long as the block."""
    owner = uuid7()
    leases.open_lease(owner, _WORKER, [], 1)
    try:
        yield owner
    finally:
        if not _is_broken():
            leases.bury(owner, _WORKER, {}, "the test's executor ended")


_QUEUED = """
SELECT queue, id FROM jobs_job WHERE state = 'queued' AND queue = ANY(%s)
  AND cancel_requested_at IS NULL AND run_at <= jobs_clock() ORDER BY queued_at, rank, id LIMIT 1
"""


def _next(queues: Sequence[str] | None, owner: UUID) -> Claim | None:
    """The next job that is due, claimed."""
    reconcile.expire(_WORKER)
    dispatch.promote()
    names = _waiting_queues() if queues is None else list(queues)
    found = sql.rows(_QUEUED, [names])
    if not found:
        dispatch.know_queues(set(names))
        for name in names:
            dispatch.admit(name, 1)
        found = sql.rows(_QUEUED, [names])
    if not found:
        return None
    queue, job_id = found[0]
    claimed = claims.claim(queue, [job_id], owner, _WORKER)
    return claimed[0] if claimed else None


def _waiting_queues() -> list[str]:
    waiting = sql.rows("SELECT DISTINCT queue FROM jobs_job WHERE state IN ('pending', 'queued')")
    return sorted(name for (name,) in waiting)


def _claim(job_id: UUID, owner: UUID) -> Claim:
    [(queue,)] = sql.rows("SELECT queue FROM jobs_job WHERE id = %s", [job_id])
    claimed = _next([queue], owner)
    if claimed is None:
        raise AssertionError(f"job {job_id} is not to be had")
    return claimed


def _run(claim: Claim) -> Run:
    outcome = _call(claim)
    if outcome is None and _is_held(claim):  # only ``lose_at_fence`` leaves it like this
        outcome = _lost(claim, "it was given away at its fence, as planned by the test")
    if outcome is not None:
        settler.write([outcome], _WORKER)
    [(state, error)] = sql.rows("SELECT state, error FROM jobs_job WHERE id = %s", [claim.id])
    return Run(claim.id, claim.kind, claim.attempt, JobState(state), error)


_savepoint = getattr(transaction, "savepoint_create", transaction.savepoint)
"""Under its name of today; Django 5.2 knows the old one only."""


def _call(claim: Claim) -> runner.Result:
    """How the attempt ended; the surrounding transaction, if any, can go on."""
    alias = sql.alias()
    if not sql.connection().in_atomic_block:
        return runner.run(claim, Signal(str), _await, _WORKER)
    # Not an atomic block: handlers may ask whether they are in a transaction of somebody's.
    savepoint = _savepoint(using=alias)
    outcome = runner.run(claim, Signal(str), _await, _WORKER)
    if _is_broken():
        transaction.set_rollback(False, using=alias)
        transaction.savepoint_rollback(savepoint, using=alias)
    else:
        transaction.savepoint_commit(savepoint, using=alias)
    return outcome


def _await(coroutine: Any, _signal: Signal) -> Any:
    # async_to_sync brings the coroutine's database work back to this thread, where the test's
    # transaction is.
    async def wait() -> Any:
        return await coroutine

    return async_to_sync(wait)()


def _lose(job_id: UUID) -> Any:
    """The result of an attempt whose completion nobody heard of."""
    with _executor() as owner:
        claim = _claim(job_id, owner)
        outcome = _call(claim)
        if not isinstance(outcome, claims.Success):
            raise AssertionError(f"{claim.kind}: the first attempt ended {outcome}")
        settler.write([_lost(claim, "as planned by the test")], _WORKER)
    return json.loads(outcome.result)


def _lost(claim: Claim, why: str) -> claims.Ended:
    move = decide("lost", claim.counters, registry.find(claim.kind))
    return claims.Ended(claim.id, claim.token, claim.kind, move, Fault("ExecutorLost", why))


def _is_held(claim: Claim) -> bool:
    held = "SELECT 1 FROM jobs_job WHERE id = %s AND token = %s AND state = 'running'"
    return bool(sql.rows(held, [claim.id, claim.token]))


# ---- small parts


def _through_json(payload: Payload) -> Payload:
    """The payload as it comes back from the row of some job."""
    if not payload.__sensitive__:
        return type(payload).from_text(payload.to_text(16 * 1024 * 1024), payload.version)
    place = keyring.job_place(uuid7(), "")
    text = payload.to_text(16 * 1024 * 1024, place)
    return type(payload).from_text(text, payload.version, place)


def _has(payload: type[Payload], job: Job, fields: dict[str, Any]) -> bool:
    if not fields:
        return True
    [(text,)] = sql.rows("SELECT payload::text FROM jobs_job WHERE id = %s", [job.id])
    try:
        place = sensitive.place_of(text, job.id, job.tenant)
        stored = payload.from_text(text, job.payload_version, place)
    except JobsError:
        return False
    return all(getattr(stored, name) == value for name, value in fields.items())


def _set_clock(text: str) -> None:
    sql.rows("SELECT set_config('jobs.now', %s, false)", [text])


def _is_broken() -> bool:
    """Whether the surrounding transaction takes no further statement."""
    conn = sql.connection()
    raw = conn.connection
    in_error = psycopg.pq.TransactionStatus.INERROR
    return bool(conn.needs_rollback or (raw and raw.info.transaction_status == in_error))


@contextmanager
def _in_place_of(handler: Handler, other: Handler) -> Iterator[None]:
    names = [handler.kind, *handler.payload.aliases]
    for name in names:
        registry._by_name[name] = other
    try:
        yield
    finally:
        for name in names:
            registry._by_name[name] = handler
