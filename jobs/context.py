"""What a handler is given besides its payload."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar
from uuid import UUID

from jobs import tracing
from jobs.effects import AsyncCall, AsyncProbe, Call, OnDoubt, Probe, Terms
from jobs.errors import EventError
from jobs.events import Audience, Message, Told, message
from jobs.outcomes import Stopped
from jobs.watch import LOOK_INTERVAL, watch

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

    from jobs.logs import AttemptLog

T = TypeVar("T")


class Signal:
    """Whether, and why, the handler should stop: timeout, cancelled, preempted, shutdown or
    lease_lost."""

    __slots__ = ("_peek", "is_awaited")

    def __init__(self, peek: Callable[[], str]) -> None:
        self._peek = peek
        self.is_awaited = False

    @property
    def aborted(self) -> bool:
        """Whether the handler has been asked to stop."""
        return self._peek() != ""

    @property
    def reason(self) -> str:
        """Why it has been asked to stop; empty while it has not."""
        return self._peek()

    def __bool__(self) -> bool:
        return self.aborted

    async def wait(self) -> str:
        """The reason, once there is one: for async handlers that wait for several things.

        A handler that has asked for it is given a second to end by itself before it is cancelled.
        """
        self.is_awaited = True
        while not (reason := self._peek()):
            await asyncio.sleep(LOOK_INTERVAL)
        return reason


_signal: ContextVar[Signal | None] = ContextVar("jobs_signal", default=None)


def current_signal() -> Signal | None:
    """Return the signal of the attempt that runs in this thread or coroutine, if one does."""
    return _signal.get()


@contextmanager
def listening(signal: Signal) -> Iterator[None]:
    """Make the signal the current one for the block, and for coroutines that it starts."""
    token = _signal.set(signal)
    try:
        yield
    finally:
        _signal.reset(token)


class ProgressWriter(Protocol):
    """Stores a job's progress, if the attempt still holds the job."""

    def __call__(self, progress: dict[str, Any]) -> bool: ...


class EffectLedger(Protocol):
    """The effects of the attempt: see ``jobs.engine.effects``."""

    def run(self, key: str, call: Call, probe: Probe | None, terms: Terms) -> Any: ...

    async def run_async(
        self, key: str, call: AsyncCall, probe: AsyncProbe | None, terms: Terms
    ) -> Any: ...


class JobFence(Protocol):
    """The attempt's hold on its job: see ``jobs.engine.fence``."""

    def hold(self) -> None: ...

    async def hold_async(self) -> None: ...

    def refuse(self) -> NoReturn: ...


EVENT_LIMIT = 1000
"""Events that an attempt may keep until its end."""
PROGRESS_INTERVAL = 0.5
"""Seconds between two writes of a job's progress; the last one is always written."""


