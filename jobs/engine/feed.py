"""The feed: every event at its position, read in order and pruned by the day."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import DatabaseError, transaction

from jobs import conf, events
from jobs.engine import outbox, sql
from jobs.errors import EventError, FeedGone
from jobs.events import Event
from jobs.names import label_problem

log = logging.getLogger("jobs.outbox")

LIMIT = 1000
"""Events that one call answers at most."""
SCAN = 5000
"""Positions that one call looks at, whatever it looks for."""
AHEAD = 3
"""Days for which there is a partition before they come."""
_PARTITION = re.compile(r"jobs_feed_(\d{4})(\d{2})(\d{2})\Z")


class Events(list[Event]):
    """Events in the order of their positions.

    ``position`` is where to read on: past what was passed over, also where nothing was found.
    ``head`` is the last position that there was; behind it everything has been seen.
    """

    def __init__(self, found: Iterable[Event], position: int, head: int) -> None:
        super().__init__(found)
        self.position, self.head = position, head

    @property
    def is_end(self) -> bool:
        """Whether there was nothing more behind these."""
        return self.position >= self.head


# One statement, so that head, floor and events are of one moment.
_READ = """
SELECT h.position, h.floor, f.* FROM jobs_feed_head h LEFT JOIN LATERAL (
  SELECT e.position, e.event_id, e.topic, e.key, e.tenant, e.audience, e.payload::text,
    e.occurred_at
  FROM jobs_feed e
  WHERE e.position > coalesce(%s::bigint, h.floor)
    AND e.position <= coalesce(%s::bigint, h.floor) + %s AND e.position <= h.position
    AND (%s::text[] IS NULL OR e.topic LIKE ANY (%s::text[]))
    AND (%s::text[] IS NULL OR e.audience = 'tenant' AND e.tenant = ANY (%s::text[]))
  ORDER BY e.position LIMIT %s) f ON true
"""


def feed(
    since: int | None = None,
    topics: str | Iterable[str] | None = None,
    tenant: str | Iterable[str] | None = None,
    limit: int = 100,
) -> Events:
    """The events behind the position ``since``, oldest first; ``answer.position`` reads on.

    Without ``since``, from the oldest that is kept. ``topics`` are globs like ``order.*``.
    ``tenant`` (or several) shows what is for these tenants; None shows everything, also what is
    for the staff. Raises FeedGone where events behind ``since`` have been pruned, or where the
    position was never reached.
    """
    _check_number("limit", limit, 1, LIMIT)
    if since is not None:
        _check_number("since", since, 0, 2**63 - 1 - SCAN)
    globs = events.patterns(topics)
    likes = events.likes(globs) or None
    tenants = _tenants(tenant)
    parameters = [since, since, SCAN, likes, likes, tenants, tenants, limit]
    rows = sql.bound_rows(_READ, parameters)
    head, floor = (rows[0][0], rows[0][1]) if rows else (0, 0)
    start = floor if since is None else since
    if not floor <= start <= head:
        raise FeedGone(start, floor, head)
    found = [_event(row) for row in rows if row[2] is not None]
    looked = found[-1].position if len(found) == limit else min(start + SCAN, head)
    return Events(found, looked, head)


def feed_head() -> int:
    """The last position of the feed; 0 before the first event."""
    found = sql.bound_rows("SELECT position FROM jobs_feed_head", [])
    return int(found[0][0]) if found else 0


def _event(row: sql.Row) -> Event:
    _, _, position, event_id, topic, key, tenant, audience, text, occurred_at = row
    return Event(position, event_id, topic, key, tenant, audience, json.loads(text), occurred_at)


def _tenants(tenant: object) -> list[str] | None:
    if tenant is None:
        return None
    found = [tenant] if isinstance(tenant, str) else list(tenant)  # type: ignore[call-overload]
    for name in found:
        if name != "" and (problem := label_problem(name)):
            raise EventError("tenant", problem)
    return found


def _check_number(option: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise EventError(option, f"must be a whole number from {least} to {most}, got {value!r}")


# ---- upkeep


def keep_up() -> int:
    """There are partitions for the days to come, and none that was kept long enough.

    Answers how many were dropped. Does nothing while somebody relays or reads for long: there is
    another time.
    """
    [(now,)] = sql.rows("SELECT jobs_clock()")
    today = now.astimezone(UTC).date()
    try:
        with transaction.atomic(using=sql.alias()):
            sql.run("SET LOCAL lock_timeout = '2s'")
            if not _has_lock():
                return 0
            for day in range(AHEAD + 1):
                sql.rows("SELECT jobs_feed_make(%s)", [today + timedelta(days=day)])
            _tidy()
        return sum(_drop(name) for name in _old(now))
    except DatabaseError as error:
        if sql.sqlstate(error) != "55P03":
            raise
        log.info("the feed's partitions are in use: %s", error)
        return 0


def _old(now: datetime) -> list[str]:
    """Partitions of days that ended longer ago than events are kept, oldest first."""
    names = sql.rows(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "WHERE i.inhparent = to_regclass('jobs_feed') ORDER BY 1"
    )
    before = now - conf.settings().KEEP_FEED
    return [name for (name,) in names if (end := _end(name)) is not None and end <= before]


def _end(partition: str) -> datetime | None:
    """The end of the partition's day; None for one that somebody else has made."""
    day = _PARTITION.match(partition)
    return datetime(*map(int, day.groups()), tzinfo=UTC) + timedelta(days=1) if day else None  # type: ignore[misc, arg-type]


def _drop(name: str) -> bool:
    """The partition is gone, and nobody can read on from before its end any more."""
    with transaction.atomic(using=sql.alias()):
        sql.run("SET LOCAL lock_timeout = '2s'")
        if not _has_lock():
            return False
        # First the table, as a reader locks it: then nobody reads what is about to go.
        sql.run("LOCK TABLE jobs_feed IN ACCESS EXCLUSIVE MODE")
        sql.run(
            f"UPDATE jobs_feed_head SET floor = greatest(floor, "  # noqa: S608 - matched above
            f"coalesce((SELECT max(position) FROM {name}), 0))"
        )
        sql.run(f"DROP TABLE {name}")
    log.info("partition %s of the feed was dropped", name)
    return True


def _has_lock() -> bool:
    return sql.rows("SELECT pg_try_advisory_xact_lock(%s)", [outbox.LOCK]) == [(True,)]


_DISCARDED = """
WITH old AS MATERIALIZED (SELECT id FROM jobs_outbox
  WHERE state = 'discarded' AND closed_at < jobs_clock() - %s ORDER BY closed_at LIMIT 1000)
DELETE FROM jobs_outbox o USING old WHERE o.id = old.id
"""

# What somebody has moved by hand leaves nobody waiting for it.
_FORGOTTEN = """
UPDATE jobs_outbox o SET held = false WHERE o.held AND NOT EXISTS (
  SELECT 1 FROM jobs_outbox s WHERE s.tenant = o.tenant AND s.key = o.key
    AND s.state IN ('failed', 'parked'))
  AND NOT EXISTS (SELECT 1 FROM jobs_outbox s WHERE s.tenant = o.tenant AND s.key = o.key
    AND s.state = 'pending' AND NOT s.held AND s.id < o.id)
"""


def _tidy() -> None:
    parameters: list[Any] = [conf.settings().KEEP_FEED]
    sql.run(_DISCARDED, parameters)
    sql.run(_FORGOTTEN)
