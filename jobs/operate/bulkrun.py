"""Carrying a bulk operation out: a step at a time, each one transaction that decides some items.

Whoever makes a step holds a lock for it, and an item is decided in the transaction that acts on
its job. So each item is acted on once, whatever is killed or started twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from jobs.engine import sql
from jobs.models import Bulk
from jobs.operate import acts
from jobs.operate.bulkacts import Item, Outcome, carry_out
from jobs.operate.bulkplans import ACTIONS
from jobs.operate.bulkscan import Selection, from_json
from jobs.operate.targets import Place
from jobs.principals import Principal

PAGE = 1000
"""Jobs that one step finds."""
CHUNK = 250
"""Jobs that one step acts on: its rows are locked for some 50 ms."""
SLACK = timedelta(seconds=2)
"""How far the pace may catch up after a step that came late."""
LOOK = 0.5
"""Seconds between two looks at what became of the first ones."""
_ENOUGH = 20
"""Jobs that must have ended before their share of failures counts."""
_RECENT = 200


def step(bulk_id: UUID) -> float | None:
    """A little more is done; answers how many seconds to wait now, or None where all is over."""
    return sql.repeating(lambda: _step(bulk_id))


def _step(bulk_id: UUID) -> float | None:
    with transaction.atomic(using=sql.alias()):
        lock = bulk_id.int & (2**63 - 1)
        if sql.rows("SELECT pg_try_advisory_xact_lock(%s)", [lock]) == [(False,)]:
            return LOOK
        bulk = Bulk.objects.using(sql.alias()).filter(id=bulk_id).first()
        if bulk is None or bulk.is_over:
            return None
        if bulk.state == "gathering":
            return _gather(bulk)
        if bulk.state == "canary" and bulk.done + bulk.failed >= bulk.canary:
            return _judge(bulk)
        return _act(bulk)


# ---- finding


_ADD = """
WITH a AS (INSERT INTO jobs_bulkitem (bulk_id, job_id, letter_id, created_at)
  SELECT %s, * FROM unnest(%s::uuid[], %s::bigint[], %s::timestamptz[])
  ON CONFLICT (bulk_id, job_id) DO NOTHING RETURNING 1)
SELECT count(*) FROM a
"""


def add(bulk_id: UUID, found: Sequence[tuple[UUID, int | None, datetime]]) -> int:
    """The jobs are items of the operation; answers how many were none before."""
    columns = [list(column) for column in zip(*found, strict=True)] or [[], [], []]
    [(count,)] = sql.rows(_ADD, [bulk_id, *columns])
    return int(count)


def _gather(bulk: Bulk) -> float | None:
    after = None
    if bulk.gathered_at is not None and bulk.gathered_id is not None:
        after = (bulk.gathered_at, bulk.gathered_id)
    on_letters = ACTIONS[bulk.action].on_letters
    selection = Selection(bulk.query, bulk.before, from_json(bulk.scope), on_letters)
    found = selection.page(after, PAGE)
    added = add(bulk.id, [(f.id, f.letter if on_letters else None, f.created_at) for f in found])
    place = (found[-1].created_at, found[-1].id) if found else (None, None)
    state = "gathering" if len(found) == PAGE else "canary" if bulk.canary else "running"
    sql.run(
        "UPDATE jobs_bulk SET total = total + %s, gathered_at = coalesce(%s, gathered_at), "
        "gathered_id = coalesce(%s, gathered_id), state = %s, "
        "started_at = CASE WHEN %s THEN NULL ELSE jobs_clock() END "
        "WHERE id = %s AND state = 'gathering'",
        [added, *place, state, state == "gathering", bulk.id],
    )
    return 0.0


# ---- acting


def _act(bulk: Bulk) -> float | None:
    [(now,)] = sql.rows("SELECT jobs_clock()")
    count, base = _allowed(bulk, now)
    if bulk.state == "canary":
        count = min(count, bulk.canary - bulk.done - bulk.failed)
    if count <= 0:
        return max(0.0, float((base - now).total_seconds()))
    items = [
        Item(*row)
        for row in sql.rows(
            "SELECT id, job_id, letter_id FROM jobs_bulkitem WHERE bulk_id = %s "
            "AND state = 'waiting' ORDER BY created_at, job_id LIMIT %s",
            [bulk.id, count],
        )
    ]
    if not items and bulk.state == "canary":
        return _judge(bulk)
    if not items:
        _end(bulk, "done", "")
        return None
    outcomes = carry_out(bulk, items)
    acted = _write(bulk, outcomes)
    if bulk.per_minute is None:
        wait = 0.0
    else:
        following = base + acted * timedelta(minutes=1) / bulk.per_minute
        sql.run("UPDATE jobs_bulk SET next_at = %s WHERE id = %s", [following, bulk.id])
        wait = max(0.0, float((following - now).total_seconds()))
    if bulk.stop_at is not None and bulk.state == "running" and (why := _too_many(bulk)):
        _end(bulk, "stopped", why)
        return None
    return wait


def _allowed(bulk: Bulk, now: datetime) -> tuple[int, datetime]:
    """How many the pace lets go now, and from when the next one counts."""
    if bulk.per_minute is None:
        return CHUNK, now
    base = max(bulk.next_at or now, now - SLACK)
    if base > now:
        return 0, base
    each = timedelta(minutes=1) / bulk.per_minute
    return min(CHUNK, (now - base) // each + 1), base


_DECIDE = """
UPDATE jobs_bulkitem i SET state = d.state, detail = d.detail, result = d.result,
  is_canary = %s, decided_at = jobs_clock()
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::uuid[]) AS d(id, state, detail, result)
WHERE i.id = d.id
"""


def _write(bulk: Bulk, outcomes: dict[Item, Outcome]) -> int:
    """The outcomes are on their rows and counted; answers how many were acted on."""
    found = list(outcomes.values())
    sql.run(
        _DECIDE,
        [
            bulk.state == "canary",
            [item.id for item in outcomes],
            [one.state for one in found],
            [one.detail for one in found],
            [one.result for one in found],
        ],
    )
    counts = Counter(one.state for one in found)
    numbers = [counts[name] for name in ("done", "skipped", "failed")]
    # The last lock of the transaction, so that an abort never waits for more than this.
    sql.run(
        "UPDATE jobs_bulk SET done = done + %s, skipped = skipped + %s, failed = failed + %s "
        "WHERE id = %s",
        [*numbers, bulk.id],
    )
    return counts["done"] + counts["failed"]


# ---- judging

_ENDS = """
SELECT count(*) FILTER (WHERE j.state = 'succeeded'),
  count(*) FILTER (WHERE j.state IN ('failed', 'expired')),
  count(*) FILTER (WHERE j.state NOT IN ('succeeded', 'failed', 'expired', 'cancelled'))
