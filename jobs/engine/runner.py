"""Running one claimed job: find its handler, read its payload, call it, say how it ended."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from functools import partial
from typing import Any
from uuid import UUID

from django.db import Error, connections, transaction

from jobs import conf, jsontext, logs, redacted, redaction, registry, sensitive, tracing
from jobs.context import Context, Signal, listening
from jobs.engine import breakers, outbox, parents, reports, sql
from jobs.engine.admission import Closing
from jobs.engine.claims import MESSAGE_LIMIT, Claim, Ended, Success, already_ours, settle_successes
from jobs.engine.effects import Ledger
from jobs.engine.fence import Fence
from jobs.engine.steady import steadily
from jobs.errors import InvalidPayload, StaleClaim, UnknownKey
from jobs.logs import AttemptLog
from jobs.outcomes import (
    LOSSES,
    CircuitOpen,
    DatabaseLost,
    Ending,
    Fault,
    InDoubt,
    MeterFull,
    RateLimited,
    RetryAfter,
    Snooze,
    Stopped,
    Unrecoverable,
    decide,
)
from jobs.payloads import Payload
from jobs.registry import Handler
from jobs.states import JobState

log = logging.getLogger("jobs.handler")
log.addFilter(redaction.RedactingFilter())

_OBEY_INTERVAL = 0.05
_OBEY_GRACE = 1.0
_LOST_FIRST, _LOST_LONGEST = 0.5, 30.0
"""Seconds that a job waits after an attempt that the database broke off, doubled each time."""
_KEY_PAUSE = 60.0
"""Seconds that a job waits whose key is not here: newer processes may have it already."""
Result = Success | Ended | None
"""What is left to settle; None when the attempt has settled itself, or lost its job."""
# The second is what a thread gets that waits for a task which was cancelled.
_CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)
AwaitIt = Callable[[Any, Signal], Any]
"""Runs a coroutine to its end, or cancels it when the signal says so; answers its result."""


def run(claim: Claim, signal: Signal, await_it: AwaitIt, worker: str) -> Result:
    """What became of the claimed job. Never raises, whatever the handler does."""
    handler = registry.find(claim.kind)
    if handler is None:
        fault = Fault("UnknownKind", f"no handler is registered for kind {claim.kind!r}")
        return _ended(claim, None, "unknown_kind", fault)
    try:
        place = sensitive.place_of(claim.payload, claim.id, claim.tenant)
        payload = handler.payload.from_text(claim.payload, claim.payload_version, place)
    except UnknownKey as error:
        log.error("job %s waits for its key: %s", claim.id, error)
        return _ended(claim, handler, "held", None, floor=_KEY_PAUSE, why=f"no key {error.key_id}")
    except InvalidPayload as error:
        return _ended(claim, handler, "bad_payload", Fault("InvalidPayload", str(error)))
    if payload.__sensitive__:
        with redaction.scrubbing(payload.secrets()):
            return _attempt(claim, handler, payload, signal, await_it, worker)
    return _attempt(claim, handler, payload, signal, await_it, worker)


def _attempt(
    claim: Claim,
    handler: Handler,
    payload: Payload,
    signal: Signal,
    await_it: AwaitIt,
    worker: str,
) -> Result:
    claim.begun = time.monotonic()
    with logs.binding_later(partial(_bound, claim)), listening(signal):
        reports.begun(claim.kind, claim.id, claim.attempt)
        context = _context(claim, handler, signal)
        if tracing.is_on():
            result = _traced(claim, handler, context, payload, signal, await_it, worker)
        else:
            result = _outcome(claim, handler, context, payload, signal, await_it, worker)
    if isinstance(result, Ended) and result.move.attempt:
        return replace(result, lines=tuple(context.lines()))
    return result


def _traced(
    claim: Claim,
    handler: Handler,
    context: Context,
    payload: Payload,
    signal: Signal,
    await_it: AwaitIt,
    worker: str,
) -> Result:
    context_of_enqueue = _waited(claim)
    with tracing.span("jobs attempt", "CONSUMER", context_of_enqueue, **_told(claim)) as fail:
        result = _outcome(claim, handler, context, payload, signal, await_it, worker)
        if isinstance(result, Ended) and result.move.attempt:
            fail(result.fault.error_class if result.fault else result.move.attempt)
    return result


def _bound(claim: Claim) -> dict[str, str | int | None]:
    return {
        "job_id": str(claim.id),
        "kind": claim.kind,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "tenant": claim.tenant,
        "request_id": claim.correlation_id,
    }


_WAITED = """
SELECT trace_context, greatest(run_at, created_at), started_at FROM jobs_job
WHERE id = %s AND token = %s AND started_at IS NOT NULL
"""


def _waited(claim: Claim) -> str:
    """The span that enqueued the job; how long it has waited since it was due is one, too."""
    try:
        found = sql.rows(_WAITED, [claim.id, claim.token])
    except Error:
        return ""
    if not found:
        return ""
    [(context, due, started)] = found
    tracing.past("jobs wait", context, due, started, **_told(claim))
    return str(context)


def _told(claim: Claim) -> dict[str, object]:
    return {
        "job": claim.id,
        "kind": claim.kind,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "request": claim.correlation_id,
    }


def _outcome(
    claim: Claim,
    handler: Handler,
    context: Context,
    payload: Payload,
    signal: Signal,
    await_it: AwaitIt,
    worker: str,
) -> Result:
    failure: BaseException | None = None
    try:
        if handler.atomic:
            return _call_atomic(claim, handler, context, payload, await_it, worker)
        text = _call(handler, context, payload, await_it)
        return _success(claim, text, context)
    except StaleClaim as error:
        failure = error
        log.warning("job %s was taken away from attempt %d", claim.id, claim.attempt)
        return None
    except _CANCELLED as error:
        failure = error
        # A coroutine is asked to stop by cancelling it.
        stopped = Stopped(signal.reason) if signal.aborted else error
        return _raised(claim, handler, stopped)
    except BaseException as error:
        failure = error
        return _raised(claim, handler, error)
    finally:
        context.close(failure)
        del failure  # its traceback knows this frame


def _success(claim: Claim, text: str, context: Context) -> Success:
    return Success(claim, text, tuple(context._messages), time.monotonic() - claim.begun)


def _call(handler: Handler, context: Context, payload: Payload, await_it: AwaitIt) -> str:
    value = handler.function(context, payload)
    if handler.is_async:
        if payload.__sensitive__:
            value = _scrubbing(value, payload)
        value = await_it(value, context.signal)
    return redaction.storable(value, conf.settings().RESULT_LIMIT)


async def _scrubbing(coroutine: Any, payload: Payload) -> Any:
    """The coroutine's result; its loop runs in another thread, which hides the values, too."""
    with redaction.scrubbing(payload.secrets()):
        return await coroutine


