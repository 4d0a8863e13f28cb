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
from functools import partial
from typing import Any
from uuid import UUID

from django.db import Error, connections, transaction

from jobs import conf, jsontext, logs, redaction, registry, sensitive, tracing
from jobs.context import Context, Signal
from jobs.engine import outbox, parents, sql
from jobs.engine.admission import Closing
from jobs.engine.claims import Claim, Ended, Success, already_ours, settle_successes
from jobs.engine.effects import Ledger
from jobs.errors import InvalidPayload, StaleClaim, UnknownKey
from jobs.logs import AttemptLog
from jobs.outcomes import (
    CircuitOpen,
    Ending,
    Fault,
    InDoubt,
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
    with logs.binding_later(partial(_bound, claim)):
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
        # A coroutine is told to stop by cancelling it.
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
    return redaction.scrub_json(jsontext.dumps(value, conf.settings().RESULT_LIMIT))


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
    session = None
    try:
        conn.ensure_connection()
        session = conn.connection
        with transaction.atomic(using=sql.alias(), durable=not _inline()):
            text = _call(handler, context, payload, await_it)
            done = _success(claim, text, context)
            if claim.id not in settle_successes([done], worker):
                raise StaleClaim(claim.id, claim.attempt)
    except Error as error:
        # Django may have connected anew by now.
        cut_off = conn.connection is not session or not conn.is_usable()
        if not (cut_off and sql.is_disconnected(error)):
            raise
        # The answer to a COMMIT may have been lost: then the work is done. Otherwise nothing of
        # it is, through no fault of the handler.
        if _is_settled(claim):
            return None
        fault = Fault("DatabaseLost", f"the connection broke: {_text(error)}")
        return _ended(claim, handler, "lost", fault)
    return None


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
        fault = Fault("UnstorableResult", f"the handler's result cannot be stored: {error}")
        return _ended(claim, handler, "bad_result", fault)
    if isinstance(error, Snooze):
        return _ended(claim, handler, "snoozed", None, floor=error.delay, why=str(error))
    if isinstance(error, Stopped):
        return _stopped(claim, handler, error)
    if isinstance(error, RateLimited):
        held = _ended(claim, handler, "held", None, floor=error.delay, why=str(error))
        reset = datetime.now(UTC) + timedelta(seconds=error.delay)
        log.info(
            "%s is rate limited until %s, by its %s",
            claim.kind,
            f"{reset:%Y-%m-%dT%H:%M:%SZ}",
            error.scope,
            extra={"reset_at": f"{reset:%Y-%m-%dT%H:%M:%SZ}", "retry_after": error.delay},
        )
        return replace(held, closing=_closing(claim, error), ending="limited")
    if isinstance(error, CircuitOpen):
        return _ended(claim, handler, "held", None, floor=error.delay, why=str(error))
    if isinstance(error, InDoubt):
        return _ended(claim, handler, "in_doubt", _fault(error))
    ending: Ending = "unrecoverable" if isinstance(error, Unrecoverable) else "failed"
    floor = error.delay if isinstance(error, RetryAfter) else 0.0
    return _ended(claim, handler, ending, _fault(error), floor=floor)


_STOPPED_ENDINGS: dict[str, Ending] = {
    "timeout": "timeout",
    "cancelled": "cancelled",
    "preempted": "preempted",
    "shutdown": "released",
    "lease_lost": "released",
}


def _stopped(claim: Claim, handler: Handler, error: Stopped) -> Ended:
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
    return Fault(f"{prefix}{type(error).__qualname__}", _text(error), trace)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"


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


def _ended(
    claim: Claim,
    handler: Handler | None,
    ending: Ending,
    fault: Fault | None,
    *,
    floor: float = 0.0,
    why: str = "",
) -> Ended:
    why = why or (f"{ending}: {fault.error_class}" if fault else ending)
    why = redaction.redact_text(why)
    if fault is not None:
        fault = Fault(
            redaction.redact_text(fault.error_class),
            redaction.redact_text(fault.message, multiline=True),
            redaction.redact_text(fault.traceback, multiline=True),
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
        _ledger=Ledger(claim, is_atomic=handler.atomic),
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
    text = redaction.scrub_json(jsontext.dumps(progress, 4096))
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