FROM (SELECT coalesce(result, job_id) AS job_id FROM jobs_bulkitem WHERE bulk_id = %s
  AND state = 'done' AND (is_canary OR NOT %s) ORDER BY id DESC LIMIT %s) i
JOIN jobs_job j ON j.id = i.job_id
"""


def _judge(bulk: Bulk) -> float | None:
    """The rest may go on, or nothing more is done, or it is too early to say."""
    [(good, bad, unfinished)] = sql.rows(_ENDS, [bulk.id, True, bulk.canary])
    if unfinished:
        return LOOK
    bad += bulk.failed
    if bad and bad / (good + bad) >= (bulk.stop_at or 1.0):
        _end(bulk, "stopped", f"{bad} of the first {good + bad} failed")
        return None
    sql.run("UPDATE jobs_bulk SET state = 'running' WHERE id = %s AND state = 'canary'", [bulk.id])
    return 0.0


def _too_many(bulk: Bulk) -> str:
    """Why to stop, in words; empty where the share of failures is below the bound."""
    [(done, failed)] = sql.rows("SELECT done, failed FROM jobs_bulk WHERE id = %s", [bulk.id])
    good, bad = done, failed
    if ACTIONS[bulk.action].runs and not failed:
        [(good, bad, _)] = sql.rows(_ENDS, [bulk.id, False, _RECENT])
    if good + bad >= _ENOUGH and bad / (good + bad) >= (bulk.stop_at or 1.0):
        return f"{bad} of {good + bad} failed"
    return ""


def _end(bulk: Bulk, state: str, why: str) -> None:
    ended = sql.rows(
        "UPDATE jobs_bulk SET state = %s, note = %s, finished_at = jobs_clock() "
        "WHERE id = %s AND state NOT IN ('aborted', 'done', 'stopped') "
        "RETURNING done, skipped, failed",
        [state, why, bulk.id],
    )
    if not ended:
        return
    done, skipped, failed = ended[0]
    with acts.on(
        "bulk.finish",
        kind="bulk",
        id=bulk.id,
        permission="run_bulk",
        by=Principal(bulk.by, "system"),
        reason=bulk.reason,
        place=Place(),
    ) as act:
        act.count = done
        act.note(state=state, why=why, done=done, skipped=skipped, failed=failed)