def _call_atomic(
    claim: Claim,
    handler: Handler,
    context: Context,
    payload: Payload,
    await_it: AwaitIt,
    worker: str,
) -> Result:
    """The handler's effects and the job's completion are one commit, or nothing of either."""
    conn = sql.connection()
    if not conn.in_atomic_block:
        steadily(conn.ensure_connection, context.signal)
    session = conn.connection
    stage = _Stage.HANDLER
    try:
        with transaction.atomic(using=sql.alias(), durable=not _inline()):
            text = _call(handler, context, payload, await_it)
            done = _success(claim, text, context)
            stage = _Stage.SETTLING
            if claim.id not in settle_successes([done], worker):
                raise StaleClaim(claim.id, claim.attempt)
            stage = _Stage.COMMITTING
    except Error as error:
        if stage is _Stage.SETTLING and sql.is_refusal(error):
            return _unstorable(claim, handler, error)
        # Django may have connected again by now.
        cut_off = conn.connection is not session or not conn.is_usable()
        if not _is_nobodys_fault(error, stage, cut_off):
            raise
        # The answer to a COMMIT may have been lost: then the work is done. Otherwise nothing of
        # it is, through no fault of the handler.
        if _is_settled(claim):
            return None
        return _lost(claim, handler, f"the transaction could not be ended: {redacted.text(error)}")
    return None


class _Stage(Enum):
    """How far an atomic attempt has come."""

    HANDLER = auto()
    SETTLING = auto()
    COMMITTING = auto()


_PASSING = ("40001", "40P01", "55P03", "57014")
"""Conflicts and timeouts: another try may succeed."""


def _is_nobodys_fault(error: Error, stage: _Stage, cut_off: bool) -> bool:
    """Whether neither the handler nor its result is to blame for the error."""
    state = sql.sqlstate(error)
    if sql.is_disconnected(error):
        return bool(state) or cut_off  # without a state, it may come from elsewhere
    return stage is not _Stage.HANDLER and state in _PASSING


