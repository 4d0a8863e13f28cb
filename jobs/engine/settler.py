"""The settler: one thread of an executor that writes how attempts ended, many per statement."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from django.db import Error

from jobs import registry
from jobs.engine import claims, effects, metrics, minutes, sql
from jobs.engine.claims import Ended, Success
from jobs.engine.seldom import Seldom
from jobs.outcomes import Fault, Move, decide
from jobs.redaction import redact_text
from jobs.states import JobState

log = logging.getLogger("jobs.settler")

GATHER_SECONDS = 0.003
"""How long a busy executor's first result waits for company."""
GATHER_LIMIT = 400
LONGEST_PAUSE = 2.0
"""Seconds between two tries while no outcome can be written."""
LONGEST_WAIT = 5.0
"""Seconds between two tries of one outcome that alone cannot be written."""
Outcome = Success | Ended
T = TypeVar("T", Success, Ended)


class _Recorder(Protocol):
    def wait(self) -> float | None: ...

    def flush(self) -> None: ...


def _recorders() -> tuple[_Recorder, ...]:
    """Return what gathers numbers that are written beside the outcomes."""
    return minutes.recorder, metrics.recorder


_LOOK: Any = object()
"""Put into the outbox, it makes the settler look whether numbers are due."""


@dataclass(slots=True)
class _Entry:
    """An outcome on its way to its row."""

    outcome: Outcome
    slot: int | None
    """The place on the board that shows its job until then."""
    tries: int = 0
    due: float = 0.0


class Settler:
    """Write every outcome, however long it takes: none is dropped while the process lives.

    While writes fail, portions shrink, so that one outcome that cannot be written for a reason of
    its own is found and waits apart from the others. ``written`` is called with the slot of each
    outcome that is done with.
    """

    def __init__(
        self,
        worker: str,
        is_busy: Callable[[], bool],
        written: Callable[[int], None] = lambda slot: None,
    ) -> None:
        self._worker, self._is_busy, self._written = worker, is_busy, written
        self._outbox: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._line: deque[_Entry] = deque()
        self._apart: deque[_Entry] = deque()
        self._limit = GATHER_LIMIT
        self._fails = 0
        self._is_ready = False
        self._seldom = Seldom(log)
        self._thread = threading.Thread(target=self._live, daemon=True, name="settler")

    def start(self) -> None:
        self._thread.start()

    def put(self, outcome: Outcome, slot: int | None = None) -> None:
        """The outcome will be written."""
        self._outbox.put(_Entry(outcome, slot))

    @property
    def is_ready(self) -> bool:
        """Whether outcomes can be written at present, as far as is known."""
        return self._is_ready

    def backlog(self) -> int:
        """How many outcomes have piled up beyond what one statement takes."""
        return max(0, self._outbox.qsize() + len(self._line) - GATHER_LIMIT)

    def finish(self) -> None:
        """Everything put before has been written or proved stale."""
        self._outbox.put(None)
        self._thread.join()

    def _live(self) -> None:
        minutes.recorder.defer()
        metrics.recorder.defer(lambda: self._outbox.put(_LOOK))
        ending = False
        while not ending or self._line or self._apart:
            try:
                if not self._is_ready and not self._line:
                    self._connect()
                ending = self._gather() or ending
                pause = self._write_some()
                if pause:
                    time.sleep(pause)
                else:
                    for recorder in _recorders():
                        if ending or recorder.wait() == 0.0:
                            recorder.flush()
                sql.give_back()
            except BaseException:
                log.exception("settling failed; the outcomes are kept")
                time.sleep(LONGEST_PAUSE)
        metrics.recorder.leave()

    # ---- what is to be written

    def _gather(self) -> bool:
        """Add outcomes to the line, waiting for them where it is empty; return whether to end."""
        room = GATHER_LIMIT - len(self._line)
        deadline = 0.0
        for taken in range(room):
            try:
                entry = self._next(taken, deadline)
            except queue.Empty:
                break
            if entry is _LOOK:
                continue
            if entry is None:
                return True
            self._line.append(entry)
            if not deadline:
                deadline = time.monotonic() + GATHER_SECONDS
        return False

    def _next(self, taken: int, deadline: float) -> _Entry | None:
        if not self._line:
            return self._outbox.get(timeout=self._patience())
        left = deadline - time.monotonic()
        if taken and left > 0 and self._is_busy():
            return self._outbox.get(timeout=left)
        return self._outbox.get_nowait()

    def _patience(self) -> float | None:
        """Return the seconds until something else than a new outcome is due."""
        if not self._is_ready:
            return 0.1
        waits = [wait for one in _recorders() if (wait := one.wait()) is not None]
        if self._apart:
            waits.append(max(0.01, self._apart[0].due - time.monotonic()))
        return min(waits, default=None)

    # ---- writing it

    def _connect(self) -> None:
        try:
            claims.settle_successes([], self._worker)  # the first result finds a connection
        except Error as error:
            self._note_failure(error, "no job is begun until results can be written")
            time.sleep(self._pause())
        else:
            self._note_success()

    def _write_some(self) -> float:
        """Write a portion; return the seconds to wait before the next one."""
        if self._apart and self._apart[0].due <= time.monotonic():
            portion = [self._apart.popleft()]
        else:
            count = min(self._limit, len(self._line))
            portion = [self._line.popleft() for _ in range(count)]
        if not portion:
            return 0.0
        try:
            refused = write([entry.outcome for entry in portion], self._worker)
        except Exception as error:
            return self._keep(portion, error)
        except BaseException:
            self._line.extendleft(reversed(portion))
            raise
        left = {outcome.id for outcome in refused}
        for entry in portion:
            if refused and _id(entry.outcome) in left:
                self._set_apart(entry)
            elif entry.slot is not None:
                self._written(entry.slot)
        self._note_success()
        return 0.0

    def _keep(self, portion: list[_Entry], error: Exception) -> float:
        """Nothing of the portion is given up; return the seconds until the next try."""
        held = len(portion) + len(self._line) + len(self._apart) + self._outbox.qsize()
        if sql.is_disconnected(error):
            self._line.extendleft(reversed(portion))
        elif len(portion) > 1:
            self._limit = len(portion) // 2
            self._line.extend(portion)
        else:
            self._seldom.failure("apart", error, "job %s waits", _id(portion[0].outcome))
            self._set_apart(portion[0])
            return 0.0 if self._is_ready else self._pause()
        self._note_failure(error, f"{held} results wait for the database")
        return self._pause()

    def _set_apart(self, entry: _Entry) -> None:
        entry.due = time.monotonic() + min(LONGEST_WAIT, 0.2 * 2**entry.tries)
        entry.tries += 1
        self._apart.append(entry)
        self._apart = deque(sorted(self._apart, key=lambda entry: entry.due))

    def _note_failure(self, error: Exception, message: str) -> None:
        self._is_ready = False
        self._fails += 1
        self._seldom.failure("write", error, message)
        with suppress(Error):
            sql.close()

    def _note_success(self) -> None:
        if self._fails > 2:
            log.info("results can be written again, after %d tries", self._fails)
        self._is_ready, self._fails = True, 0
        self._limit = min(GATHER_LIMIT, self._limit * 2)

    def _pause(self) -> float:
        return min(LONGEST_PAUSE, 0.1 * 2.0 ** min(self._fails, 10))


