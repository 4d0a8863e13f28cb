"""The rows of schedules: what was declared in code or made by people, as the ticks read it."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from jobs import conf, timetable
from jobs.clockwork import Rule
from jobs.engine import sql
from jobs.engine.drafts import Draft, entry
from jobs.errors import JobsError
from jobs.keyring import Place
from jobs.timetable import Timetable

log = logging.getLogger("jobs.schedules")

COLUMNS = (
    "id, name, kind, payload::text, payload_version, options::text, cron, interval, time_zone, "
    "missed, overlap, enabled, is_declared, paused_at, paused_until, last_slot, next_slot, "
    "error, created_at, jobs_clock()"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule's row, with the clock's time when it was read."""

    id: int
    name: str
    kind: str
    payload: str
    payload_version: int
    options: str
    cron: str
    interval: float | None
    time_zone: str
    missed: str
    overlap: str
    enabled: bool
    is_declared: bool
    paused_at: datetime | None
    paused_until: datetime | None
    last_slot: datetime | None
    next_slot: datetime | None
    error: str
    created_at: datetime
    now: datetime

    def rule(self) -> Rule:
        """The rule of the clock."""
        return timetable.rule(self.cron, self.interval, self.time_zone, self.created_at)

    def resumed_after(self, moment: datetime) -> datetime | None:
        """The next slot when nothing up to the moment is to be made up for."""
        return self.rule().after(max(moment, self.last_slot or moment))


def verify(t: Timetable) -> str:
    """The payload as text, when a job can be made of it; raises an EnqueueError."""
    entry(Draft(t.payload, **timetable.revived(t.options)))
    place = schedule_place(t.name) if t.payload.__sensitive__ else None
    return t.payload.to_text(conf.settings().PAYLOAD_LIMIT, place)


def schedule_place(name: str) -> Place:
    """Where the payload of a schedule belongs, until it is a job's."""
    return Place("jobs_schedule", "payload", name)


_INSERT = """
INSERT INTO jobs_schedule (name, kind, payload, payload_version, options, cron, interval,
  time_zone, missed, overlap, is_declared)
VALUES (%s, %s, %s::jsonb, %s, %s::jsonb, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name) DO NOTHING RETURNING id
"""


def insert(t: Timetable, is_declared: bool) -> bool:
    """The schedule has a row and a next slot; False when its name is taken."""
    text = verify(t)
    with transaction.atomic(using=sql.alias()):
        made = sql.rows(
            _INSERT,
            [
                t.name,
                t.payload.kind,
                text,
                t.payload.version,
                json.dumps(t.options),
                t.cron,
                t.interval,
                t.time_zone,
                t.missed,
                t.overlap,
                is_declared,
            ],
        )
        if not made:
            return False
        [row] = lock("id = %s", [made[0][0]])
        set_next(row, row.rule().after(row.created_at))
    return True


def read(condition: str, parameters: list[Any]) -> list[Row]:
    """The rows that fulfil the condition."""
    statement = f"SELECT {COLUMNS} FROM jobs_schedule WHERE {condition} ORDER BY id"  # noqa: S608
    return [Row(*found) for found in sql.rows(statement, parameters)]


def lock(condition: str, parameters: list[Any]) -> list[Row]:
    """The same; nobody else changes these rows in this transaction."""
    statement = f"SELECT {COLUMNS} FROM jobs_schedule WHERE {condition} ORDER BY id FOR UPDATE"  # noqa: S608
    return [Row(*found) for found in sql.rows(statement, parameters)]


def set_next(row: Row, slot: datetime | None) -> None:
    """The slot is the next one."""
    sql.run("UPDATE jobs_schedule SET next_slot = %s WHERE id = %s", [slot, row.id])


def sync() -> None:
    """What the code declares stands in the table, and what it declares no more is disabled.

    Pauses by people stay. A wrong declaration is logged and leaves its row as it was.
    """
    every = timetable.declared()
    good = [t for t in every if _is_good(t)]
    sql.repeating(lambda: _write(good, {t.name for t in every}))


def _is_good(t: Timetable) -> bool:
    try:
        verify(t)
    except JobsError as error:
        log.error("schedule %s is declared wrongly: %s", t.name, error)
        return False
    return True


def _write(good: list[Timetable], names: set[str]) -> None:
    with transaction.atomic(using=sql.alias()):
        for t in good:
            insert(t, True)
        wanted = {t.name: t for t in good}
        for row in lock("is_declared OR name = ANY(%s)", [sorted(wanted)]):
            if not row.is_declared:
                log.error("schedule %s was made by a person; the code's is left out", row.name)
            elif row.name in wanted:
                adapt(row, wanted[row.name])
            elif row.name not in names and row.enabled:
                sql.run("UPDATE jobs_schedule SET enabled = false WHERE id = %s", [row.id])
                log.warning("schedule %s is declared no more and disabled", row.name)


_ADAPT = """
UPDATE jobs_schedule SET kind = %s, payload = %s::jsonb, payload_version = %s,
  options = %s::jsonb, cron = %s, interval = %s, time_zone = %s, missed = %s, overlap = %s,
  enabled = true, error = '', next_slot = %s
WHERE id = %s
"""


def adapt(row: Row, t: Timetable) -> None:
    """The row says what is declared. Slots of another rule, or of an absence, are not made up."""
    told = (row.cron, row.interval, row.time_zone)
    slot = row.next_slot
    if not row.enabled or told != (t.cron, t.interval, t.time_zone):
        slot = t.rule(row.created_at).after(max(row.now, row.last_slot or row.now))
    sql.run(
        _ADAPT,
        [
            t.payload.kind,
            verify(t),
            t.payload.version,
            json.dumps(t.options),
            t.cron,
            t.interval,
            t.time_zone,
            t.missed,
            t.overlap,
            slot,
            row.id,
        ],
    )
