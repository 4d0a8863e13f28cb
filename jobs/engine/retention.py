"""Retention: what has ended and was kept long enough is deleted, a little at a time.

A sweep looks at everything once, oldest first, in portions of one short transaction each; rows
that somebody else has locked are left for the next sweep. A job goes with its attempts, dead
letters, effects and edges, and stays while its dead letter is open, its batch is not done, one of
its effects is in doubt, or a child that has not ended may still read its result.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import Error, transaction

from jobs import conf, retention
from jobs.engine import kept, leases, leftovers, letters, metrics, roll, sql
from jobs.engine.kept import FIRST, NOBODY, NOTHING, Place, Portion, Steps
from jobs.states import JobState

log = logging.getLogger("jobs.retention")

PAGE = 1000
"""Rows that one statement looks at."""
CHUNK = 1000
"""Rows that one transaction deletes."""


def sweep(*, dry_run: bool = False, chunk: int = CHUNK) -> Steps:
    """Everything that was kept long enough is gone after the last step."""
    yield from letters.expire(dry_run, chunk)
    settings = conf.settings()
    keeps = {
        JobState.SUCCEEDED: (settings.KEEP_COMPLETED, "keep_completed"),
        JobState.FAILED: (settings.KEEP_FAILED, "keep_failed"),
        JobState.CANCELLED: (settings.KEEP_CANCELLED, "keep_cancelled"),
        JobState.EXPIRED: (settings.KEEP_EXPIRED, "keep_expired"),
    }
    for state, (default, rule) in keeps.items():
        yield from _jobs(state, default, rule, dry_run, chunk)
    for walk in (
        _Walk("deadletters", _LETTERS, settings.KEEP_DEAD_LETTERS),
        _Walk("batches", _BATCHES, settings.KEEP_BATCHES),
        _Walk("keys", _KEYS, timedelta(0)),
        _Walk("minutes", _MINUTES, settings.KEEP_STATISTICS),
        _Walk("quarters", _QUARTERS, settings.KEEP_STATISTICS),
        _Walk("metrics", _METRICS, settings.KEEP_STATISTICS),
        _Walk("deliveries", _DELIVERIES, settings.KEEP_DELIVERIES),
        _Walk("audit", _AUDIT, settings.KEEP_AUDIT),
        _Walk("answers", _ANSWERS, timedelta(hours=24)),
    ):
        yield from walk.steps(dry_run, chunk)
    yield from map(Portion, leftovers.bulks(settings.KEEP_BULKS, dry_run, chunk))
    yield from map(Portion, leftovers.causes(settings.KEEP_CAUSES, dry_run, chunk))
    yield from _of_apps(dry_run, chunk)
    if not dry_run:
        gone = {"leases": leases.forget_dead(), "workers": roll.forget_lost()}
        yield Portion({**gone, "gauges": metrics.forget_dead()})


# ---- jobs


_PAGE = """
SELECT id, kind, finished_at FROM jobs_job
WHERE state = %s AND (finished_at, id) > (%s, %s) AND finished_at <= %s
ORDER BY finished_at, id LIMIT %s
"""


def _jobs(state: JobState, default: timedelta, rule: str, dry_run: bool, chunk: int) -> Steps:
    table = kept.Table(_NEWEST, [state.value])
    rules = yield from kept.rules(table, default, kept.keeps(rule))
    place: Place = (FIRST, NOBODY)
    while True:
        page = sql.bound_rows(_PAGE, [state.value, *place, rules.newest, PAGE])
        ids = [
            job_id for job_id, kind, finished_at in page if rules.lets_go(kind, finished_at, job_id)
        ]
        for part in _parts(ids, chunk):
            yield _remove(state, part, dry_run)
        yield NOTHING
        if len(page) < PAGE:
            return
        place = (page[-1][2], page[-1][0])


_NEWEST = """
SELECT id, kind, finished_at FROM jobs_job WHERE state = %s AND (finished_at, id) < (%s, %s)
ORDER BY finished_at DESC, id DESC LIMIT %s
"""


_LOCK = """
SELECT id FROM jobs_job WHERE id = ANY (%s) AND state = %s ORDER BY id FOR UPDATE SKIP LOCKED
"""

_FREE = """
SELECT j.id FROM jobs_job j WHERE j.id = ANY (%s) AND j.state = %s
  AND NOT EXISTS (SELECT 1 FROM jobs_deadletter d WHERE d.job_id = j.id AND d.state = 'open')
  AND NOT EXISTS (SELECT 1 FROM jobs_effect e WHERE e.job_id = j.id
    AND e.state IN ('intent', 'in_doubt'))
  AND (j.batch_id IS NULL OR NOT EXISTS (SELECT 1 FROM jobs_batch b WHERE b.id = j.batch_id
    AND b.state <> 'done'))
  AND NOT EXISTS (SELECT 1 FROM jobs_dependency d JOIN jobs_job c ON c.id = d.child_id
    WHERE d.parent_id = j.id AND c.state IN ('blocked', 'pending', 'queued', 'running'))
