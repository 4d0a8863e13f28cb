"""The outbox: events are written with what they tell of, and relayed into the feed in order.

A transaction writes its events beside everything else it writes. The relay gives each committed
event its position in the feed: one relay at a time, by a lock that ends with its transaction, so
that any process may take over. An event that a subscriber refuses waits, and holds back only what
has its key.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import events, registry, tracing
from jobs.engine import rq, sql
from jobs.engine.calls import call
from jobs.engine.pushes import after_commit
from jobs.engine.wire import wire
from jobs.events import Audience, Event, Message, Told
from jobs.jsontext import printable
from jobs.redaction import redact_text

log = logging.getLogger("jobs.outbox")

TRIES = 8
"""Failed tries after which an event is parked."""
LONGEST_PAUSE = 600.0
ERROR_LIMIT = 500
PORTION = 500
MANY = 1000
"""Events that one statement writes."""
STRETCH = 0.05
"""Seconds after which a portion that has subscribers ends before its last event."""
FEWEST = 5
"""Events of a portion that are published in any case."""
LOCK = 0x6A6F62735F72656C
"""The advisory lock of the process that relays, or decides about an event."""


def emit(
    topic: str,
    payload: Told,
    *,
    key: str = "",
    tenant: str = "",
    audience: Audience = "tenant",
) -> UUID:
    """Publish the event when the surrounding transaction commits, and never when it rolls back.

    Events of a tenant with the same ``key`` are published in the order of their commits.
    ``audience`` "staff" keeps it from the tenant's own eyes. Answers the event's id; raises
    EventError before anything is written.
    """
    made = events.message(topic, payload, key=key, tenant=tenant, audience=audience)
    with tracing.span("jobs emit", "PRODUCER", topic=topic, event=made.id):
        write(made)
    after_commit(None)
    return made.id


def emit_many(made: Iterable[Message]) -> list[UUID]:
    """The same for many, which commit together; answers their ids."""
    found = list(made)
    with transaction.atomic(using=sql.alias()):
        for first in range(0, len(found), MANY):
            write_many(found[first : first + MANY])
        if found:
            after_commit(None)
    return [each.id for each in found]


def tell(topic: str, payload: Mapping[str, Any], *, key: str, tenant: str = "") -> None:
    """An event of the core itself is written; without a tenant it is for the staff."""
    write(core_message(topic, payload, key=key, tenant=tenant))


def core_message(topic: str, payload: Mapping[str, Any], *, key: str, tenant: str = "") -> Message:
    """An event of the core itself; without a tenant it is for the staff."""
    audience: Audience = "tenant" if tenant else "staff"
    return events.message(topic, payload, key=key, tenant=tenant, audience=audience, is_core=True)


def write(made: Message) -> None:
    """The message is a row of the outbox, in the caller's transaction."""
    call("jobs_emit", (made.id, made.topic, made.key, made.tenant, made.audience, made.text))


_WRITE_MANY = """
INSERT INTO jobs_outbox (event_id, topic, key, tenant, audience, payload)
SELECT t.id, t.topic, t.key, t.tenant, t.audience, t.payload::jsonb
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
  WITH ORDINALITY AS t(id, topic, key, tenant, audience, payload, n) ORDER BY t.n
"""


def write_many(made: Iterable[Message]) -> None:
    """The messages are rows of the outbox, in their order."""
    rows = [(m.id, m.topic, m.key, m.tenant, m.audience, m.text) for m in made]
    if rows:
        sql.bound_rows(_WRITE_MANY, [list(column) for column in zip(*rows, strict=True)])


def as_json(job_id: UUID, made: Message) -> str:
    """The message as ``jobs_succeed`` takes it, to be written if the job's success is."""
    head = json.dumps(
        {
            "job": str(job_id),
            "id": str(made.id),
            "topic": made.topic,
            "key": made.key,
            "tenant": made.tenant,
            "audience": made.audience,
        }
    )
    return f'{head[:-1]}, "payload": {made.text}}}'


# ---- the relay


@dataclass(frozen=True, slots=True)
class Relayed:
    """What one portion did."""

    published: int = 0
    failed: int = 0
    is_elsewhere: bool = False
    """Somebody else relays at this moment."""

    @property
    def moved(self) -> int:
        return self.published + self.failed


def relay_once(limit: int = PORTION) -> Relayed:
    """The next events that may go are in the feed, or are to be tried again later.

    Tenants take turns, so that many events of one hold up nobody else's. Does nothing while
    another process relays. Listeners get it after the commit.
    """
    registry.autodiscover()  # nobody may publish who does not know who subscribes
    subscribed = events.subscriptions()
    relayed, head = sql.repeating(lambda: _tell(limit) if subscribed else _move(limit))
    if head:
        transaction.on_commit(lambda: _ring(head), using=sql.alias(), robust=True)
    return relayed


