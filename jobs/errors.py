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
    ├── StaleClaim              a write came from an attempt that no longer holds the job
    └── ConfigError             the JOBS setting is wrong

What a handler raises to steer its job (``Snooze``, ``Unrecoverable``) lives in ``outcomes``.
"""

from __future__ import annotations

from uuid import UUID


class JobsError(Exception):
    """Base of every error of this library."""


class ConfigError(JobsError):
    """The JOBS setting is wrong."""


class HandlerError(JobsError):
    """A handler was declared wrongly."""


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
