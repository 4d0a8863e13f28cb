"""The numbers of apps' metrics: gathered in each process, and added to one row of each series.

An executor writes what it gathered once a second, by the thread that settles its jobs; any other
process by a thread that lives as long as there is something to write. A process that is killed
loses what it gathered in that second. Nothing is written by itself where Django's test environment
is set up: ``recorder.flush()`` does it there.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from uuid import uuid4

from django.core import mail
from django.db import Error, transaction

from jobs.engine import sql
from jobs.metrics import declare
from jobs.metrics.declare import Series

log = logging.getLogger("jobs.metrics")

INTERVAL = 1.0
"""Seconds for which a process gathers."""
RENEWAL = 10.0
"""Seconds after which a process says again what its gauges are."""
HEARD_FOR = 30.0
"""Seconds for which a process counts that says nothing."""
_LOCK = 0x6A6D  # of the advisory locks, the class of metrics that get new series


class _Sum:
    __slots__ = ("buckets", "value")

    def __init__(self, size: int) -> None:
        self.value = 0.0
        self.buckets = [0] * size

    def merge(self, other: _Sum) -> None:
        self.value += other.value
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]


class Recorder:
    """What this process has counted and not written yet, and what its gauges are."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Start with nothing, as a forked process does: the rest is its parent's to write."""
        self._lock = threading.Lock()
        self._sums: dict[Series, _Sum] = {}
        self._gauges: dict[Series, float] = {}
        self._written: dict[Series, Series] = {}
        """Series that have a row, and the row that they were given."""
        self._due: float | None = None
        self._is_new = False
        self._call: Callable[[], object] | None = None
        self._thread: threading.Thread | None = None
        self._is_known_to_exit = False
        self._bell = threading.Event()
        self.process = f"{socket.gethostname()[:60]}:{os.getpid()}:{uuid4().hex[:8]}"

    # ---- counting

    def add(self, series: Series, amount: float) -> None:
        """Count so much more."""
        with self._lock:
            self._sum(series).value += amount
        self._wake()

    def observe(self, series: Series, number: float, bucket: int) -> None:
        """Count a number in its bucket."""
        with self._lock:
            found = self._sum(series)
            found.value += number
            found.buckets[bucket] += 1
        self._wake()

    def set(self, series: Series, number: float) -> None:
        """Note what a gauge is by now."""
        with self._lock:
            self._gauges[series] = number
            self._be_due(INTERVAL)
        self._wake()

    def gathered(self, series: Series) -> float:
        """Return what was counted and not written yet, or what this process's gauge is."""
        found = self._sums.get(series)
        return found.value if found else self._gauges.get(series, 0.0)

    def _sum(self, series: Series) -> _Sum:
        found = self._sums.get(series)
        if found is None:
            found = self._sums[series] = _Sum(len(series.bounds) + 1 if series.bounds else 0)
            self._be_due(INTERVAL)
        return found

    def _be_due(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        if self._due is None or due < self._due:
            self._due = due
            self._is_new = True

    # ---- writing

    def defer(self, call: Callable[[], object]) -> None:
        """Leave flushing to the caller, who is woken by ``call`` when something becomes due."""
        self._call = call

    def wait(self) -> float | None:
        """Return the seconds until there is something to write; None while there is nothing."""
        due = self._due
        return None if due is None else max(0.0, due - time.monotonic())

    def flush(self) -> None:
        """Write what was gathered, or keep it while the database is away; never raises for it."""
        with self._lock:
            sums, self._sums = self._sums, {}
            gauges = dict(self._gauges)
            self._due = None
            if gauges:
                self._be_due(RENEWAL)
        if not sums and not gauges:
            return
        try:
            sql.repeating(lambda: self._write(sums, gauges))
        except Error as error:
            if sql.sqlstate(error) and not sql.is_refusal(error):
                self._keep(sums)  # the server has said that nothing was written
            else:
                log.warning("%d numbers of metrics are lost: %s", len(sums), error)

    def leave(self) -> None:
        """The process ends: write the rest, and count for no gauge any more."""
        self.flush()
        self._call = None
        if self._gauges:
            self._gauges.clear()
            with suppress(Error):
                sql.run("DELETE FROM jobs_metric WHERE process = %s", [self.process])

    def _write(self, sums: dict[Series, _Sum], gauges: dict[Series, float]) -> None:
        with transaction.atomic(using=sql.alias()):
            rows = self._rows_of([*sums, *gauges])
            told: dict[tuple[Series, str], _Sum] = {}
            for one, found in sums.items():
                told.setdefault((rows[one], ""), _Sum(len(found.buckets))).merge(found)
            for one, number in gauges.items():
                told.setdefault((rows[one], self.process), _Sum(0)).value += number
            sql.rows(_ADD, [json.dumps([_told(*row, found) for row, found in told.items()])])
        self._written.update(rows)

    def _rows_of(self, wanted: Sequence[Series]) -> dict[Series, Series]:
        """Return the row of each series: its own, or, beyond the bound, that of all others."""
        rows = {one: self._written[one] for one in wanted if one in self._written}
        for name in sorted({one.name for one in wanted if one not in rows}):
            new = [one for one in wanted if one.name == name and one not in rows]
            rows |= _admitted(name, new)
        return rows

    def _keep(self, sums: dict[Series, _Sum]) -> None:
        with self._lock:
            for series, old in sums.items():
                self._sum(series).merge(old)

    # ---- the thread of processes that are no executors

    def _wake(self) -> None:
        if not self._is_new:
            return
        self._is_new = False
        if self._call is not None:
            self._call()
        elif self._thread is not None:
            self._bell.set()
        elif not hasattr(mail, "outbox"):
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._live, daemon=True, name="metrics")
                    self._thread.start()
                if not self._is_known_to_exit:
                    self._is_known_to_exit = True
                    atexit.register(self.leave)

    def _live(self) -> None:
        try:
            while (wait := self._rest()) is not None:
                if wait:
                    self._bell.wait(wait)
                    continue
                try:
                    self.flush()
                    sql.connection().close_if_unusable_or_obsolete()
                    sql.give_back()
                except Exception:
                    log.exception("metrics are lost")
                    sql.close()
        finally:
            sql.close()

    def _rest(self) -> float | None:
        """Return the seconds for which the thread may rest; None where it has nothing to do."""
        self._bell.clear()
        with self._lock:
            wait = self.wait()
            if wait is None or self._call is not None:
                self._thread = None
                return None
            return wait


