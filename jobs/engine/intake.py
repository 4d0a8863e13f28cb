"""Intake: a job enters, in the caller's transaction, or a clear error says why not."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Unpack
from uuid import UUID

from django.db import IntegrityError, transaction

from jobs import tracing
from jobs.engine import bulk, finds, keys, outbox, parents, sql
from jobs.engine.calls import call
from jobs.engine.drafts import Draft, Entry, Options, entry
from jobs.engine.flow import PRIORITY_STEP_MS, Flow
from jobs.engine.pushes import after_commit, open_queues
from jobs.errors import DuplicateJob, InvalidOption
from jobs.events import Message
from jobs.payloads import Payload
from jobs.states import JobState

__all__ = ["Draft", "Enqueued", "enqueue", "enqueue_many"]

log = logging.getLogger("jobs.intake")


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of an enqueue; ``deduplicated`` when ``id`` is an earlier job with the key."""

    id: UUID
    kind: str
    queue: str
    state: JobState | None
    """None for an earlier job, whose state may change at any moment."""
    deduplicated: bool = False
    gone: bool = False
    """Whether that earlier job has been deleted since; only keys that outlive their job do so."""


def enqueue(payload: Payload, **options: Unpack[Options]) -> Enqueued:
    """The job exists when the surrounding transaction commits, and never when it rolls back.

    See ``Options`` for what may be said of it. Raises an EnqueueError before anything is written.
    """
    made = entry(Draft(payload, **options))
    if not tracing.carries():
        return _enqueue(made)
    with (
        tracing.span("jobs enqueue", "PRODUCER", kind=made.kind, job=made.id),
        transaction.atomic(using=sql.alias()),
    ):
        entered = _enqueue(made)
        _trace([] if entered.deduplicated else [entered.id])
    return entered


def _enqueue(made: Entry) -> Enqueued:
    if made.after or made.batch is not None or made.unique is not None:
        return _enter(made)
    born_queued = (
        made.due_now
        and not made.has_rules
        and not made.flow & ~(Flow.EMITS | Flow.EXPIRES_WAITING)
        and open_queues.is_open(made.queue)
    )
    state = JobState.QUEUED if born_queued else JobState.PENDING
    if not _insert(made, state):
        raise DuplicateJob(made.id)
    _announce(made, state)
    return Enqueued(made.id, made.kind, made.queue, state)


def enqueue_many(drafts: Iterable[Payload | Draft]) -> list[UUID]:
    """All the jobs exist when the surrounding transaction commits, or none; answers their ids.

    Every draft is validated before the first row is written. Where a draft has a unique key that
    is taken, its place in the answer has the id of the job that has it, or had it and is gone.
    """
    entries = [entry(d if isinstance(d, Draft) else Draft(d)) for d in drafts]
    return enter_many(entries)


def enter_many(entries: list[Entry]) -> list[UUID]:
    """The same for drafts that are validated already."""
    if not entries:
        return []
    _refuse_repeated_ids(entries)
    try:
        with transaction.atomic(using=sql.alias()):
            _refuse_known_ids([e for e in entries if e.unique is None])
            _hold_batches({e.batch for e in entries if e.batch is not None})
            taken = _enter_many(entries)
            if tracing.carries():
                _trace([e.id for e in entries if e.id not in taken])
    except IntegrityError:
        _refuse_known_ids(entries)  # somebody took one of the ids in the meantime
        raise
    if any(e.is_soon for e in entries):
        after_commit(None)
    return [taken.get(e.id, e.id) for e in entries]


def enter(draft: Draft) -> Enqueued:
    """The draft, enqueued with all that it says, never born queued."""
    return _enter(entry(draft))


def _enter(made: Entry) -> Enqueued:
    """One job with a key, a batch or parents; all that it needs commits with it."""
    with transaction.atomic(using=sql.alias()):
        if made.batch is not None:
            _hold_batches({made.batch})
        state, existing = _link_and_insert(made)
        is_gone = existing is not None and made.unique_is_kept and not keys.is_there(existing)
        if existing is not None:
            outbox.write(_deduplicated(made, existing))
    if existing is not None:
        what = "which is gone, had" if is_gone else "has"
        log.info("job %s %s the key %s already", existing, what, made.unique and made.unique.key)
        return Enqueued(existing, made.kind, made.queue, None, deduplicated=True, gone=is_gone)
    _announce(made, state)
    return Enqueued(made.id, made.kind, made.queue, state)


def _trace(ids: list[UUID]) -> None:
    """The jobs, which are new, belong to the active span, if there is one."""
    if ids and (context := tracing.carrier()):
        sql.run("UPDATE jobs_job SET trace_context = %s WHERE id = ANY(%s)", [context, sorted(ids)])


