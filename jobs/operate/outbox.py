"""Events that are not in the feed yet, as people see and decide about them.

They are named by the number of their row, which ``events`` shows. Whoever decides waits for the
relay, so that nothing is published that was set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.engine import outbox, sql
from jobs.engine.pushes import after_commit
from jobs.errors import EventError, UnknownTarget
from jobs.operate import acts
from jobs.operate.acts import Act
from jobs.operate.permissions import PUBLISH_OUTBOX
from jobs.operate.targets import EVENT
from jobs.operate.verbs import acting, of, verb
from jobs.principals import By
from jobs.states import OutboxState

LIMIT = 1000
_STUCK = (OutboxState.FAILED, OutboxState.PARKED)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event in the outbox."""

    number: int
    id: UUID
    topic: str
    key: str
    tenant: str
    state: OutboxState
    is_held: bool
    """Whether it waits for an older event with its key."""
    holds_back: int
    """How many events wait for this one."""
    tries: int
    error: str
    due_at: datetime | None
    occurred_at: datetime


_LIST = """
SELECT o.id, o.event_id, o.topic, o.key, o.tenant, o.state, o.held,
  CASE WHEN o.key <> '' AND o.state IN ('failed', 'parked') THEN (SELECT count(*) FROM (
    SELECT 1 FROM jobs_outbox b WHERE b.held AND b.tenant = o.tenant AND b.key = o.key
      AND b.id > o.id LIMIT 10000) c) ELSE 0 END,
  o.tries, o.error, o.due_at, o.occurred_at
FROM jobs_outbox o WHERE o.state = ANY(%s) AND o.id > %s ORDER BY o.id LIMIT %s
"""


def events(*states: str, after: int = 0, limit: int = 100) -> list[Waiting]:
    """Events of these states, oldest first; without any, those that failed or are parked."""
    wanted = states or _STUCK
    for state in wanted:
        if state not in set(OutboxState):
            raise EventError("states", f"{state!r} is none of {', '.join(OutboxState)}")
    if not isinstance(limit, int) or not 1 <= limit <= LIMIT:
        raise EventError("limit", f"must be a whole number from 1 to {LIMIT}, got {limit!r}")
    rows = sql.rows(_LIST, [[str(state) for state in wanted], after, limit])
    return [_waiting(*row) for row in rows]


def _waiting(*row: Any) -> Waiting:
    number, event_id, topic, key, tenant, state, *rest = row
    return Waiting(number, event_id, topic, key, tenant, OutboxState(state), *rest)


@verb("event.park", on=EVENT, permission=PUBLISH_OUTBOX)
def park(number: int, *, by: By, reason: str) -> None:
    """Hold an event back until it is published by hand; later events with its key wait, too."""
    with _decided(number, park, (OutboxState.PENDING, OutboxState.FAILED), by, reason) as found:
        event_id, topic, key, _, act = found
        _move(number, OutboxState.PARKED, act)
        outbox.tell_parked(number, event_id, topic, key, act.name)


@verb("event.publish", on=EVENT, permission=PUBLISH_OUTBOX)
def publish(number: int, *, by: By, reason: str) -> None:
    """Publish a failed or parked event next, with all its tries before it."""
    with _decided(number, publish, _STUCK, by, reason) as (*_, act):
        _move(number, OutboxState.PENDING, act, "tries = 0, error = ''")
        after_commit(None)


@verb("event.discard", on=EVENT, permission=PUBLISH_OUTBOX)
def discard(number: int, *, by: By, reason: str) -> None:
    """Never publish an event; events that waited for it continue."""
    states = (OutboxState.PENDING, *_STUCK)
    with _decided(number, discard, states, by, reason) as (_, _, key, tenant, act):
        _move(number, OutboxState.DISCARDED, act, "closed_at = jobs_clock()")
        if key:
            # Those that wait for yet another are put aside again by the relay.
            sql.run(
                "UPDATE jobs_outbox SET held = false WHERE held AND tenant = %s AND key = %s",
                [tenant, key],
            )
        after_commit(None)


@contextmanager
def _decided(
    number: int, function: Callable[..., Any], allowed: tuple[OutboxState, ...], by: By, reason: str
) -> Iterator[tuple[UUID, str, str, str, Act]]:
    """The event's id, topic, key and tenant; its row is locked and the relay waits."""
    with acting(function, number, by=by, reason=reason) as act:
        sql.rows("SELECT pg_advisory_xact_lock(%s)", [outbox.LOCK])
        found = sql.rows(
            "SELECT audience, state, event_id, topic, key, tenant FROM jobs_outbox "
            "WHERE id = %s FOR UPDATE",
            [number],
        )
        if not found or not (act.principal.is_staff or found[0][0] == "tenant"):
            raise UnknownTarget("event", number)
        _, state, event_id, topic, key, tenant = found[0]
        if state not in allowed:
            states = " or ".join(str(s) for s in allowed)
            raise EventError(
                "number",
                f"cannot {of(function).action} event {number}: it is {state}; it must be {states}",
            )
        act.note(topic=topic, before={"state": state})
        yield event_id, topic, key, tenant, act


def _move(number: int, state: OutboxState, act: acts.Act, also: str = "position = NULL") -> None:
    sql.run(
        f"UPDATE jobs_outbox SET state = %s, held = false, due_at = NULL, moved_by = %s, "  # noqa: S608
        f"move_reason = %s, {also} WHERE id = %s",
        [str(state), act.name, act.reason, number],
    )
