"""Schedules: each due slot becomes one job, however many dispatchers look.

A schedule's row is locked while its slots are made into jobs, and remembers in the same
transaction how far it has come: a slot never comes back, also when its job is long deleted.
Row locks are taken in this order: schedule, then whatever the enqueue takes.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from django.db import Error, transaction

from jobs import registry, timetable
from jobs.clockwork import Rule
from jobs.engine import sql
from jobs.engine.intake import enqueue
from jobs.engine.timetables import COLUMNS, Row, schedule_place
from jobs.redaction import redact_text

log = logging.getLogger("jobs.schedules")

LATE = timedelta(seconds=60)
"""A slot older than this when somebody looks is a missed one."""
ALL_LIMIT = 100
"""Missed slots that one tick makes up for, per schedule that wants all of them."""
TICK_LIMIT = 200
"""Schedules that one tick serves."""
JUST_BEFORE = timedelta(microseconds=1)


def tick() -> list[UUID]:
    """Every due slot of the schedules that nobody else is looking at has its job.

    A schedule whose job cannot be made keeps its slot and says why; the others go on.
    """
    made: list[UUID] = []
    seen: list[int] = []
    for _ in range(TICK_LIMIT):
        looked: list[Row] = []
        try:
            found = sql.repeating(partial(_serve_one, seen, looked))
        except Exception as error:
            if not looked or (isinstance(error, Error) and _concerns_all(error)):
                raise
            _note_error(looked[-1], error)
            found = []
        if found is None:
            break
        seen.append(looked[-1].id)
        made.extend(found)
    return made


def _concerns_all(error: Error) -> bool:
    return sql.is_disconnected(error) or sql.connection().in_atomic_block


_DUE = f"""
SELECT {COLUMNS} FROM jobs_schedule
WHERE enabled AND id <> ALL(%s) AND CASE WHEN paused_at IS NULL
  THEN next_slot <= jobs_clock() ELSE paused_until <= jobs_clock() END
ORDER BY next_slot, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""  # noqa: S608

_ADVANCE = """
UPDATE jobs_schedule SET last_slot = greatest(last_slot, %s), next_slot = %s, error = '',
  paused_at = NULL, paused_until = NULL, paused_by = '', paused_reason = ''
WHERE id = %s
"""


def _serve_one(seen: list[int], looked: list[Row]) -> list[UUID] | None:
    """The most overdue schedule is up to date; answers its new jobs, None when none is due."""
    with transaction.atomic(using=sql.alias()):
        found = sql.rows(_DUE, [seen])
        if not found:
            return None
        row = Row(*found[0])
        looked.append(row)
        slots, handled, following = due_slots(row)
        jobs = [job_id for slot in slots if (job_id := _make(row, slot)) is not None]
        sql.run(_ADVANCE, [handled, following, row.id])
        return jobs


def due_slots(row: Row) -> tuple[list[datetime], datetime | None, datetime | None]:
    """The slots to make jobs for, the last one that is done with now, and the next one."""
    rule, first = row.rule(), row.next_slot
    if row.paused_at is not None and row.paused_until is not None:
        resumed = rule.after(row.paused_until - JUST_BEFORE)
        first = max(first, resumed) if first and resumed else resumed
    if first is not None and row.last_slot is not None and first <= row.last_slot:
        first = rule.after(row.last_slot)
    if first is None or first > row.now:
        return [], row.last_slot, first
    if row.missed == "all":
        slots, following = _some(rule, first, row.now)
        return slots, slots[-1], following
    newest = rule.newest(first, row.now)
    wanted = row.missed == "latest" or row.now - newest <= LATE
    return [newest] if wanted else [], newest, rule.after(newest)


def _some(rule: Rule, first: datetime, now: datetime) -> tuple[list[datetime], datetime | None]:
    slots: list[datetime] = []
    slot: datetime | None = first
    while slot is not None and slot <= now and len(slots) < ALL_LIMIT:
        slots.append(slot)
        slot = rule.after(slot)
    return slots, slot


def _make(row: Row, slot: datetime) -> UUID | None:
    """The job of the slot, unless it has one or an earlier job is in the way."""
    if has_job(row.id, slot):
        return None
    if row.overlap == "skip" and (busy := unfinished(row.id)):
        log.info("slot %s of schedule %s is left out: job %s is unfinished", slot, row.name, busy)
        return None
    return make_job(row, slot)


def make_job(row: Row, slot: datetime | None) -> UUID | None:
    """A job of the schedule; None when its unique key stands for an earlier job."""
    handler = registry.get(row.kind)
    payload = handler.payload.from_text(row.payload, row.payload_version, schedule_place(row.name))
    made = enqueue(payload, **timetable.revived(json.loads(row.options)))
    if made.deduplicated:
        return None
    sql.run(
        "UPDATE jobs_job SET schedule_id = %s, slot_at = %s WHERE id = %s", [row.id, slot, made.id]
    )
    return made.id


def has_job(schedule_id: int, slot: datetime) -> bool:
    """Whether a job was made for the slot, and is still there."""
    found = sql.rows(
        "SELECT 1 FROM jobs_job WHERE schedule_id = %s AND slot_at = %s", [schedule_id, slot]
    )
    return bool(found)


def unfinished(schedule_id: int) -> UUID | None:
    """A job of the schedule that has not ended, if any."""
    found = sql.rows(
        "SELECT id FROM jobs_job WHERE schedule_id = %s "
        "AND state IN ('blocked', 'pending', 'queued', 'running') LIMIT 1",
        [schedule_id],
    )
    return found[0][0] if found else None


def _note_error(row: Row, error: Exception) -> None:
    """The schedule says why it makes no jobs; its slot is tried again."""
    text = redact_text(f"{type(error).__name__}: {error}", limit=500, head=1)[:500]
    if text != row.error:
        log.error("schedule %s cannot make its job: %s", row.name, text)
        sql.run("UPDATE jobs_schedule SET error = %s WHERE id = %s", [text, row.id])