def _admitted(name: str, new: Sequence[Series]) -> dict[Series, Series]:
    """Return the rows of series that this process has not written before.

    One process at a time, so that a metric gets no more series than it may have.
    """
    sql.rows("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCK, name])
    there = {
        tuple(labels)
        for (labels,) in sql.rows("SELECT DISTINCT labels FROM jobs_metric WHERE name = %s", [name])
    }
    found = {}
    most = declare.most_of(name)
    for series in new:
        other = (declare.OTHER,) * len(series.labels)
        if series.labels not in there and len(there - {other}) >= most:
            found[series] = Series(name, other, series.bounds)
        else:
            there.add(series.labels)
            found[series] = series
    return found


def _told(row: Series, process: str, found: _Sum) -> dict[str, object]:
    return {
        "name": row.name,
        "labels": row.labels,
        "bounds": row.bounds,
        "process": process,
        "value": found.value,
        "buckets": found.buckets,
    }


_ADD = """
INSERT INTO jobs_metric AS m (name, labels, bounds, process, value, buckets, seen_at)
SELECT name, labels, bounds, process, value, buckets, jobs_clock()
FROM jsonb_to_recordset(%s::jsonb)
  AS t(name text, labels text[], bounds float8[], process text, value float8, buckets bigint[])
-- Two that add to the same rows meet them in the same order.
ORDER BY name, labels, bounds, process
ON CONFLICT (name, labels, bounds, process) DO UPDATE SET seen_at = excluded.seen_at,
  value = excluded.value + CASE WHEN m.process = '' THEN m.value ELSE 0 END,
  buckets = ARRAY(SELECT coalesce(a, 0) + coalesce(b, 0)
    FROM unnest(m.buckets, excluded.buckets) WITH ORDINALITY AS u(a, b, n) ORDER BY n)
"""

_LIVE = "(process = '' OR seen_at > jobs_clock() - %s * interval '1 s')"


def value(series: Series) -> float:
    """Return what all processes have counted, and this one has not written yet."""
    [(found,)] = sql.rows(
        "SELECT coalesce(sum(value), 0) FROM jobs_metric "  # noqa: S608 - a constant
        f"WHERE name = %s AND labels = %s::text[] AND bounds = %s::float8[] AND {_LIVE} "
        "AND process <> %s",
        [series.name, [*series.labels], [*series.bounds], HEARD_FOR, recorder.process],
    )
    return float(found) + recorder.gathered(series)


def rows(names: Sequence[str]) -> list[sql.Row]:
    """Return name, labels, bounds, value and buckets of what was counted of these metrics."""
    return sql.rows(
        "SELECT name, labels, bounds, value, buckets FROM jobs_metric "  # noqa: S608 - a constant
        f"WHERE name = ANY (%s) AND {_LIVE} ORDER BY name, labels",
        [[*names], HEARD_FOR],
    )


def forget_dead() -> int:
    """Delete the gauges of processes that have said nothing for an hour; return how many."""
    return sql.run(
        "DELETE FROM jobs_metric WHERE process <> '' AND seen_at < jobs_clock() - interval '1 h'"
    )


recorder = Recorder()
"""Of this process."""
with suppress(AttributeError):
    os.register_at_fork(after_in_child=recorder._begin)
