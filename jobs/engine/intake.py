"""Intake: a job enters, in the caller's transaction, or a clear error says why not."""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from jobs import conf, registry
from jobs.engine import rq, sql
from jobs.errors import DuplicateJob, InvalidOption, InvalidPayload
from jobs.ids import uuid7
from jobs.names import label_problem, name_problem
from jobs.payloads import Payload
from jobs.retry import Duration, seconds
from jobs.states import JobState

log = logging.getLogger("jobs.intake")

PRIORITY_STEP_MS = 3000
"""One step of priority weighs as much as this long a wait."""
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
LONGEST_DELAY = timedelta(days=3660).total_seconds()
TAG_LIMIT = 20
_OPEN_FOR = 0.25
"""Seconds for which the answer "this queue is open" is believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A job that is not enqueued yet: a payload and the options of ``enqueue``."""

    payload: Payload = field(kw_only=False)
    job_id: UUID | None = None
    queue: str | None = None
    priority: int = 0
    delay: Duration | None = None
    run_at: datetime | None = None
    expires: Duration | datetime | None = None
    max_attempts: int | None = None
    timeout: Duration | None = None
    tenant: str = ""
    tags: Sequence[str] = ()
    correlation_id: str = ""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of an enqueue."""

    id: UUID
    kind: str
    queue: str
    state: JobState


def enqueue(
    payload: Payload,
    *,
    job_id: UUID | None = None,
    queue: str | None = None,
    priority: int = 0,
    delay: Duration | None = None,
    run_at: datetime | None = None,
    expires: Duration | datetime | None = None,
    max_attempts: int | None = None,
    timeout: Duration | None = None,
    tenant: str = "",
    tags: Sequence[str] = (),
    correlation_id: str = "",
) -> Enqueued:
    """The job exists when the surrounding transaction commits, and never when it rolls back.

    ``delay`` or ``run_at`` holds it back; ``priority`` from -100 to 100, higher runs sooner;
    ``expires`` (a duration from now, or a moment) ends it unrun. Raises an EnqueueError before
    anything is written.
    """
    entry = _entry(
        Draft(
            payload,
            job_id=job_id,
            queue=queue,
            priority=priority,
            delay=delay,
            run_at=run_at,
            expires=expires,
            max_attempts=max_attempts,
            timeout=timeout,
            tenant=tenant,
            tags=tags,
            correlation_id=correlation_id,
        )
    )
    born_queued = entry.due_now and not entry.has_rules and _open_queues.is_open(entry.queue)
    state = JobState.QUEUED if born_queued else JobState.PENDING
    if sql.call("jobs_enqueue", entry.arguments(state)) != b"t":
        raise DuplicateJob(entry.id)
    if born_queued:
        _after_commit(entry.queue, entry.id, entry.timeout)
    elif entry.is_soon:
        _after_commit(None)
    return Enqueued(entry.id, entry.kind, entry.queue, state)


def enqueue_many(drafts: Iterable[Payload | Draft]) -> list[UUID]:
    """All the jobs exist when the surrounding transaction commits, or none; answers their ids.

    Every draft is validated before the first row is written.
    """
    entries = [_entry(d if isinstance(d, Draft) else Draft(d)) for d in drafts]
    if not entries:
        return []
    _refuse_repeated_ids(entries)
    [(now,)] = sql.rows("SELECT jobs_clock()")
    try:
        with transaction.atomic(using=sql.alias()):
            _refuse_known_ids(entries)
            _copy(entries, now)
    except IntegrityError:
        _refuse_known_ids(entries)  # somebody took one of the ids in the meantime
        raise
    if any(entry.is_soon for entry in entries):
        _after_commit(None)
    return [entry.id for entry in entries]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A validated draft, in the shape of its row."""

    id: UUID
    kind: str
    queue: str
    priority: int
    text: str
    version: int
    tenant: str
    tags: list[str]
    delay: float
    run_at: datetime | None
    expires_in: float | None
    expires_at: datetime | None
    max_attempts: int
    timeout: float
    lease: float
    correlation_id: str
    has_rules: bool
    chosen_id: bool

    @property
    def due_now(self) -> bool:
        return self.run_at is None and self.delay == 0

    @property
    def is_soon(self) -> bool:
        """Whether an idle dispatcher would come too late by itself."""
        return self.run_at is not None or self.delay < conf.settings().TICK

    def arguments(self, state: JobState) -> tuple[Any, ...]:
        return (
            self.id,
            self.kind,
            self.queue,
            state.value,
            self.priority,
            self.text,
            self.version,
            self.tenant,
            _array(self.tags),
            self.run_at,
            self.delay,
            PRIORITY_STEP_MS,
            self.expires_at,
            self.expires_in,
            self.max_attempts,
            self.timeout,
            self.lease,
            self.correlation_id,
        )


