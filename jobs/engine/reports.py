"""Reports of attempts: a line in the log for each, and a signal for those that failed.

An attempt is reported once its end is committed, by the process that has written it: the executor
that ran the job, the keeper of an executor that died, or the dispatcher that found a lease expired.
So a job that fails for good makes one line of level ERROR, however it failed. Beginnings and
successes are of level DEBUG: at thousands of jobs a second nobody reads them, and a disabled line
costs next to nothing.

Workers and dispatchers report in a thread of its own, because a log or a receiver may be slow.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from uuid import UUID

from django.apps import apps
from django.db import transaction

from jobs import logs, redaction
from jobs.engine import process, sql
from jobs.outcomes import Fault, Move
from jobs.signals import job_failed
from jobs.states import JobState

log = logging.getLogger("jobs.attempts")

LIMIT = 1000
"""Reports that may wait for the thread."""
PATIENCE = 1.0
"""Seconds for which a writer waits for room among them before it drops its reports."""
LAST_WORDS = 2.0
"""Seconds for which the end of a process waits for the thread."""
SUMMARY_LIMIT = 300
ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]

_WORDS = {"timeout": "ran into its timeout", "crashed": "crashed", "lost": "was lost"}


@dataclass(frozen=True, slots=True)
class Report:
    """How an attempt ended."""

    job_id: UUID
    kind: str
    queue: str
    tenant: str
    attempt: int
    request_id: str
    state: JobState
    """Where it left the job."""
    move: Move | None = None
    """None for a success."""
    fault: Fault | None = None
    seconds: float = 0.0

    @property
    def level(self) -> int:
        """The level of its line."""
        if self.state is JobState.FAILED:
            return logging.ERROR
        return logging.WARNING if self.move and self.move.attempt else logging.DEBUG

    @property
    def error(self) -> str:
        """The class and the message of what went wrong, redacted."""
        if self.fault is not None:
            return f"{self.fault.error_class}: {self.fault.message}"
        return self.move.why if self.move else ""

    @property
    def exc_info(self) -> ExcInfo | None:
        """The redacted copy of what was raised; None where nothing was."""
        error = self.fault.exception if self.fault else None
        return None if error is None else (type(error), error, error.__traceback__)

    def fields(self) -> dict[str, str | int | None]:
        """What its line, and every line of a receiver, says about the job."""
        return {
            "job_id": str(self.job_id),
            "kind": self.kind,
            "queue": self.queue,
            "tenant": self.tenant,
            "attempt": self.attempt,
            "request_id": self.request_id,
        }


def begun(kind: str, job_id: UUID, attempt: int) -> None:
    """Report that an attempt begins; what is bound says the rest about its job."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug(f"{_literal(kind)}: attempt %d of job %s begins", attempt, job_id)


class Reporter:
    """Reports on the spot, or where somebody has said ``defer`` in a thread of its own."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[Report | None] = queue.Queue(LIMIT)
        self._thread: threading.Thread | None = None
        self._dropped = 0

    def defer(self) -> None:
        """Report in a thread from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, daemon=True, name="reporter")
            self._thread.start()

    def finish(self, patience: float = LAST_WORDS) -> None:
        """Wait for what is left to be reported, for a while, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            deadline = time.monotonic() + patience
            with suppress(queue.Full):
                self._waiting.put(None, timeout=patience)
                thread.join(max(0.0, deadline - time.monotonic()))
            _flush_sentry(max(0.1, deadline - time.monotonic()))

    def put(self, reports: Sequence[Report]) -> None:
        """Report these attempts once what this thread has written is committed."""
        wanted = [one for one in reports if log.isEnabledFor(one.level) or _is_failure(one)]
        if not wanted:
            return
        # Of a transaction that a test case puts around each test nobody sees the commit.
        if sql.in_transaction():
            transaction.on_commit(lambda: self._put(wanted), using=sql.alias(), robust=True)
        else:
            self._put(wanted)

    def _put(self, reports: Sequence[Report]) -> None:
        if self._thread is None:
            for one in reports:
                _report(one)
            return
        deadline = time.monotonic() + PATIENCE
        for one in reports:
            try:
                self._waiting.put(one, timeout=max(0.0, deadline - time.monotonic()))
            except queue.Full:
                self._dropped += 1

    def _live(self) -> None:
        while (one := self._waiting.get()) is not None:
            _report(one)
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                with suppress(Exception):
                    log.error("%d attempts are not reported: log or receivers are slow", dropped)
            if self._waiting.empty():
                with suppress(Exception):
                    process.close_connections()  # those of receivers


reporter = Reporter()
"""Of this process."""


def _flush_sentry(patience: float) -> None:
    """Executors and keepers end without the exit functions, where Sentry sends what it has left."""
    if sentry := sys.modules.get("sentry_sdk"):
        with suppress(Exception):
            sentry.flush(timeout=patience)


def _is_failure(report: Report) -> bool:
    return report.level >= logging.WARNING


def _report(report: Report) -> None:
    """Write the line and send the signal. Never raises, whatever handlers and receivers do."""
    try:
        with logs.binding(**report.fields()):
            _write(report)
            if _is_failure(report):
                _send(report)
    except BaseException:
        with suppress(BaseException):
            log.exception("an attempt of job %s could not be reported", report.job_id)


def _send(report: Report) -> None:
    job_failed.send_robust(
        sender=apps.get_model("jobs", "Job"),
        job_id=report.job_id,
        kind=report.kind,
        queue=report.queue,
        tenant=report.tenant,
        attempt=report.attempt,
        final=report.state is JobState.FAILED,
        reason=report.move.reason if report.move else "",
        error=report.error,
        exc_info=report.exc_info,
    )


def _write(report: Report) -> None:
    if not log.isEnabledFor(report.level):
        return
    message, arguments = _words(report)
    extra = {name: value for name, value in report.fields().items() if value != ""}
    record = log.makeRecord(
        log.name, report.level, __file__, 0, message, arguments, report.exc_info, extra=extra
    )
    # Formatters print the traceback as it is stored; error trackers read the exception.
    if report.fault is not None and report.fault.traceback:
        record.exc_text = report.fault.traceback.rstrip("\n")
    log.handle(record)


def _words(report: Report) -> tuple[str, tuple[object, ...]]:
    """The line and its arguments; the kind is no argument, since trackers group by the line."""
    kind, move = _literal(report.kind), report.move
    attempt = (report.attempt, report.job_id)
    if move is None:
        return f"{kind}: attempt %d of job %s succeeded in %.3f s", (*attempt, report.seconds)
    summary = redaction.visible(report.error.split("\n", 1)[0])[:SUMMARY_LIMIT]
    if report.state is JobState.FAILED:
        text = f"{kind}: job %s failed for good ({move.reason}) in attempt %d: %s"
        return text, (report.job_id, report.attempt, summary)
    how = _WORDS.get(move.attempt or "", "failed" if move.attempt else "ended")
    if report.state is JobState.PENDING:
        text = f"{kind}: attempt %d of job %s {how}: %s; it runs again in %.3g s"
        return text, (*attempt, summary, move.delay)
    return f"{kind}: attempt %d of job %s {how}: %s; it is {report.state}", (*attempt, summary)


def _literal(text: str) -> str:
    return text.replace("%", "%%")