"""

_DELETE = """
WITH a AS (DELETE FROM jobs_attempt WHERE job_id = ANY (%s) RETURNING 1),
d AS (DELETE FROM jobs_deadletter WHERE job_id = ANY (%s) RETURNING 1),
e AS (DELETE FROM jobs_effect WHERE job_id = ANY (%s) RETURNING 1),
s AS (DELETE FROM jobs_search WHERE job_id = ANY (%s)),
p AS (DELETE FROM jobs_dependency WHERE parent_id = ANY (%s) OR child_id = ANY (%s)
  RETURNING 1)
SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM d), (SELECT count(*) FROM e),
  (SELECT count(*) FROM p)
"""


def _remove(state: JobState, ids: list[UUID], dry_run: bool) -> Portion:
    """Those of the jobs that nothing holds are gone, their children first."""
    if dry_run:
        return Portion({"jobs": len(sql.bound_rows(_FREE, [ids, state.value]))})

    def write() -> Portion:
        with transaction.atomic(using=sql.alias()):
            locked = [row[0] for row in sql.bound_rows(_LOCK, [ids, state.value])]
            # Asked by a second statement, which sees what was committed before the lock.
            free = [row[0] for row in sql.bound_rows(_FREE, [locked, state.value])]
            if not free:
                return NOTHING
            [(attempts, letters, effects, edges)] = sql.rows(_DELETE, [free] * 6)
            gone = sql.run("DELETE FROM jobs_job WHERE id = ANY (%s)", [free])
        return Portion(
            {
                "jobs": gone,
                "attempts": attempts,
                "deadletters": letters,
                "effects": effects,
                "dependencies": edges,
            }
        )

    return sql.repeating(write)


# ---- everything else


def _of_apps(dry_run: bool, chunk: int) -> Steps:
    """What apps have of their own; one that fails keeps no other from going on."""
    for name, clear in retention.sweepers().items():
        try:
            yield from map(Portion, clear(dry_run, chunk))
        except Exception as error:
            if isinstance(error, Error) and sql.is_disconnected(error):
                raise
            log.exception("sweeper %s failed", name)


@dataclass(frozen=True, slots=True)
class _Table:
    """How to walk over a table: its name, the column of its index, and which rows go."""

    name: str
    column: str
    free: str
    """Takes the cutoff; a row that goes is no newer by the column, either."""


_LETTERS = _Table("jobs_deadletter", "opened_at", "t.state <> 'open' AND t.closed_at < %s")
_BATCHES = _Table(
    "jobs_batch",
    "created_at",
    "t.state = 'done' AND t.finished_at < %s "
    "AND NOT EXISTS (SELECT 1 FROM jobs_job j WHERE j.batch_id = t.id)",
)
# A key without an end never comes up: the index along which this walks does not have it.
_KEYS = _Table(
    "jobs_key",
    "expires_at",
    "t.expires_at <= %s AND NOT EXISTS (SELECT 1 FROM jobs_job j WHERE j.id = t.job_id "
    "AND j.state IN ('blocked', 'pending', 'queued'))",
)

# The rows that count since ever have a minute that never comes.
_MINUTES = _Table("jobs_minute", "minute", "t.minute < %s")
_QUARTERS = _Table("jobs_quarter", "at", "t.at < %s")
_METRICS = _Table("jobs_metric", "seen_at", "t.seen_at < %s")
_AUDIT = _Table("jobs_audit", "at", "t.at < %s")
_ANSWERS = _Table("jobs_api_answer", "created_at", "t.created_at < %s")

# Also those that are held, or whose job has ended otherwise; what is still tried stays.
_DELIVERIES = _Table(
    "jobs_webhookdelivery",
    "created_at",
    "t.created_at < %s AND (t.closed_at IS NOT NULL OR NOT EXISTS (SELECT 1 FROM jobs_job j "
    "WHERE j.id = t.job_id AND j.state IN ('blocked', 'pending', 'queued', 'running')))",
)


@dataclass(frozen=True, slots=True)
class _Walk:
    """One table's part of a sweep."""

    name: str
    table: _Table
    keep: timedelta

    def steps(self, dry_run: bool, chunk: int) -> Steps:
        [(now,)] = sql.rows("SELECT jobs_clock()")
        table, before = self.table, now - self.keep
        page = (
            f"SELECT id, {table.column} FROM {table.name} "  # noqa: S608 - constant names
            f"WHERE ({table.column}, id) > (%s, %s) AND {table.column} <= %s "
            f"ORDER BY {table.column}, id LIMIT %s"
        )
        has_uuid = table in (_BATCHES, _DELIVERIES, _AUDIT)
        place: Place = (FIRST, NOBODY if has_uuid else 0)
        while True:
            found = sql.rows(page, [*place, before, PAGE])
            ids = [row[0] for row in found]
            for part in _parts(ids, chunk):
                yield Portion({self.name: self._remove(part, before, dry_run)})
            yield NOTHING
            if len(found) < PAGE:
                return
            place = (found[-1][1], found[-1][0])

    def _remove(self, ids: list[Any], before: datetime, dry_run: bool) -> int:
        free = (
            f"SELECT t.id FROM {self.table.name} t "  # noqa: S608 - constant names
            f"WHERE t.id = ANY (%s) AND {self.table.free}"
        )
        if dry_run:
            return len(sql.rows(free, [ids, before]))
        delete = (
            f"DELETE FROM {self.table.name} WHERE id IN "  # noqa: S608 - constant names
            f"({free} ORDER BY t.id FOR UPDATE SKIP LOCKED)"
        )

        def write() -> int:
            with transaction.atomic(using=sql.alias()):
                # Nobody else may delete what the audit says.
                sql.rows("SELECT set_config('jobs.retention', 'on', true)")
                gone = sql.run(delete, [ids, before])
                sql.rows("SELECT set_config('jobs.retention', '', true)")
                return gone

        return sql.repeating(write)


