"""Drafts: jobs that are not enqueued yet, and their validation before anything is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, TypedDict
from uuid import UUID

from jobs import conf, keyring, logs, queues, registry
from jobs.backoff import Duration, seconds
from jobs.engine.flow import Flow
from jobs.errors import InvalidOption, InvalidPayload
from jobs.ids import uuid7
from jobs.limits import Unique
from jobs.names import label_problem, name_problem
from jobs.payloads import Payload

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
LONGEST_DELAY = timedelta(days=3660).total_seconds()
TAG_LIMIT = 20
PARENT_LIMIT = 1000
OnParentFailure = Literal["cancel", "wait", "run"]


class Options(TypedDict, total=False):
    """What may be said of a job besides its payload."""

    job_id: UUID | None
    """An id of the caller's choice."""
    queue: str | None
    """Another queue than the handler's."""
    priority: int
    """From -100 to 100; a higher number runs sooner."""
    delay: Duration | None
    """Held back so long, or …"""
    run_at: datetime | None
    """… until this moment."""
    expires: Duration | datetime | None
    """Ends unrun after so long, or at this moment."""
    max_attempts: int | None
    timeout: Duration | None
    tenant: str
    """Whose job it is: tenants take turns, and see only their own."""
    tags: Sequence[str]
    correlation_id: str
    unique: Unique | None
    """What counts as the same job, and for how long."""
    exclusive: str
    """A key that at most one queued or running job holds."""
    limit_key: str
    """The key to which the handler's ``per_key`` limit applies."""
    batch: UUID | None
    """The open batch that this job joins."""
    parent: UUID | None
    """The job that made this one; a link, not a dependency."""
    after: Sequence[UUID]
    """Jobs that have to end before."""
    on_parent_failure: OnParentFailure
    """What happens when one of those does not succeed."""


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
    unique: Unique | None = None
    exclusive: str = ""
    limit_key: str = ""
    batch: UUID | None = None
    parent: UUID | None = None
    after: Sequence[UUID] = ()
    on_parent_failure: OnParentFailure = "cancel"


@dataclass(slots=True)
class Entry:
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
    chosen_id: bool
    has_rules: bool
    flow: int
    unique: Unique | None
    exclusive: str | None
    limit_key: str | None
    preempts: bool
    preemptible: bool
    batch: UUID | None
    parent: UUID | None
    after: list[UUID]
    on_parent_failure: OnParentFailure
    searchable: bool

    @property
    def due_now(self) -> bool:
        """Whether it may run as soon as somebody has time for it."""
        return self.run_at is None and self.delay == 0

    @property
    def is_soon(self) -> bool:
        """Whether an idle dispatcher would come too late by itself."""
        return self.run_at is not None or self.delay < conf.settings().TICK

    @property
    def unique_key(self) -> str | None:
        """The key that the row itself holds while it is unfinished."""
        if self.unique is None or self.unique.for_ not in ("unfinished", "ever"):
            return None
        return self.unique.key

    @property
    def unique_is_kept(self) -> bool:
        """Whether the key is held for longer than the row is unfinished."""
        return self.unique is not None and self.unique.for_ not in ("unfinished", "waiting")


def entry(draft: Draft) -> Entry:
    """The draft, validated; raises an EnqueueError that names what is wrong."""
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
        check_priority(draft.priority)
    if draft.tenant != "" and (problem := label_problem(draft.tenant)):
        raise InvalidOption("tenant", problem)
    if draft.tags != ():
        check_tags(draft.tags)
    if draft.correlation_id != "" and (problem := label_problem(draft.correlation_id, 200)):
        raise InvalidOption("correlation_id", problem)
    delay, run_at = _start(draft)
    expires_in, expires_at = _end(draft, handler.expires)
    exclusive = _key("exclusive", draft.exclusive)
    limit_key = _key("limit_key", draft.limit_key)
    if limit_key is not None and handler.per_key is None:
        raise InvalidOption("limit_key", f"the handler of {payload.kind!r} has no per_key limit")
    job_id = uuid7() if draft.job_id is None else _checked_id("job_id", draft.job_id)
    place = keyring.job_place(job_id, draft.tenant) if payload.__sensitive__ else None
    return Entry(
        id=job_id,
        kind=handler.kind,
        queue=queue,
        priority=draft.priority,
        text=payload.to_text(conf.settings().PAYLOAD_LIMIT, place),
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
        correlation_id=draft.correlation_id or logs.request_id(),
        chosen_id=draft.job_id is not None,
        has_rules=handler.has_admission_rules,
        flow=_flow(draft, handler),
        unique=_unique(draft.unique),
        exclusive=exclusive,
        limit_key=limit_key,
        preempts=handler.preempts,
        preemptible=handler.preemptible,
        batch=None if draft.batch is None else _checked_id("batch", draft.batch),
        parent=None if draft.parent is None else _checked_id("parent", draft.parent),
        after=_after(draft),
        on_parent_failure=draft.on_parent_failure,
        searchable=bool(handler.searchable),
    )


