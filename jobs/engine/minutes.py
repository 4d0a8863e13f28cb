"""How attempts ended, gathered in memory and added to the statistics of the minute.

An executor writes what it gathered once a second, by one statement of its own, so that the drain
does not wait for it; a process that settles only now and then writes at once. A process that dies,
or a connection that breaks, loses what was gathered since: these are statistics, the jobs are in
their rows.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from django.db import Error, transaction

from jobs import histograms
from jobs.engine import sql
from jobs.states import JobState

log = logging.getLogger("jobs.minutes")

INTERVAL = 1.0
"""Seconds for which an executor gathers."""
TOTAL = datetime(9000, 1, 1, tzinfo=UTC)
"""The minute of the rows that count since ever."""
Outcome = Literal[
    "succeeded",  # the handler returned
    "failed",  # the job failed for good
    "retried",  # the attempt failed and the job runs again
    "cancelled",  # it obeyed a cancel request
    "limited",  # it was told of a rate limit and waits
    "held",  # an open circuit or a missing key makes it wait
    "snoozed",  # it asked to run later
    "released",  # it was handed back, or made way for another job
]


@dataclass(frozen=True, slots=True)
class Note:
    """One attempt that ended, and was accepted."""

    kind: str
    queue: str
    outcome: Outcome
    seconds: float
    buried: bool = False
    stalled: bool = False


@dataclass(slots=True)
class _Sum:
    count: int = 0
    letters: int = 0
    stalls: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * histograms.SIZE)

    def add(self, note: Note) -> None:
        self.count += 1
        self.letters += note.buried
        self.stalls += note.stalled
        self.seconds += note.seconds
        self.longest = max(self.longest, note.seconds)
        self.buckets[histograms.bucket_of(note.seconds)] += 1

    def merge(self, other: _Sum) -> None:
        self.count += other.count
        self.letters += other.letters
        self.stalls += other.stalls
        self.seconds += other.seconds
        self.longest = max(self.longest, other.longest)
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]

    def add_many(self, seconds: Sequence[float]) -> None:
        self.count += len(seconds)
        self.seconds += sum(seconds)
        self.longest = max(self.longest, *seconds)
        for bucket in map(histograms.bucket_of, seconds):
            self.buckets[bucket] += 1


_PLAIN: dict[JobState, Outcome] = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
}
_WAITS: dict[str, Outcome] = {"limited": "limited", "held": "held", "snoozed": "snoozed"}


def outcome(state: JobState, attempt: str | None, ending: str) -> Outcome:
    """How an attempt counts that left its job in the state, by its record and its ending."""
    if state in _PLAIN:
        return _PLAIN[state]
    if attempt is not None:
        return "retried"
    return _WAITS.get(ending, "released")


_ADD = """
WITH d AS MATERIALIZED (SELECT * FROM jsonb_to_recordset(%s::jsonb) AS t(kind text, queue text,
  outcome text, count bigint, letters bigint, stalls bigint, seconds float8, longest float8,
  buckets bigint[]))
INSERT INTO jobs_minute AS m (kind, queue, outcome, minute, count, letters, stalls, seconds,
  longest, buckets)
SELECT d.kind, d.queue, d.outcome, t.minute, d.count, d.letters, d.stalls, d.seconds, d.longest,
  d.buckets
FROM d, (VALUES (date_trunc('minute', jobs_clock())), (%s::timestamptz)) AS t(minute)
-- Two that add to the same rows meet them in the same order.
ORDER BY t.minute, d.kind, d.queue, d.outcome
ON CONFLICT (minute, kind, queue, outcome) DO UPDATE SET count = m.count + excluded.count,
  letters = m.letters + excluded.letters, stalls = m.stalls + excluded.stalls,
  seconds = m.seconds + excluded.seconds, longest = greatest(m.longest, excluded.longest),
  buckets = ARRAY(SELECT coalesce(a, 0) + coalesce(b, 0)
    FROM unnest(m.buckets, excluded.buckets) WITH ORDINALITY AS u(a, b, n) ORDER BY n)
"""


class Recorder:
    """The statistics that this process has gathered and not written yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, str, Outcome], _Sum] = {}
        self._due: float | None = None
        self._deferring = False

    def defer(self, on: bool = True) -> None:
        """From now on somebody calls ``flush`` when it is due; otherwise notes are written."""
        self._deferring = on

    def note(self, notes: Iterable[Note]) -> None:
        """The notes count, once what this thread has written is committed."""
        kept = list(notes)
        self._after_commit(lambda: self._add(kept))

    def note_successes(self, kind: str, queue: str, seconds: Sequence[float]) -> None:
        """This many attempts succeeded; for hot paths."""

        def add() -> None:
            with self._lock:
                self._sum((kind, queue, "succeeded")).add_many(seconds)
            self._flush_unless_deferring()

        self._after_commit(add)

    def _after_commit(self, add: Callable[[], None]) -> None:
        transaction.on_commit(add, using=sql.alias(), robust=True)

    def wait(self) -> float | None:
        """Seconds until there is something to write; None while nothing is gathered."""
        due = self._due
        return None if due is None else max(0.0, due - time.monotonic())

    def flush(self) -> None:
        """What was gathered is in the database, kept, or lost. Never raises for the database."""
        with self._lock:
            sums, self._sums, self._due = self._sums, {}, None
        if not sums:
            return
        rows = [
            {
                "kind": kind,
                "queue": queue,
                "outcome": how,
                "count": one.count,
                "letters": one.letters,
                "stalls": one.stalls,
                "seconds": one.seconds,
                "longest": one.longest,
                "buckets": one.buckets,
            }
            for (kind, queue, how), one in sums.items()
        ]
        try:
            sql.repeating(lambda: sql.bound_rows(_ADD, [json.dumps(rows), TOTAL]))
        except Error as error:
            if sql.sqlstate(error) and not sql.is_refusal(error):
                self._keep(sums)  # the server has said that nothing was written
            else:
                log.warning("the statistics of %d attempts are lost: %s", _count(sums), error)

    def _keep(self, sums: dict[tuple[str, str, Outcome], _Sum]) -> None:
        with self._lock:
            for key, one in sums.items():
                self._sum(key).merge(one)

    def _add(self, notes: list[Note]) -> None:
        with self._lock:
            for note in notes:
                self._sum((note.kind, note.queue, note.outcome)).add(note)
        self._flush_unless_deferring()

    def _sum(self, key: tuple[str, str, Outcome]) -> _Sum:
        if (known := self._sums.get(key)) is None:
            known = self._sums[key] = _Sum()
        if self._due is None:
            self._due = time.monotonic() + INTERVAL
        return known

    def _flush_unless_deferring(self) -> None:
        if not self._deferring:
            self.flush()


def _count(sums: dict[tuple[str, str, Outcome], _Sum]) -> int:
    return sum(one.count for one in sums.values())


recorder = Recorder()
"""Of this process."""