def _parts(ids: list[Any], size: int) -> Iterator[list[Any]]:
    return (ids[first : first + size] for first in range(0, len(ids), size))


# ---- a little at a time


class Sweeper:
    """Sweeps beside other duties: a short while at a time, more often while there is much to do."""

    BUDGET = 0.02
    """Seconds for which it works at a time, and a portion more."""
    CHUNK = 100
    BUSIEST, WALKING, USUAL, IDLEST = 0.1, 0.5, 5.0, 300.0
    """Seconds between two times."""

    def __init__(self) -> None:
        self.interval = self.USUAL
        self._steps: Iterator[Portion] | None = None
        self._rest = self.USUAL
        self._gone = 0

    def run(self) -> Counter[str]:
        """A part of a sweep is done; answers what went."""
        total: Counter[str] = Counter()
        steps, self._steps = self._steps or sweep(chunk=self.CHUNK), None
        end = time.monotonic() + self.BUDGET
        for portion in steps:
            total.update(portion.rows)
            if time.monotonic() >= end:
                self._steps = steps
                break
        self._gone += total.total()
        if self._steps is not None:
            # Not through yet: hurry where rows are going, walk past those that stay.
            hurried = max(self.BUSIEST, self.interval / 2)
            self.interval = hurried if total.total() else self.WALKING
        else:
            self._rest = self.USUAL if self._gone else min(self.IDLEST, self._rest * 2)
            self.interval = self._rest
            self._gone = 0
        return total