def _lost(claim: Claim, handler: Handler, message: str) -> Ended:
    """The attempt could not be ended as it should; the next one waits a little."""
    fault = Fault("DatabaseLost", message)
    pause = min(_LOST_LONGEST, _LOST_FIRST * 2 ** min(claim.releases, 10))
    return _ended(claim, handler, "lost", fault, floor=pause)


def _is_settled(claim: Claim) -> bool:
    sql.close()
    try:
        return bool(already_ours([(claim.id, claim.token, JobState.SUCCEEDED)]))
    except Error:
        return False


def _inline() -> bool:
    """Whether a test's transaction surrounds the run."""
    return sql.connection().in_atomic_block


def _raised(claim: Claim, handler: Handler, error: BaseException) -> Ended:
    if isinstance(error, jsontext.UnstorableValue):
        return _unstorable(claim, handler, error)
    if isinstance(error, Snooze):
        return _ended(claim, handler, "snoozed", None, floor=error.delay, why=str(error))
    if isinstance(error, Stopped):
        return _stopped(claim, handler, error)
    if isinstance(error, RateLimited):
        held = _ended(claim, handler, "held", None, floor=error.delay, words=str(error))
        reset = datetime.now(UTC) + timedelta(seconds=error.delay)
        log.info(
            "%s is rate limited until %s, by its %s",
            claim.kind,
            f"{reset:%Y-%m-%dT%H:%M:%SZ}",
            error.scope,
            extra={"reset_at": f"{reset:%Y-%m-%dT%H:%M:%SZ}", "retry_after": error.delay},
        )
        return replace(held, closing=_closing(claim, error), ending="limited")
    if isinstance(error, CircuitOpen | MeterFull):
        return _ended(claim, handler, "held", None, floor=error.delay, words=str(error))
    if isinstance(error, InDoubt):
        return _ended(claim, handler, "in_doubt", _fault(error))
    ending: Ending = "unrecoverable" if isinstance(error, Unrecoverable) else "failed"
    floor = error.delay if isinstance(error, RetryAfter) else 0.0
    if ending == "failed" and (opened := breakers.blamed(error)):
        wait = max(floor, opened.delay)
        return _ended(claim, handler, "held", None, floor=wait, words=str(opened))
    return _ended(claim, handler, ending, _fault(error), floor=floor)


def _unstorable(claim: Claim, handler: Handler, error: Exception) -> Ended:
    fault = Fault("UnstorableResult", f"the handler's result cannot be stored: {error}")
    return _ended(claim, handler, "bad_result", fault)


_STOPPED_ENDINGS: dict[str, Ending] = {
    "timeout": "timeout",
    "cancelled": "cancelled",
    "preempted": "preempted",
    "shutdown": "released",
    "lease_lost": "released",
}


def _stopped(claim: Claim, handler: Handler, error: Stopped) -> Ended:
    if isinstance(error, DatabaseLost):
        return _lost(claim, handler, error.message)
    ending = _STOPPED_ENDINGS.get(error.reason, "failed")
    fault = None
    if ending == "timeout":
        fault = Fault("Timeout", f"stopped after its timeout of {claim.timeout:g} s")
    elif ending == "failed":
        fault = _fault(error)
    return _ended(claim, handler, ending, fault, why=error.reason)


def _fault(error: BaseException) -> Fault:
    frames = error.__traceback__
    # The frames of this module say nothing about the handler.
    while frames is not None and frames.tb_frame.f_globals.get("__name__") == __name__:
        frames = frames.tb_next
    trace = "".join(traceback.format_exception(type(error), error, frames))
    module = type(error).__module__
    prefix = "" if module in ("builtins", "__main__") else f"{module}."
    name = f"{prefix}{type(error).__qualname__}"
    return Fault(name, redacted.text(error), trace, redacted.copy(error, frames))


def _closing(claim: Claim, error: RateLimited) -> Closing | None:
    """What the handler closes; a job without a limit key waits alone where it says ``key``."""
    if error.scope == "queue":
        return Closing(f"queue:{claim.queue}", claim.queue, None, None, error.delay)
    if error.scope == "kind":
        return Closing(f"kind:{claim.kind}", claim.queue, None, None, error.delay)
    if claim.limit_key is None:
        return None
    scope = f"key:{claim.kind}|{claim.limit_key}"
    return Closing(scope, claim.queue, claim.kind, claim.limit_key, error.delay)