def _array(tags: list[str]) -> str:
    """The tags as PostgreSQL writes an array."""
    quoted = (tag.replace("\\", "\\\\").replace('"', '\\"') for tag in tags)
    return "{" + ",".join(f'"{tag}"' for tag in quoted) + "}"


_COPY_COLUMNS = (
    "id, kind, queue, state, priority, payload, payload_version, tenant, tags, lane, created_at, "
    "run_at, rank, wait, expires_at, max_attempts, timeout, lease, correlation_id"
)


def _copy(entries: list[_Entry], now: datetime) -> None:
    conn = sql.connection()
    with conn.wrap_database_errors, conn.connection.cursor() as cursor:
        statement = f"COPY jobs_job ({_COPY_COLUMNS}) FROM STDIN"
        with cursor.copy(statement) as copy:
            line = _copy_line(now)
            for start in range(0, len(entries), 500):
                copy.write("".join(map(line, entries[start : start + 500])))


def _copy_line(now: datetime) -> Callable[[_Entry], str]:
    """Makes the COPY line of an entry; parts that thousands of lines share are made once."""
    created = now.isoformat()
    now_ms = int(now.timestamp() * 1000)

    @functools.lru_cache(maxsize=256)
    def escaped(text: str) -> str:
        return (
            text.replace("\\", "\\\\")
            .replace("\t", "\\t")
            .replace("\n", "\\n")
            .replace("\r", "\\r")
        )

    def line(e: _Entry) -> str:
        at, at_ms, wait = created, now_ms, 0
        if not e.due_now:
            moment = e.run_at or now + timedelta(seconds=e.delay)
            at, at_ms, wait = moment.isoformat(), int(moment.timestamp() * 1000), moment > now
        expires = "\\N"
        if e.expires_at is not None:
            expires = e.expires_at.isoformat()
        elif e.expires_in is not None:
            expires = (now + timedelta(seconds=e.expires_in)).isoformat()
        # JSON text has no raw control characters: only backslashes need escaping.
        text = e.text.replace("\\", "\\\\") if "\\" in e.text else e.text
        tenant = escaped(e.tenant)
        return (
            f"{e.id}\t{e.kind}\t{e.queue}\tpending\t{e.priority}\t{text}\t{e.version}\t{tenant}\t"
            f"{escaped(_array(e.tags)) if e.tags else '{}'}\t{e.kind}|{tenant}\t{created}\t{at}\t"
            f"{at_ms - e.priority * PRIORITY_STEP_MS}\t{int(wait)}\t{expires}\t{e.max_attempts}\t"
            f"{e.timeout}\t{e.lease}\t{escaped(e.correlation_id)}\n"
        )

    return line


def _refuse_repeated_ids(entries: list[_Entry]) -> None:
    if len({entry.id for entry in entries}) != len(entries):
        seen: set[UUID] = set()
        for entry in entries:
            if entry.id in seen:
                raise DuplicateJob(entry.id)
            seen.add(entry.id)


def _refuse_known_ids(entries: list[_Entry]) -> None:
    """COPY knows no ON CONFLICT; only ids that the caller chose can be taken."""
    chosen = [entry.id for entry in entries if entry.chosen_id]
    if not chosen:
        return
    known = sql.bound_rows("SELECT id FROM jobs_job WHERE id = ANY(%s) LIMIT 1", [chosen])
    if known:
        raise DuplicateJob(known[0][0])


