"""What a bulk operation does to a handful of its jobs, in one short transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import Error, transaction

from jobs.engine import dispatch, sql
from jobs.engine.flow import PRIORITY_STEP_MS
from jobs.engine.pushes import after_commit
from jobs.errors import JobsError, NotAllowed
from jobs.jsontext import printable
from jobs.models import Bulk
from jobs.operate.bulkplans import ACTIONS, obstacle
from jobs.operate.bulkscan import from_json
from jobs.operate.cancel import cancel_many
from jobs.operate.replay import carry_out as replay
from jobs.operate.replay import replay_many
from jobs.operate.retry import carry_out as retry
from jobs.operate.retry import retry_many
from jobs.states import JobState

TURN = 0.1
"""Seconds that one transaction may spend on jobs one by one, while it holds their rows."""
_DETAIL_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Item:
    """A job that waits for its turn."""

    id: int
    job_id: UUID
    letter: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it."""

    state: str
    detail: str = ""
    result: UUID | None = None


DONE = Outcome("done")
MOVED = Outcome("skipped", "was moved by somebody at this moment")
CLOSED = Outcome("skipped", "has no open dead letter")

_LOCK = """
SELECT j.id, j.tenant, j.queue, j.state, j.kind, j.replayed_by IS NOT NULL FROM jobs_job j
WHERE j.id = ANY(%s) AND j.state = ANY(%s) ORDER BY j.id FOR NO KEY UPDATE OF j
"""
_LOOK = """
SELECT id, tenant, queue, state, kind, replayed_by IS NOT NULL FROM jobs_job WHERE id = ANY(%s)
"""


def carry_out(bulk: Bulk, items: Sequence[Item]) -> dict[Item, Outcome]:
    """What became of the items, by their order; those missing had no time left.

    Ordinary jobs go together, in a few statements; those that a unique key or other replays may
    stand against, and all where a statement has failed, one by one.
    """
    able, outcomes = _sorted(bulk, items)
    outcomes |= _together(bulk, able)
    began = time.monotonic()
    for item in able:
        if item in outcomes:
            continue
        if bulk.action not in _ONE_BY_ONE:
            outcomes[item] = MOVED
        elif time.monotonic() - began < TURN:
            outcomes[item] = _one(bulk, item)
    return outcomes


_ONE_BY_ONE = ("retry", "retry_letter", "replay", "replay_letter")


def _together(bulk: Bulk, items: Sequence[Item]) -> dict[Item, Outcome]:
    if not items:
        return {}
    act = _TOGETHER[bulk.action]
    if bulk.action not in _ONE_BY_ONE:
        return act(bulk, items)
    try:
        with transaction.atomic(using=sql.alias()):
            closed = _closed(items)
            return closed | act(bulk, [item for item in items if item not in closed])
    except Error as error:
        if _is_for_all(error):
            raise
        return {}  # one of them is to blame: it is found where each has a savepoint of its own


def _sorted(bulk: Bulk, items: Sequence[Item]) -> tuple[list[Item], dict[Item, Outcome]]:
    """Those that can be acted upon, with their rows locked; what became of the others."""
    ids = [item.job_id for item in items]
    states = sorted(ACTIONS[bulk.action].states)
    found = {row[0]: row[1:] for row in sql.rows(_LOCK, [ids, states])}
    others = [job_id for job_id in ids if job_id not in found]
    found |= {row[0]: row[1:] for row in sql.rows(_LOOK, [others])} if others else {}
    scope = from_json(bulk.scope)
    able, outcomes = list[Item](), dict[Item, Outcome]()
    for item in items:
        if item.job_id not in found:
            outcomes[item] = Outcome("skipped", "is gone")
            continue
        tenant, queue, state, kind, is_replayed = found[item.job_id]
        if not scope.covers(tenant, queue):
            why = "has left the scope"
        elif item.job_id in others and state in states:
            why = MOVED.detail
        else:
            why = obstacle(bulk.action, state, kind, item.letter is not None, is_replayed)
        if why:
            outcomes[item] = Outcome("skipped", why)
        else:
            able.append(item)
    return able, outcomes


def _one(bulk: Bulk, item: Item) -> Outcome:
    who: dict[str, Any] = {"by": bulk.by, "reason": bulk.reason}
    try:
        with transaction.atomic(using=sql.alias()):
            if item.letter is not None and _closed([item]):
                return CLOSED
            if bulk.action in ("replay", "replay_letter"):
                return Outcome("done", result=replay(item.job_id, **who))
            retry(item.job_id, **who, **bulk.options)
            return DONE
    except NotAllowed as error:
        return Outcome("skipped", printable(str(error), _DETAIL_LIMIT))
    except JobsError as error:
        return Outcome("failed", printable(str(error), _DETAIL_LIMIT))
    except Error as error:
        if _is_for_all(error):
            raise
        return Outcome("failed", printable(f"{type(error).__name__}: {error}", _DETAIL_LIMIT))