def _flow(draft: Draft, handler: registry.Handler) -> int:
    flow = int(Flow.EMITS) if handler.emits else 0
    if handler.expires_unless == "started":
        flow |= Flow.EXPIRES_WAITING
    if draft.exclusive:
        flow |= Flow.EXCLUSIVE
    if draft.limit_key:
        flow |= Flow.KEYED
    if draft.batch is not None:
        flow |= Flow.BATCH
    for limit in (handler.limit, handler.per_key if draft.limit_key else None):
        if limit is not None:
            flow |= Flow.LIMITED if limit.at_once else 0
            flow |= Flow.PACED if limit.rate else 0
    queue_limit = queues.limit(draft.queue or handler.queue)
    if queue_limit is not None:
        flow |= Flow.LIMITED if queue_limit.at_once else 0
        flow |= Flow.PACED if queue_limit.rate else 0
    return int(flow)


def _unique(unique: object) -> Unique | None:
    if unique is not None and not isinstance(unique, Unique):
        raise InvalidOption("unique", f"must be a jobs.Unique, got {type(unique).__name__}")
    return unique


def _key(option: str, key: object) -> str | None:
    if key == "":
        return None
    if problem := label_problem(key, 200):
        raise InvalidOption(option, problem)
    return str(key)


def _after(draft: Draft) -> list[UUID]:
    if draft.on_parent_failure not in ("cancel", "wait", "run"):
        raise InvalidOption(
            "on_parent_failure",
            f"must be 'cancel', 'wait' or 'run', got {draft.on_parent_failure!r}",
        )
    if draft.after == ():
        return []
    if not isinstance(draft.after, list | tuple | set | frozenset):
        raise InvalidOption("after", "must be a list of job ids")
    if len(draft.after) > PARENT_LIMIT:
        raise InvalidOption("after", f"names more than {PARENT_LIMIT} jobs")
    parents = [_checked_id("after", parent) for parent in draft.after]
    if draft.job_id in parents:
        raise InvalidOption("after", "a job cannot wait for itself")
    return list(dict.fromkeys(parents))


def _check_class(payload: Payload, handler: registry.Handler) -> None:
    """By name, because a module may have been loaded again since the payload was made."""
    given, taken = type(payload), handler.payload
    if (given.__module__, given.__qualname__) != (taken.__module__, taken.__qualname__):
        raise InvalidPayload(
            payload.kind,
            "payload",
            f"is a {given.__qualname__}, but the handler of this kind takes {taken.__qualname__}",
        )


def _checked_id(option: str, value: object) -> UUID:
    if not isinstance(value, UUID):
        raise InvalidOption(option, f"must be a UUID, got {type(value).__name__}")
    return value


def check_priority(priority: object) -> None:
    """A priority lies within its range."""
    if not isinstance(priority, int) or isinstance(priority, bool) or not -100 <= priority <= 100:
        raise InvalidOption(
            "priority", f"must be a whole number from -100 to 100, got {priority!r}"
        )


def check_tags(tags: Sequence[str]) -> None:
    """Tags are few short texts."""
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
        delay = checked_duration("delay", draft.delay, 0.0)
        most = draft.unique.at_most if isinstance(draft.unique, Unique) else None
        if most is not None and delay > most.total_seconds():
            raise InvalidOption("delay", f"is longer than at_most of its unique key, {most}")
        return delay, None
    assert draft.run_at is not None  # noqa: S101 - the two lines above leave nothing else
    return 0.0, _moment("run_at", draft.run_at)


def _end(draft: Draft, default: float | None) -> tuple[float | None, datetime | None]:
    if draft.expires is None:
        return default, None
    if isinstance(draft.expires, datetime):
        return None, _moment("expires", draft.expires)
    return checked_duration("expires", draft.expires, 0.001), None


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


def checked_duration(option: str, value: object, least: float) -> float:
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
    timeout = checked_duration("timeout", value, 0.01)
    if handler.atomic and timeout > registry.ATOMIC_TIMEOUT_LIMIT:
        raise InvalidOption(
            "timeout",
            f"is longer than the {registry.ATOMIC_TIMEOUT_LIMIT:g} s of an atomic handler",
        )
    return timeout