def ended(
    claim: Claim, handler: Handler, ending: Ending, message: str, *, floor: float = 0.0
) -> Ended:
    """Decide what follows where the handler's own process does not report how it ended."""
    fault = Fault(LOSSES[ending], message) if ending in LOSSES else None
    return _ended(claim, handler, ending, fault, floor=floor, why="" if fault else message)


def _ended(
    claim: Claim,
    handler: Handler | None,
    ending: Ending,
    fault: Fault | None,
    *,
    floor: float = 0.0,
    why: str = "",
    words: str = "",
) -> Ended:
    """Decide what follows; ``words`` are the platform's own, and stay as they are."""
    why = why or (f"{ending}: {fault.error_class}" if fault else ending)
    why = words or redaction.redact_text(why)
    if fault is not None:
        fault = Fault(
            redaction.redact_text(fault.error_class),
            redaction.redact_text(fault.message, multiline=True, limit=MESSAGE_LIMIT, head=1),
            redaction.redact_text(fault.traceback, multiline=True),
            fault.exception,
        )
    move = decide(ending, claim.counters, handler, floor=floor, why=why)
    return Ended(claim.id, claim.token, claim.kind, move, fault, ending=ending)


def _log(claim: Claim) -> AttemptLog:
    return AttemptLog.of(log, job_id=str(claim.id), kind=claim.kind, attempt=claim.attempt)


def _context(claim: Claim, handler: Handler, signal: Signal) -> Context:
    def write_progress(progress: dict[str, Any]) -> bool:
        return _store_progress(claim.id, claim.token, progress)

    return Context(
        job_id=claim.id,
        kind=claim.kind,
        queue=claim.queue,
        attempt=claim.attempt,
        failures=claim.failures,
        max_attempts=claim.max_attempts,
        tenant=claim.tenant,
        correlation_id=claim.correlation_id,
        priority=claim.priority,
        signal=signal,
        _make_log=partial(_log, claim),
        _write_progress=write_progress,
        _write_message=outbox.write,
        _in_transaction=lambda: not sql.in_event_loop() and sql.in_transaction(),
        _ledger=Ledger(claim, signal, is_atomic=handler.atomic),
        _fence=Fence(claim),
        _read_parents=lambda: parents.results(claim.id),
    )


async def obey(coroutine: Any, signal: Signal) -> Any:
    """The coroutine's result; it is cancelled as soon as the signal says so."""
    task = asyncio.ensure_future(_contained(coroutine))
    while not task.done():
        await asyncio.wait({task}, timeout=_OBEY_INTERVAL)
        if signal.aborted and not task.done():
            if signal.is_awaited:
                await asyncio.wait({task}, timeout=_OBEY_GRACE)
            task.cancel()
            await asyncio.wait({task}, timeout=_OBEY_INTERVAL)
    return task.result()


async def _contained(coroutine: Any) -> Any:
    """The coroutine's result; what would end the loop, and all that runs on it, is an error."""
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error


def _store_progress(job_id: UUID, token: UUID, progress: dict[str, Any]) -> bool:
    # Its numbers count what was done; only the note is in the handler's words.
    text = jsontext.dumps({**progress, "note": redaction.scrub(progress["note"])}, 4096)
    return bool(
        sql.bound_rows(
            "UPDATE jobs_job SET progress = %s::jsonb "
            "WHERE id = %s AND token = %s AND state = 'running' RETURNING 1",
            [text, job_id, token],
        )
    )


def refresh_connections() -> None:
    """No connection that the last handler broke, or left in a transaction, meets the next one."""
    for conn in connections.all(initialized_only=True):
        if conn.connection is None:
            continue
        conn.close_at = None  # a worker's connections live until they break
        if conn.in_atomic_block or conn.needs_rollback or not conn.get_autocommit():
            conn.in_atomic_block = conn.needs_rollback = False
            conn.savepoint_ids = []
            conn.run_on_commit = []
            conn.closed_in_transaction = False
            conn.close()
        elif conn.errors_occurred:
            conn.close_if_unusable_or_obsolete()
    sql.give_back()


def broken(claim: Claim, error: BaseException) -> Ended:
    """What becomes of a job that the runner itself could not run to an end."""
    handler = registry.find(claim.kind)
    return _ended(claim, handler, "lost", _fault(error), floor=_LOST_LONGEST)