def _entry(draft: Draft) -> _Entry:
    payload = draft.payload
    if not isinstance(payload, Payload):
        raise InvalidPayload(
            type(payload).__name__, "payload", "must be an instance of a jobs.Payload subclass"
        )
    handler = registry.find(payload.kind) or registry.get(payload.kind)
    if type(payload) is not handler.payload:
        _check_class(payload, handler)
    queue = handler.queue if draft.queue is None else draft.queue
    if draft.queue is not None and (problem := name_problem(queue)):
        raise InvalidOption("queue", problem)
    if type(draft.priority) is not int or draft.priority:
        _check_priority(draft.priority)
    if draft.tenant != "" and (problem := label_problem(draft.tenant)):
        raise InvalidOption("tenant", problem)
    if draft.tags != ():
        _check_tags(draft.tags)
    if draft.correlation_id != "" and (problem := label_problem(draft.correlation_id, 200)):
        raise InvalidOption("correlation_id", problem)
    delay, run_at = _start(draft)
    expires_in, expires_at = _end(draft, handler.expires)
    return _Entry(
        id=uuid7() if draft.job_id is None else _checked_id(draft.job_id),
        kind=handler.kind,
        queue=queue,
        priority=draft.priority,
        text=payload.to_text(conf.settings().PAYLOAD_LIMIT),
        version=payload.version,
        tenant=draft.tenant,
        tags=list(draft.tags),
        delay=delay,
        run_at=run_at,
        expires_in=expires_in,
        expires_at=expires_at,
        max_attempts=_max_attempts(draft.max_attempts, handler.max_attempts),
        timeout=handler.timeout if draft.timeout is None else _timeout(draft.timeout, handler),
        lease=handler.lease,
        correlation_id=draft.correlation_id,
        has_rules=handler.has_admission_rules,
        chosen_id=draft.job_id is not None,
    )


def _check_class(payload: Payload, handler: registry.Handler) -> None:
    """By name, because a module may have been loaded anew since the payload was made."""
    given, taken = type(payload), handler.payload
    if (given.__module__, given.__qualname__) != (taken.__module__, taken.__qualname__):
        raise InvalidPayload(
            payload.kind,
            "payload",
            f"is a {given.__qualname__}, but the handler of this kind takes {taken.__qualname__}",
        )


def _checked_id(job_id: object) -> UUID:
    if not isinstance(job_id, UUID):
        raise InvalidOption("job_id", f"must be a UUID, got {type(job_id).__name__}")
    return job_id


def _check_priority(priority: object) -> None:
    if not isinstance(priority, int) or isinstance(priority, bool) or not -100 <= priority <= 100:
        raise InvalidOption(
            "priority", f"must be a whole number from -100 to 100, got {priority!r}"
        )


def _check_tags(tags: Sequence[str]) -> None:
    if not isinstance(tags, list | tuple | set | frozenset) or len(tags) > TAG_LIMIT:
        raise InvalidOption("tags", f"must be a list of at most {TAG_LIMIT} texts")
    for tag in tags:
        if problem := label_problem(tag, 60):
            raise InvalidOption("tags", problem)


def _start(draft: Draft) -> tuple[float, datetime | None]:
    if draft.delay is None and draft.run_at is None:
        return 0.0, None
    if draft.delay is not None and draft.run_at is not None:
        raise InvalidOption("delay", "give either delay or run_at, not both")
    if draft.delay is not None:
        return _duration("delay", draft.delay, 0.0), None
    assert draft.run_at is not None  # noqa: S101 - the two lines above leave nothing else
    return 0.0, _moment("run_at", draft.run_at)


def _end(draft: Draft, default: float | None) -> tuple[float | None, datetime | None]:
    if draft.expires is None:
        return default, None
    if isinstance(draft.expires, datetime):
        return None, _moment("expires", draft.expires)
    return _duration("expires", draft.expires, 0.001), None


def _moment(option: str, moment: object) -> datetime:
    if not isinstance(moment, datetime):
        raise InvalidOption(option, f"must be a datetime, got {type(moment).__name__}")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidOption(option, "is a naive datetime; give it a time zone")
    if not EARLIEST <= moment <= LATEST:
        raise InvalidOption(
            option, f"must lie between the years {EARLIEST.year} and {LATEST.year}, got {moment}"
        )
    return moment