def _enter_many(entries: list[Entry]) -> dict[UUID, UUID]:
    """Plain jobs by COPY, the others one by one; answers which ids stand for earlier jobs."""
    [(now,)] = sql.rows("SELECT jobs_clock()")
    plain = [e for e in entries if not e.after and e.unique is None]
    bulk.copy(plain, now)
    finds.write(plain)
    keyed = [e for e in entries if not e.after and e.unique is not None]
    taken, careful = keys.admit_many(keyed, now) if keyed else ({}, [])
    careful += [e for e in entries if e.after]
    # Everybody takes keys in the same order, so that two bulks cannot wait for each other.
    careful.sort(key=_place)
    for made in parents.members_in_order(careful):
        made.after = [taken.get(parent, parent) for parent in made.after]
        _, existing = _link_and_insert(made)
        if existing is not None:
            taken[made.id] = existing
    if taken:
        outbox.write_many(_deduplicated(e, taken[e.id]) for e in entries if e.id in taken)
    return taken


def _deduplicated(made: Entry, existing: UUID) -> Message:
    """An earlier job stands for this one: a caller that looks for its id learns so."""
    payload = {"job": existing, "instead_of": made.id, "kind": made.kind, "queue": made.queue}
    key = f"job:{existing}"
    return outbox.core_message("jobs.job.deduplicated", payload, key=key, tenant=made.tenant)


def _place(e: Entry) -> tuple[bool, str, str, str]:
    return (e.unique is not None, e.unique.key if e.unique else "", e.kind, e.tenant)


def _link_and_insert(made: Entry) -> tuple[JobState, UUID | None]:
    states = parents.look(made) if made.after else {}
    waiting = sum(parents.is_open(s, made.on_parent_failure) for s in states.values())
    state = JobState.BLOCKED if waiting else JobState.PENDING

    def insert(e: Entry) -> bool:
        return _insert(e, state, waiting)

    if made.unique is not None:
        existing = keys.admit(made, insert)
        if existing is not None:
            return state, existing
    elif not insert(made):
        raise DuplicateJob(made.id)
    if states:
        parents.link(made, states)
    return state, None


def _insert(e: Entry, state: JobState, open_parents: int = 0) -> bool:
    if not e.searchable:
        return call("jobs_enqueue", _arguments(e, state, open_parents)) == b"t"
    # Whoever asks in autocommit has both rows or none.
    with transaction.atomic(using=sql.alias(), savepoint=False):
        is_new = call("jobs_enqueue", _arguments(e, state, open_parents)) == b"t"
        if is_new:
            finds.write([e])
    return is_new


def _arguments(e: Entry, state: JobState, open_parents: int) -> tuple[Any, ...]:
    return (
        e.id,
        e.kind,
        e.queue,
        state.value,
        e.priority,
        e.text,
        e.version,
        e.tenant,
        bulk.array(e.tags),
        e.run_at,
        e.delay,
        PRIORITY_STEP_MS,
        e.expires_at,
        e.expires_in,
        e.max_attempts,
        e.timeout,
        e.lease,
        e.correlation_id,
        e.flow,
        e.unique_key,
        e.exclusive,
        e.limit_key,
        e.preempts,
        e.preemptible,
        e.batch,
        open_parents,
        e.parent,
    )


def _announce(made: Entry, state: JobState) -> None:
    if state is JobState.QUEUED:
        after_commit(made.queue, made.id)
    elif made.is_soon:
        after_commit(None)


def _hold_batches(batches: set[UUID]) -> None:
    """The batches stay open until the caller commits; others may add to them meanwhile."""
    if not batches:
        return
    found = sql.bound_rows(
        "SELECT id, state FROM jobs_batch WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE",
        [sorted(batches)],
    )
    states: dict[UUID, str] = dict(found)
    for batch in sorted(batches):
        if batch not in states:
            raise InvalidOption("batch", f"there is no batch {batch}")
        if states[batch] != "open":
            raise InvalidOption(
                "batch", f"batch {batch} is {states[batch]}; only an open one grows"
            )


def _refuse_repeated_ids(entries: list[Entry]) -> None:
    if len({e.id for e in entries}) != len(entries):
        seen: set[UUID] = set()
        for e in entries:
            if e.id in seen:
                raise DuplicateJob(e.id)
            seen.add(e.id)


def _refuse_known_ids(entries: list[Entry]) -> None:
    """COPY knows no ON CONFLICT; only ids that the caller chose can be taken."""
    chosen = [e.id for e in entries if e.chosen_id]
    if not chosen:
        return
    known = sql.bound_rows("SELECT id FROM jobs_job WHERE id = ANY(%s) LIMIT 1", [chosen])
    if known:
        raise DuplicateJob(known[0][0])