def write(batch: Sequence[Outcome], worker: str) -> list[Ended]:
    """Write every outcome on its row, unless the row had been taken away.

    What the database refuses is found by halving, and ends as that one job's failure. Every other
    error is raised: it says nothing about the outcomes, and another try does no harm. Return those
    that were refused in every form.
    """
    effects.write_late()
    successes = [outcome for outcome in batch if isinstance(outcome, Success)]
    endings = [outcome for outcome in batch if isinstance(outcome, Ended)]
    endings += [_refused(*one) for one in _halving(successes, worker, _write_successes)]
    bare = [_bare(*one) for one in _halving(endings, worker, _write_endings)]
    failed = [_failed(*one) for one in _halving(bare, worker, _write_endings)]
    refused = _halving(failed, worker, _write_endings)
    for ended, error in refused:
        log.error("how job %s ended is refused: %s", ended.id, error)
    return [ended for ended, _ in refused]


def _halving(
    batch: list[T], worker: str, write: Callable[[list[T], str], None]
) -> list[tuple[T, Exception]]:
    """Write what is accepted; return what is refused, each with the error."""
    if not batch:
        return []
    try:
        write(batch, worker)
    except Exception as error:
        if not sql.is_refusal(error):
            raise
        if len(batch) == 1:
            return [(batch[0], error)]
    else:
        return []
    middle = len(batch) // 2
    return _halving(batch[:middle], worker, write) + _halving(batch[middle:], worker, write)


def _write_successes(successes: Sequence[Success], worker: str) -> None:
    accepted = claims.settle_successes(successes, worker)
    if len(accepted) < len(successes):
        left = [s.claim for s in successes if s.claim.id not in accepted]
        _report_stale([(c.id, c.token, JobState.SUCCEEDED) for c in left])


def _write_endings(endings: Sequence[Ended], worker: str) -> None:
    moved = claims.settle_endings(endings, worker)
    if len(moved) < len(endings):
        left = [e for e in endings if e.id not in moved]
        _report_stale([(e.id, e.token, e.move.state) for e in left])
        claims.report_repeated(left)


def _refused(success: Success, error: Exception) -> Ended:
    claim = success.claim
    handler = registry.find(claim.kind)
    move = decide("bad_result", claim.counters, handler)
    fault = Fault("UnstorableResult", redact_text(f"the database refused the result: {error}"))
    return Ended(claim.id, claim.token, claim.kind, move, fault)


def _bare(ended: Ended, error: Exception) -> Ended:
    """The same move without what the handler said."""
    log.warning("what was said about the end of job %s is refused: %s", ended.id, error)
    text = redact_text(f"the database refused what was said: {error}")
    fault = Fault("UnstorableFault", text) if ended.fault else None
    move = replace(ended.move, why=ended.ending or ended.move.reason or "ended")
    return replace(ended, move=move, fault=fault, closing=None, lines=())


def _failed(ended: Ended, error: Exception) -> Ended:
    """A failure, in place of a move that is refused."""
    reason = "bad_result"
    move = Move(JobState.FAILED, reason, failed=1, attempt="failed", reason=reason)
    text = redact_text(f"the database refused how the attempt ended: {error}")
    return Ended(ended.id, ended.token, ended.kind, move, Fault("UnstorableResult", text))


def _id(outcome: Outcome) -> object:
    return outcome.claim.id if isinstance(outcome, Success) else outcome.id


def _report_stale(written: Sequence[tuple[object, object, JobState]]) -> None:
    ours = claims.already_ours(written)  # type: ignore[arg-type]
    for job_id, _, state in written:
        if job_id not in ours:
            log.warning("job %s had been taken away; its %s is dropped", job_id, state)