def _duration(option: str, value: object, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise InvalidOption(option, f"must be seconds or a timedelta, got {value!r}")
    length = seconds(value)
    if not math.isfinite(length) or length < least:
        raise InvalidOption(option, f"must be at least {least:g} s, got {length:g}")
    if length > LONGEST_DELAY:
        raise InvalidOption(option, "is longer than ten years")
    return length


def _max_attempts(value: object, default: int) -> int:
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1000:
        raise InvalidOption("max_attempts", f"must be a whole number from 1 to 1000, got {value!r}")
    return value


def _timeout(value: object, handler: registry.Handler) -> float:
    timeout = _duration("timeout", value, 0.01)
    if handler.atomic and timeout > registry.ATOMIC_TIMEOUT_LIMIT:
        raise InvalidOption(
            "timeout",
            f"is longer than the {registry.ATOMIC_TIMEOUT_LIMIT:g} s of an atomic handler",
        )
    return timeout


class _OpenQueues:
    """Remembers for a moment which queues let due jobs be born queued."""

    def __init__(self) -> None:
        self._believed: dict[str, tuple[float, bool]] = {}

    def is_open(self, queue: str) -> bool:
        if not conf.settings().BORN_QUEUED:
            return False
        until, answer = self._believed.get(queue, (0.0, False))
        now = time.monotonic()
        if now < until:
            return answer
        try:
            answer = rq.is_open(queue)
        except rq.Unavailable:
            answer = False
        self._believed[queue] = (now + _OPEN_FOR, answer)
        return answer

    def close(self, queue: str) -> None:
        """For a moment, jobs of the queue go the way of the dispatcher."""
        self._believed[queue] = (time.monotonic() + _OPEN_FOR, False)


_open_queues = _OpenQueues()
_FULL = 200
"""Length of a list beyond which new jobs wait in PostgreSQL instead."""


class _Outgoing:
    """The pushes of one transaction, done together after its commit."""

    def __init__(self) -> None:
        self._ids: dict[str, list[tuple[UUID, float]]] = {}
        self._nudges = False

    def push(self, queue: str, job_id: UUID, timeout: float) -> None:
        self._ids.setdefault(queue, []).append((job_id, timeout))

    def nudge(self) -> None:
        self._nudges = True

    def __call__(self) -> None:
        # The rows are committed: whatever fails here costs delay, never a job, and is nobody's
        # business in the caller's request.
        try:
            for queue, ids in self._ids.items():
                length, _ = rq.push(queue, ids, impatient=True)
                if length > _FULL:
                    _open_queues.close(queue)
            if self._nudges:
                rq.nudge()
        except rq.Unavailable as error:
            for queue in self._ids:
                _open_queues.close(queue)
            log.warning("push after commit failed, the dispatcher will repeat it: %s", error)


def _after_commit(queue: str | None, job_id: UUID | None = None, timeout: float = 0.0) -> None:
    """Once the transaction has committed, the id is pushed or, without a queue, a nudge is sent."""
    conn = sql.connection()
    outgoing = _riding(conn)
    found = outgoing is not None
    outgoing = outgoing or _Outgoing()
    if queue is None or job_id is None:
        outgoing.nudge()
    else:
        outgoing.push(queue, job_id, timeout)
    if not found:
        # In autocommit this runs at once, so it must be complete by now.
        transaction.on_commit(outgoing, using=conn.alias, robust=True)


def _riding(conn: Any) -> _Outgoing | None:
    """The transaction's callback, where it is the newest one and of the same savepoints.

    A callback of a savepoint that rolls back is dropped by Django, so what belongs to other
    savepoints must not ride on it.
    """
    if not conn.in_atomic_block or not conn.run_on_commit:
        return None
    savepoints, callback, *_ = conn.run_on_commit[-1]
    if isinstance(callback, _Outgoing) and savepoints == set(conn.savepoint_ids):
        return callback
    return None