def _move(limit: int) -> tuple[Relayed, int]:
    """Without subscribers, one round trip."""
    [(moved, head)] = sql.bound_rows("SELECT * FROM jobs_relay(%s)", [limit])
    if moved is None:
        return Relayed(is_elsewhere=True), 0
    return Relayed(moved), head or 0


_PICKED = """
SELECT o.id, o.event_id, o.topic, o.key, o.tenant, o.audience, o.payload::text, o.occurred_at
FROM unnest(%s::bigint[]) WITH ORDINALITY AS u (id, n) JOIN jobs_outbox o USING (id) ORDER BY u.n
"""
_PICK = "SELECT jobs_relay_pick(%s)"
_PUBLISH = "SELECT jobs_relay_publish(%s)"


def _tell(limit: int) -> tuple[Relayed, int]:
    """Call the subscribers in the transaction that publishes, one event after the other."""
    with transaction.atomic(using=sql.alias()):
        [(picked,)] = sql.bound_rows(_PICK, [limit])
        if picked is None:
            return Relayed(is_elsewhere=True), 0
        if not picked:
            return Relayed(), 0
        [(head,)] = sql.bound_rows(_PUBLISH, [[]])
        good: list[int] = []
        blocked: set[tuple[str, str]] = set()
        failed = 0
        rows = sql.bound_rows(_PICKED, [picked])
        end, waiting = time.monotonic() + STRETCH, {row[4] for row in rows}
        for number, *columns in rows:
            if len(good) >= FEWEST and not waiting and time.monotonic() >= end:
                break  # every tenant had its turn, and has its next one soon
            waiting.discard(columns[3])
            event = _event(head + len(good) + 1, columns)
            if event.key and (event.tenant, event.key) in blocked:
                continue
            if (error := _told(event)) is None:
                good.append(number)
                continue
            failed += 1
            blocked.add((event.tenant, event.key))
            _refuse(number, event, error)
        if not good:
            return Relayed(0, failed), 0
        [(head,)] = sql.bound_rows(_PUBLISH, [good])
        return Relayed(len(good), failed), head


def _event(position: int, columns: Sequence[Any]) -> Event:
    event_id, topic, key, tenant, audience, text, occurred_at = columns
    return Event(position, event_id, topic, key, tenant, audience, json.loads(text), occurred_at)


def _told(event: Event) -> Exception | None:
    """What the first subscriber raised who cannot take the event; then none has written anything.

    A connection that is lost, or a deadlock, is nobody's refusal.
    """
    wanting = [s for s in events.subscriptions() if s.wants(event.topic)]
    if not wanting:
        return None
    try:
        with transaction.atomic(using=sql.alias()):
            for subscription in wanting:
                subscription.function(event)
    except Exception as error:
        if sql.is_disconnected(error) or sql.is_conflict(error):
            raise
        return error
    return None


_REFUSE = """
UPDATE jobs_outbox SET tries = tries + 1, error = %s, moved_by = 'relay', move_reason = %s,
  state = CASE WHEN tries + 1 >= %s THEN 'parked' ELSE 'failed' END,
  due_at = CASE WHEN tries + 1 < %s
    THEN jobs_clock() + least(%s, power(2, tries)) * interval '1 s' END
WHERE id = %s RETURNING state, tries
"""


def _refuse(number: int, event: Event, error: Exception) -> None:
    name = type(error).__qualname__
    text = printable(redact_text(f"{name}: {error}", limit=ERROR_LIMIT, head=1), ERROR_LIMIT)
    parameters = [text, printable(name, 100), TRIES, TRIES, LONGEST_PAUSE, number]
    [(state, tries)] = sql.bound_rows(_REFUSE, parameters)
    if state == "failed":
        log.warning("event %s (%s) was refused, try %d: %s", event.id, event.topic, tries, text)
        return
    behind = f"; events of key {event.key!r} wait behind it" if event.key else ""
    log.error("event %s (%s) is parked after %d tries%s", event.id, event.topic, tries, behind)
    tell_parked(number, event.id, event.topic, event.key, "relay")


def tell_parked(number: int, event_id: UUID, topic: str, key: str, by: str) -> None:
    """The staff learns which event is parked, and which key waits behind it."""
    if topic == "jobs.event.parked":
        return  # a listener that cannot get this one gets none of the next
    payload = {"number": number, "event": event_id, "topic": topic, "holds_back": key, "by": by}
    tell("jobs.event.parked", payload, key=f"event:{event_id}")


def _ring(head: int) -> None:
    """Live listeners look into the feed now; where Redis is away they look by themselves."""
    try:
        wire().run(*rq.ringing(head), _ignored)
    except rq.Unavailable as error:
        log.debug("listeners were not notified of position %d: %s", head, error)


def _ignored(_: object) -> None:
    """Nothing follows from this answer."""