_PASSING = ("40P01", "40001", "55P03", "57014")


def _is_for_all(error: Error) -> bool:
    """Whether no single job is to blame, so that the whole step is to be made again."""
    return sql.is_disconnected(error) or sql.sqlstate(error) in _PASSING


def _closed(items: Sequence[Item]) -> dict[Item, Outcome]:
    """Those whose dead letter is decided upon by now; the others' letters are locked."""
    letters = [item.letter for item in items if item.letter is not None]
    if not letters:
        return {}
    still = {row[0] for row in sql.rows(_LETTERS, [letters])}
    return {item: CLOSED for item in items if item.letter is not None and item.letter not in still}


_LETTERS = """
SELECT id FROM jobs_deadletter WHERE id = ANY(%s) AND state = 'open' ORDER BY id FOR NO KEY UPDATE
"""


def _retry(bulk: Bulk, items: Sequence[Item]) -> dict[Item, Outcome]:
    ids = [item.job_id for item in items]
    done = retry_many(ids, by=bulk.by, reason=bulk.reason, **bulk.options)
    return {item: DONE for item in items if item.job_id in done}


def _replay(bulk: Bulk, items: Sequence[Item]) -> dict[Item, Outcome]:
    new = replay_many([item.job_id for item in items], by=bulk.by, reason=bulk.reason)
    return {i: Outcome("done", result=new[i.job_id]) for i in items if i.job_id in new}


def _cancel(bulk: Bulk, items: Sequence[Item]) -> dict[Item, Outcome]:
    force = bool(bulk.options.get("force"))
    ids = [item.job_id for item in items]
    found = cancel_many(ids, by=bulk.by, reason=bulk.reason, force=force) if ids else {}
    asked = Outcome("done", "was asked to stop")
    return {
        item: asked
        if found[item.job_id].requested and found[item.job_id].state is JobState.RUNNING
        else DONE
        for item in items
        if item.job_id in found
    }


_DISCARD = """
WITH l AS MATERIALIZED (SELECT id FROM jobs_deadletter WHERE id = ANY(%s) AND state = 'open'
  ORDER BY id FOR UPDATE)
UPDATE jobs_deadletter d SET state = 'discarded', closed_at = jobs_clock(), moved_by = %s,
  move_reason = %s FROM l WHERE d.id = l.id RETURNING d.id
"""


def _discard(bulk: Bulk, items: Sequence[Item]) -> dict[Item, Outcome]:
    letters = [item.letter for item in items]
    gone = {row[0] for row in sql.rows(_DISCARD, [letters, bulk.by, bulk.reason])}
    return {item: DONE if item.letter in gone else CLOSED for item in items}


_RUN_NOW = """
UPDATE jobs_job SET run_at = jobs_clock(), wait = CASE WHEN wait = 1 THEN 0 ELSE wait END,
  rank = (extract(epoch FROM jobs_clock()) * 1000)::bigint - priority * %s
WHERE id = ANY(%s) AND run_at > jobs_clock() RETURNING id
"""


def _run_now(bulk: Bulk, items: Sequence[Item]) -> dict[Item, Outcome]:
    ids = [item.job_id for item in items]
    moved = {row[0] for row in sql.rows(_RUN_NOW, [PRIORITY_STEP_MS, ids])}
    after_commit(None)
    due = Outcome("skipped", "is due already")
    return {item: DONE if item.job_id in moved else due for item in items}


_EDIT = """
UPDATE jobs_job SET queue = coalesce(%s, queue), priority = coalesce(%s, priority),
  rank = rank - (coalesce(%s, priority) - priority) * %s
WHERE id = ANY(%s)
"""


def _edit(bulk: Bulk, items: Sequence[Item]) -> dict[Item, Outcome]:
    queue, priority = bulk.options.get("queue"), bulk.options.get("priority")
    if queue is not None:
        dispatch.know_queues({queue})
    ids = [item.job_id for item in items]
    sql.run(_EDIT, [queue, priority, priority, PRIORITY_STEP_MS, ids])
    after_commit(None)
    return dict.fromkeys(items, DONE)


_TOGETHER: Mapping[str, Callable[[Bulk, Sequence[Item]], dict[Item, Outcome]]] = {
    "retry": _retry,
    "retry_letter": _retry,
    "replay": _replay,
    "replay_letter": _replay,
    "cancel": _cancel,
    "discard_letter": _discard,
    "run_now": _run_now,
    "edit": _edit,
}
