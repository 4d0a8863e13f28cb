"""Every exception that callers of the library may meet.

::

    JobsError
    ├── EnqueueError            nothing was written
    │   ├── UnknownKind         no handler is registered for the kind
    │   ├── InvalidPayload      names the field
    │   ├── InvalidOption       names the option (priority, run_at, queue, …)
    │   ├── DuplicateJob        the chosen id is taken
    │   └── KeyConflict         the unique key is taken by a job with another payload
    ├── HandlerError            a handler was declared wrongly
    ├── NotAllowed              the state of a job or batch does not allow the action
    │   └── KeyTaken            another unfinished job has the unique key
    ├── Denied                  a permission is missing
    ├── Changed                 somebody has changed it since the caller read it
    ├── UnknownTarget           there is no such thing, or none that the caller may see
    │   ├── UnknownJob          no job has this id
    │   └── UnknownBatch        no batch has this id
    ├── EffectError             an effect was used or resolved wrongly
    ├── BreakerError            a circuit breaker was declared or used wrongly
    ├── MeterError              a meter was declared or used wrongly
    ├── MachineError            a machine was declared or used wrongly
    │   ├── IllegalMove         no edge leads from the present state to the wanted one
    │   └── StaleState          the row is in another state than the caller expected
    ├── SealError               a protected value does not open where it stands
    │   └── UnknownKey          the key ring has no key with its id
    ├── StaleClaim              a write came from an attempt that no longer holds the job
    └── ConfigError             the JOBS setting is wrong

What a handler raises to steer its job (``Snooze``, ``Unrecoverable``) lives in ``outcomes``, and
``HttpError``, for calls to other hosts, in ``http``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID


class JobsError(Exception):
    """Base of every error of this library."""

    audit: tuple[Any, ...] = ()
    """The row of the audit about it, for code that rolls back the transaction of that row."""


class ConfigError(JobsError):
    """The JOBS setting is wrong."""


class HandlerError(JobsError):
    """A handler was declared wrongly."""


class SealError(JobsError):
    """A protected value does not open where it stands; never says the value."""


class UnknownKey(SealError):
    """The key ring has no key with the id that the value was sealed with."""

    def __init__(self, key_id: str, place: str) -> None:
        self.key_id = key_id
        super().__init__(f"{place}: sealed with key {key_id!r}, which JOBS['KEYS'] lacks")


class EnqueueError(JobsError):
    """The job was refused and nothing was written."""


class UnknownKind(EnqueueError):
    """No handler is registered for this kind."""

    def __init__(self, kind: str, hint: str = "") -> None:
        self.kind = kind
        super().__init__(f"no handler is registered for kind {kind!r}{hint}")


class InvalidPayload(EnqueueError):
    """The payload cannot be stored or does not fit its declaration."""

    def __init__(self, kind: str, field: str, problem: str) -> None:
        self.kind, self.field, self.problem = kind, field, problem
        super().__init__(f"payload of {kind!r}: {field}: {problem}")


class InvalidOption(EnqueueError):
    """An option of the enqueue call is out of its range."""

    def __init__(self, option: str, problem: str) -> None:
        self.option, self.problem = option, problem
        super().__init__(f"{option}: {problem}")


class DuplicateJob(EnqueueError):
    """A job with the chosen id exists already."""

    def __init__(self, job_id: UUID) -> None:
        self.job_id = job_id
        super().__init__(f"a job with id {job_id} exists already")


class KeyConflict(EnqueueError):
    """The unique key belongs to a job with another payload."""

    def __init__(self, key: str, job_id: UUID) -> None:
        self.key, self.job_id = key, job_id
        super().__init__(f"key {key!r} belongs to job {job_id}, whose payload differs")


class StaleClaim(JobsError):
    """The attempt no longer holds its job; its write was refused and changed nothing."""

    def __init__(self, job_id: UUID, attempt: int) -> None:
        self.job_id, self.attempt = job_id, attempt
        super().__init__(f"attempt {attempt} no longer holds job {job_id}")


class NotAllowed(JobsError):
    """The present state does not allow the action; says which states would."""

    def __init__(
        self, action: str, subject: object, state: object, allowed: Iterable[object]
    ) -> None:
        self.action, self.subject, self.state = action, subject, str(state)
        self.allowed = [str(one) for one in allowed]
        hint = f"; it must be {' or '.join(self.allowed)}" if self.allowed else ""
        super().__init__(f"cannot {action} {subject}: it is {state}{hint}")


class KeyTaken(NotAllowed):
    """Another unfinished job has the unique key."""

    def __init__(self, job_id: UUID, key: object, other: UUID) -> None:
        self.key, self.other = key, other
        super().__init__("run again", job_id, f"of the key {key!r}, which job {other} has", [])


class Denied(JobsError):
    """Whoever acts lacks a permission; nothing was done."""

    def __init__(self, permission: str) -> None:
        self.permission = permission
        super().__init__(f"permission {permission!r} is missing")


class Changed(JobsError):
    """Somebody has changed it since the caller read it; nothing was written."""

    def __init__(self, kind: str, target: object) -> None:
        self.kind, self.target = kind, target
        super().__init__(f"{kind} {target} has changed since it was read")


class UnknownTarget(JobsError):
    """There is no such thing, or none that the caller may see."""

    def __init__(self, kind: str, target: object) -> None:
        self.kind, self.target = kind, target
        shown = repr(target) if isinstance(target, str) else target
        if target is None:
            super().__init__(f"this {kind} would be outside of your tenants or queues")
        else:
            super().__init__(f"there is no {kind} {shown}")


class UnknownJob(UnknownTarget):
    """No job has this id."""

    def __init__(self, job_id: UUID | str) -> None:
        self.job_id = job_id
        super().__init__("job", job_id)


class UnknownBatch(UnknownTarget):
    """No batch has this id."""

    def __init__(self, batch_id: UUID) -> None:
        self.batch_id = batch_id
        super().__init__("batch", batch_id)


class EventError(JobsError):
    """An event was refused and nothing was written, or is asked for what cannot be."""

    def __init__(self, option: str, problem: str) -> None:
        self.option, self.problem = option, problem
        super().__init__(f"{option}: {problem}")


class FeedGone(JobsError):
    """The feed cannot be read on from this position: what came after it is not all there.

    The caller has to start over, from a fresh state and ``jobs.events.feed_head()``.
    """

    def __init__(self, since: int, floor: int, head: int) -> None:
        self.since, self.floor, self.head = since, floor, head
        why = "was never reached" if since > head else "has been pruned"
        super().__init__(f"position {since} {why}: the feed can be read on from {floor} to {head}")


class EffectError(JobsError):
    """An effect was used, or a doubt resolved, in a way that cannot be; says which and why."""


class BreakerError(JobsError):
    """A circuit breaker was declared or used wrongly."""


class MeterError(JobsError):
    """A meter was declared or used wrongly."""


class MachineError(JobsError):
    """A machine of states was declared or used wrongly."""


class IllegalMove(MachineError):
    """No edge leads from the present state to the wanted one; nothing was written."""

    def __init__(self, subject: str, current: str, to: str, allowed: tuple[str, ...]) -> None:
        self.current, self.to, self.allowed = current, to, allowed
        super().__init__(f"{subject} is {current!r} and cannot become {to!r}; {_ways(allowed)}")


class StaleState(MachineError):
    """The row is not as the caller expected, mostly in another state; nothing was written."""

    def __init__(
        self, subject: str, current: str, expected: tuple[str, ...], allowed: tuple[str, ...]
    ) -> None:
        self.current, self.expected, self.allowed = current, expected, allowed
        wanted = " or ".join(map(repr, expected))
        other = f"not {wanted} as expected" if expected else "but not as it was given"
        super().__init__(f"{subject} is {current!r}, {other}; {_ways(allowed)}")


def _ways(allowed: tuple[str, ...]) -> str:
    return f"it may become {', '.join(map(repr, allowed))}" if allowed else "nothing leaves there"


class QueryError(JobsError):
    """A query cannot be understood; says where, why, and what was probably meant."""

    def __init__(self, position: int, problem: str, hint: str = "") -> None:
        self.position, self.problem, self.hint = position, problem, hint
        meant = f"; did you mean {hint!r}?" if hint else ""
        super().__init__(f"character {position + 1}: {problem}{meant}")


class TooSlow(JobsError):
    """A read took longer than operators' reads may; ask for less."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"took longer than {seconds:g} s: narrow the query by time, kind or queue")