@dataclass(slots=True)
class Context:
    """The running attempt, as its handler sees it."""

    job_id: UUID
    kind: str
    queue: str
    attempt: int
    """Number of this attempt, from 1; retries, snoozes and releases all count.

    It never goes back, so an outside system that keeps the highest one it has seen, and refuses
    lower ones, shuts out an attempt that has lost its job.
    """
    failures: int
    """How often the job has failed before."""
    max_attempts: int
    tenant: str
    correlation_id: str
    priority: int
    signal: Signal
    _make_log: Callable[[], AttemptLog]
    _write_progress: ProgressWriter
    _read_parents: Callable[[], dict[UUID, Any]]
    _ledger: EffectLedger
    _fence: JobFence
    _write_message: Callable[[Message], None]
    _in_transaction: Callable[[], bool]
    _messages: list[Message] = field(default_factory=list)
    _progress_at: float = 0.0
    _cleanup: ExitStack | None = None
    _log: AttemptLog | None = None

    @property
    def log(self) -> BoundLogger:
        """The log of this attempt: its lines name the job, and are kept if the attempt fails."""
        if self._log is None:
            self._log = self._make_log()
        return self._log

    def lines(self) -> list[str]:
        """What the attempt has logged last, redacted."""
        return [] if self._log is None else self._log.lines()

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure of this attempt would be final."""
        return self.failures + 1 >= self.max_attempts

    def should_stop(self) -> bool:
        """Whether the handler has been asked to stop; for loops that clean up by themselves."""
        return self.signal.aborted

    def checkpoint(self) -> None:
        """Returns at once, or ends the attempt here when it has been asked to stop."""
        if reason := self.signal.reason:
            raise Stopped(reason)

    def on_stop(self, callback: Callable[[str], object]) -> None:
        """Calls back with the reason when the handler is asked to stop, from another thread.

        For what blocks and can be closed from outside: a socket, a browser, a child process.
        """
        number = watch().add(lambda: self.signal.reason, callback)
        self.on_cleanup(lambda: watch().remove(number))

    def on_cleanup(self, function: Callable[[], object]) -> None:
        """Calls the function when the handler has ended, however it ended; last in, first out."""
        self._stack().callback(function)

    def enter(self, manager: AbstractContextManager[T]) -> T:
        """Enters the context manager and leaves it when the handler has ended."""
        return self._stack().enter_context(manager)

    def close(self, error: BaseException | None = None) -> None:
        """Everything registered for clean-up has been called; failures are logged.

        Context managers are left by the error that ended the handler.
        """
        if self._cleanup is None:
            return
        try:
            self._cleanup.__exit__(
                None if error is None else type(error),
                error,
                None if error is None else error.__traceback__,
            )
        except BaseException as failure:
            # A manager passes on by what it was left; how the attempt ended is decided already.
            if failure is not error:
                self.log.exception("clean-up failed")

    def parents(self) -> dict[UUID, Any]:
        """The results of the jobs this one waited for, by their ids, where they succeeded."""
        return self._read_parents()

    def _stack(self) -> ExitStack:
        if self._cleanup is None:
            self._cleanup = ExitStack()
        return self._cleanup

    def progress(self, done: int, total: int | None = None, note: str = "") -> None:
        """Shows how far the job is; ends the attempt when it no longer holds the job."""
        moment = time.monotonic()
        if moment - self._progress_at < PROGRESS_INTERVAL and done != total:
            return
        self._progress_at = moment
        if not self._write_progress({"done": done, "total": total, "note": note[:200]}):
            raise Stopped("lease_lost")

    def emit(
        self,
        topic: str,
        payload: Told,
        *,
        key: str | None = None,
        tenant: str | None = None,
        audience: Audience = "tenant",
        at_once: bool = False,
    ) -> UUID:
        """Tells an event; answers its id.

        Inside a transaction it is published with that transaction. Outside of one it is published
        together with the success of the job, in the same transaction, and not at all where the
        attempt ends otherwise; ``at_once`` publishes it now, whatever becomes of the attempt (not
        in a coroutine). The key is the job's own unless another is given, and so is the tenant.
        """
        made = message(
            topic,
            payload,
            key=f"job:{self.job_id}" if key is None else key,
            tenant=self.tenant if tenant is None else tenant,
            audience=audience,
        )
        if at_once and _in_coroutine():
            raise EventError("at_once", "a coroutine publishes its events with the job's success")
        if at_once or self._in_transaction():
            self._write_message(made)
        elif len(self._messages) >= EVENT_LIMIT:
            raise EventError(
                "emit", f"an attempt keeps at most {EVENT_LIMIT} events until its end; use at_once"
            )
        else:
            self._messages.append(made)
        return made.id

    def fence(self) -> None:
        """Let the transaction around this call commit only if the attempt still holds its job.

        Call it inside ``transaction.atomic`` on the database of the jobs, in the outermost block:
        it locks the job's row until that transaction ends, so nobody else can begin the job
        meanwhile. Where the job is another attempt's by now, it raises
        ``jobs.errors.StaleClaim``, and nothing that the transaction wrote survives. Without a
        transaction it raises Django's ``TransactionManagementError``.
        """
        self._fence.hold()

    async def fence_async(self) -> None:
        """``fence`` for coroutines; a function that ``sync_to_async`` runs says ``fence``."""
        await self._fence.hold_async()

    def span(
        self, name: str, /, **attributes: str | int | float | bool
    ) -> AbstractContextManager[object]:
        """Make a part of the handler an OpenTelemetry span, below the span of its attempt.

        ::

            with ctx.span("import.page", page=number):
                ...

        The span has the id and kind of the job and the attributes, redacted, and the class of an
        error. Use it in coroutines in the same way. Does nothing if tracing is not set up.
        """
        about = {"jobs.job": str(self.job_id), "jobs.kind": self.kind}
        return tracing.piece(name, {**about, **attributes})

    def effect(
        self,
        key: str,
        call: Call,
        *,
        probe: Probe | None = None,
        request: Any = None,
        definite: tuple[type[BaseException], ...] = (),
        on_doubt: OnDoubt = "park",
    ) -> Any:
        """Make the call once for this job and key, whatever happens; return its outcome.

        The intent is committed before the call and the outcome after it, as JSON. When the job
        runs again, a known outcome is returned without a call. Its type is that of the call's
        JSON, or of what a probe or a person has answered. Where an earlier call may have
        happened, ``probe`` is asked; where it cannot tell, the job is parked for a person, or
        ``on_doubt="rerun"`` makes the call again (for calls that may be repeated).

        An exception of the call leaves the effect in doubt, unless it says that nothing happened:
        ``jobs.effects.NotHappened``, ``jobs.RateLimited``, an open circuit, a meter without room,
        an ``HttpError`` whose request was not ``sent``, or one of ``definite``.
        ``request`` is stored with the intent, for the probe and for the person who decides. Begins
        nothing once the job has been asked to stop. Not for atomic handlers or transactions.
        """
        self.checkpoint()
        terms = Terms(request, definite, on_doubt)
        with tracing.span("jobs effect", "CLIENT", effect=key, job=self.job_id):
            return self._ledger.run(key, call, probe, terms)

    async def effect_async(
        self,
        key: str,
        call: AsyncCall,
        *,
        probe: AsyncProbe | None = None,
        request: Any = None,
        definite: tuple[type[BaseException], ...] = (),
        on_doubt: OnDoubt = "park",
    ) -> Any:
        """``effect`` for async handlers: call and probe may be coroutine functions."""
        self.checkpoint()
        terms = Terms(request, definite, on_doubt)
        with tracing.span("jobs effect", "CLIENT", effect=key, job=self.job_id):
            return await self._ledger.run_async(key, call, probe, terms)


def _in_coroutine() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
