"""The settler: one thread of an executor that writes how attempts ended, many per statement."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from django.db import DatabaseError, Error

from jobs import registry
from jobs.engine import claims, minutes, sql
from jobs.engine.claims import Ended, Success
from jobs.outcomes import Fault, decide
from jobs.states import JobState

log = logging.getLogger("jobs.settler")

GATHER_SECONDS = 0.003
"""How long a busy executor's first result waits for company."""
GATHER_LIMIT = 400
Outcome = Success | Ended


class Settler:
    """Never dies of an exception, and gives up nothing while the lease may still hold."""

    def __init__(self, worker: str, is_busy: Callable[[], bool]) -> None:
        self._worker, self._is_busy = worker, is_busy
        self._outbox: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        self._writing = 0
        self._thread = threading.Thread(target=self._live, daemon=True, name="settler")

    def start(self) -> None:
        self._thread.start()

    def put(self, outcome: Outcome) -> None:
        """The outcome will be written."""
        self._outbox.put(outcome)

    def backlog(self) -> int:
        """How many outcomes have piled up beyond what one statement takes."""
        return max(0, self._outbox.qsize() - GATHER_LIMIT)

    def finish(self) -> None:
        """Everything put before has been written or proved stale."""
        self._outbox.put(None)
        self._thread.join()

    def _live(self) -> None:
        minutes.recorder.defer()
        with suppress(Error):
            claims.settle_successes([], self._worker)  # the first result finds a connection
        ending = False
        while not ending:
            batch, ending = self._gather()
            while batch:
                try:
                    write(batch, self._worker)
                    break
                except Error as error:
                    log.warning("%d results wait for the database: %s", len(batch), error)
                    with suppress(Error):
                        sql.close()
                    time.sleep(0.2)
                except BaseException:
                    log.exception("settling failed; the jobs' lease will lapse")
                    break
            if ending or minutes.recorder.wait() == 0.0:
                minutes.recorder.flush()

    def _gather(self) -> tuple[list[Outcome], bool]:
        """The next outcomes to write, and whether they are the last."""
        batch: list[Outcome] = []
        deadline = 0.0
        while len(batch) < GATHER_LIMIT:
            try:
                outcome = self._next(batch, deadline)
            except queue.Empty:
                break
            if outcome is None:
                return batch, True
            batch.append(outcome)
            if len(batch) == 1:
                deadline = time.monotonic() + GATHER_SECONDS
        return batch, False

    def _next(self, batch: list[Outcome], deadline: float) -> Outcome | None:
        if not batch:
            return self._outbox.get(timeout=minutes.recorder.wait())
        left = deadline - time.monotonic()
        if left > 0 and self._is_busy():
            return self._outbox.get(timeout=left)
        return self._outbox.get_nowait()


def write(batch: Sequence[Outcome], worker: str) -> None:
    """Every outcome of the batch is on its row, unless the row had been taken away.

    Raises only when the database is away. What the database refuses is found by halving, and
    ends as that one job's failure.
    """
    successes = [outcome for outcome in batch if isinstance(outcome, Success)]
    endings = [outcome for outcome in batch if isinstance(outcome, Ended)]
    if successes:
        _write_successes(successes, worker)
    if endings:
        _write_endings(endings, worker)


def _write_successes(successes: Sequence[Success], worker: str) -> None:
    try:
        accepted = claims.settle_successes(successes, worker)
    except DatabaseError as error:
        if sql.is_disconnected(error):
            raise
        if len(successes) == 1:
            _write_endings([_refused(successes[0], error)], worker)
            return
        middle = len(successes) // 2
        _write_successes(successes[:middle], worker)
        _write_successes(successes[middle:], worker)
        return
    if len(accepted) < len(successes):
        left = [s.claim for s in successes if s.claim.id not in accepted]
        _report_stale([(c.id, c.token, JobState.SUCCEEDED) for c in left])


def _write_endings(endings: Sequence[Ended], worker: str) -> None:
    try:
        moved = claims.settle_endings(endings, worker)
    except DatabaseError as error:
        if sql.is_disconnected(error):
            raise
        if len(endings) == 1:
            log.exception("job %s cannot be settled; its lease will lapse", endings[0].id)
            return
        middle = len(endings) // 2
        _write_endings(endings[:middle], worker)
        _write_endings(endings[middle:], worker)
        return
    if len(moved) < len(endings):
        _report_stale([(e.id, e.token, e.move.state) for e in endings if e.id not in moved])


def _refused(success: Success, error: DatabaseError) -> Ended:
    claim = success.claim
    handler = registry.find(claim.kind)
    move = decide("bad_result", claim.counters, handler)
    fault = Fault("UnstorableResult", f"the database refused the result: {error}")
    return Ended(claim.id, claim.token, claim.kind, move, fault)


def _report_stale(written: Sequence[tuple[object, object, JobState]]) -> None:
    ours = claims.already_ours(written)  # type: ignore[arg-type]
    for job_id, _, state in written:
        if job_id not in ours:
            log.warning("job %s had been taken away; its %s is dropped", job_id, state)
