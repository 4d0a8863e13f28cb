"""What is closed now: pauses that are not over, and windows that are open in the calendar.

Dispatch and claim read one tiny table, ``jobs_closure``; ``refresh`` makes it agree with the
pauses and the calendar. Whoever refreshes holds one lock, so that dispatchers do not fight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

from django.db import transaction

from jobs import registry, scopes
from jobs.engine import claims, outbox, rq, sql
from jobs.windows import NEVER, Window, is_inside, spans

_LOCK = 0x6A6F62735F636C6F
"""The advisory lock of those who write the table."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One reason for which a scope is closed now; without ``until`` nobody knows for how long."""

    scope: str
    what: Literal["pause", "blackout"]
    until: datetime | None
    reason: str
    by: str = ""
    blackout: int | None = None
    since: datetime | None = None
    """When somebody paused it."""

    @property
    def words(self) -> str:
        text = f"paused by {self.by}" if self.what == "pause" else "blackout window"
        return f"{text}: {self.reason}" if self.reason else text


@dataclass(frozen=True, slots=True)
class Cover:
    """A time in which a blackout window closes a scope."""

    scope: str
    begin: datetime
    end: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Changes:
    """The scopes that a refresh has closed and opened."""

    closed: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()


def refresh(*, wait: bool = False) -> Changes:
    """The table says what is closed now; pauses that are over are gone.

    Without ``wait`` nothing happens while somebody else is at it.
    """
    if not wait and not _has_anything():
        return Changes()
    with transaction.atomic(using=sql.alias()):
        if wait:
            sql.rows("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        elif sql.rows("SELECT pg_try_advisory_xact_lock(%s)", [_LOCK]) == [(False,)]:
            return Changes()
        for (scope,) in sql.rows(
            "DELETE FROM jobs_pause WHERE until <= jobs_clock() RETURNING scope"
        ):
            payload = {"scope": scope, "by": "clock", "reason": "its time is over"}
            outbox.tell("jobs.scope.resumed", payload, key=f"scope:{scope}")
        found = stops()
        _tell_windows(found)
        changes = _write(_rows(found))
        _follow(changes)
        return changes


# Somebody who changes a window holds its row and waits for us: he tells of it himself.
_BEGUN = """
UPDATE jobs_blackout SET open_since = jobs_clock() WHERE id IN (SELECT id FROM jobs_blackout
  WHERE id = ANY (%s) AND open_since IS NULL ORDER BY id FOR UPDATE SKIP LOCKED) RETURNING id
"""
_OVER = """
UPDATE jobs_blackout SET open_since = NULL WHERE id IN (SELECT id FROM jobs_blackout
  WHERE open_since IS NOT NULL AND NOT id = ANY (%s) ORDER BY id FOR UPDATE SKIP LOCKED)
RETURNING id, scope, reason
"""


def _tell_windows(found: Sequence[Stop]) -> None:
    """What has begun or ended since somebody looked last is told, once."""
    windows = {stop.blackout: stop for stop in found if stop.blackout is not None}
    for number, scope, reason in sql.rows(_OVER, [list(windows)]):
        tell_over(number, scope, reason)
    for (number,) in sql.rows(_BEGUN, [list(windows)]):
        stop = windows[number]
        payload = {
            "scope": stop.scope, "blackout": number, "reason": stop.reason, "until": stop.until,
        }  # fmt: skip
        outbox.tell("jobs.scope.blackout_begun", payload, key=f"scope:{stop.scope}")


def tell_over(number: int, scope: str, reason: str) -> None:
    """The window, which was open, is so no more."""
    payload = {"scope": scope, "blackout": number, "reason": reason}
    outbox.tell("jobs.scope.blackout_ended", payload, key=f"scope:{scope}")


def stops() -> list[Stop]:
    """Every reason for which something is closed now, by scope."""
    return look()[1]


_STOPS = """
WITH moment AS (SELECT coalesce(%s::timestamptz, jobs_clock()) AS at)
SELECT (SELECT at FROM moment), NULL::bigint, NULL, '', '', NULL::timestamptz, NULL::timestamptz,
  NULL::time, NULL::time, '', NULL::int[]
UNION ALL (SELECT NULL, NULL, scope, reason, by, until, created_at, NULL, NULL, '', NULL
  FROM jobs_pause
  WHERE until IS NULL OR until > (SELECT at FROM moment) ORDER BY scope)
UNION ALL (SELECT NULL, id, scope, reason, '', NULL, NULL, start, "end", time_zone,
  days::int[] FROM jobs_blackout WHERE enabled ORDER BY scope, id)
"""


def look(at: datetime | None = None) -> tuple[datetime, list[Stop]]:
    """Return the moment, now unless given, and every reason for which something is closed then.

    Of a moment to come it is assumed that pauses stay as they are.
    """
    rows = sql.rows(_STOPS, [at])
    [moment] = [row[0] for row in rows if row[0] is not None]
    found = []
    for now, number, scope, reason, by, until, since, *columns in rows:
        if now is not None:
            continue
        if number is None:
            found.append(Stop(scope, "pause", until, reason, by, since=since))
        elif (end := is_inside(window(*columns), moment)) is not None:
            until = None if end is NEVER else end
            found.append(Stop(scope, "blackout", until, reason, blackout=number))
    return moment, sorted(found, key=lambda stop: stop.scope)


_CHAIN = 100
"""Closures one behind the other that are followed."""


def closed_until(wanted: Iterable[str], at: datetime | None = None) -> datetime | None:
    """Return when all of the scopes are open, if any is closed at the moment.

    ``NEVER`` where nobody knows. What begins before the first ends counts as well.
    """
    mine, found = set(wanted), None
    for _ in range(_CHAIN):
        ends = [s.until for s in look(at)[1] if mine & set(scopes.spellings(s.scope))]
        if not ends:
            break
        found = at = max(end or NEVER for end in ends)
        if at == NEVER:
            break
    else:
        return NEVER
    return found


_WINDOWS = """
SELECT scope, reason, start, "end", time_zone, days::int[] FROM jobs_blackout
WHERE enabled AND scope = ANY (%s) ORDER BY scope, id
"""


def covers(wanted: Iterable[str], begin: datetime, end: datetime) -> list[Cover]:
    """Return when windows close one of the scopes between two moments, in order."""
    names = list(dict.fromkeys(name for one in wanted for name in scopes.spellings(one)))
    found = [
        Cover(scope, first, last, reason)
        for scope, reason, *columns in sql.rows(_WINDOWS, [names])
        for first, last in spans(window(*columns), begin, end)
    ]
    return sorted(found, key=lambda one: (one.begin, one.end, one.scope))


def window(start: object, end: object, time_zone: str, days: Iterable[int]) -> Window:
    """The window of a blackout's row."""
    return _window(start, end, time_zone, frozenset(days))


@lru_cache(maxsize=1000)
def _window(start: object, end: object, time_zone: str, days: frozenset[int]) -> Window:
    return Window(start, end, ZoneInfo(time_zone), days)  # type: ignore[arg-type]


def lets_be_born_queued(queue: str) -> bool:
    """Whether no closure and no limit that code does not know of concerns the queue's jobs."""
    kinds = [f"kind:{handler.kind}" for handler in registry.handlers()]
    [(answer,)] = sql.rows(_NOTHING_CONCERNS, [f"queue:{queue}", f"queue:{queue}", kinds])
    return bool(answer)


_NOTHING_CONCERNS = """
SELECT NOT EXISTS (SELECT 1 FROM jobs_closure WHERE (until IS NULL OR until > jobs_clock())
    AND (scope = %s OR scope NOT LIKE 'queue:%%'))
  AND NOT EXISTS (SELECT 1 FROM jobs_limiter WHERE scope = %s
    AND (at_once IS NOT NULL OR per_second IS NOT NULL OR closed_until > jobs_clock()))
  AND NOT EXISTS (SELECT 1 FROM jobs_limiter WHERE scope = ANY (%s)
    AND (closed_until > jobs_clock()
      OR NOT is_declared AND (at_once IS NOT NULL OR per_second IS NOT NULL)))
"""


def _has_anything() -> bool:
    [(answer,)] = sql.rows(
        "SELECT EXISTS (SELECT 1 FROM jobs_closure) OR EXISTS (SELECT 1 FROM jobs_pause) "
        "OR EXISTS (SELECT 1 FROM jobs_blackout WHERE enabled)"
    )
    return bool(answer)


def _rows(found: Sequence[Stop]) -> dict[str, tuple[datetime | None, str]]:
    """The rows that should be there: of each scope, until when, and all its reasons."""
    rows: dict[str, tuple[datetime | None, str]] = {}
    for stop in found:
        for scope in scopes.spellings(stop.scope):
            until, why = rows.get(scope, (stop.until, ""))
            lasting = None if until is None or stop.until is None else max(until, stop.until)
            rows[scope] = (lasting, f"{why}; {stop.words}" if why else stop.words)
    return rows


def _write(wanted: dict[str, tuple[datetime | None, str]]) -> Changes:
    there = {s: (until, why) for s, until, why in sql.rows("SELECT * FROM jobs_closure")}
    new = [scope for scope in wanted if wanted[scope] != there.get(scope)]
    if new:
        sql.run(
            "INSERT INTO jobs_closure (scope, until, why) SELECT * FROM "
            "unnest(%s::text[], %s::timestamptz[], %s::text[]) AS t(scope, until, why) ORDER BY 1 "
            "ON CONFLICT (scope) DO UPDATE SET until = excluded.until, why = excluded.why",
            [new, [wanted[s][0] for s in new], [wanted[s][1] for s in new]],
        )
    old = sorted(set(there) - set(wanted))
    if old:
        # Waits for every dispatcher that is putting jobs aside because of one of these.
        sql.run("DELETE FROM jobs_closure WHERE scope = ANY (%s)", [old])
    return Changes(tuple(sorted(set(wanted) - set(there))), tuple(old))


_WOKEN = 10_000
"""Jobs of a limit key that are woken at once; each that ends wakes another."""
_WAKE = """
WITH best AS MATERIALIZED (SELECT id FROM jobs_job
  WHERE limit_key = %s AND state = 'pending' AND wait = 2
  ORDER BY rank, id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobs_job j SET wait = 0 FROM best WHERE j.id = best.id
"""


def _follow(changes: Changes) -> None:
    opened = [scopes.split(scope) for scope in changes.opened]
    # By statements of their own, whose snapshots see what dispatchers have put aside.
    if keys := [name for what, name in opened if what == "key"]:
        sql.rows("SELECT jobs_wake_keys(%s)", [keys])
    for key in (name for what, name in opened if what == "limit_key"):
        sql.run(_WAKE, [key, _WOKEN])
    if changes.opened:
        claims.nudge()
    if changes.closed:
        transaction.on_commit(lambda: _shut(changes.closed), using=sql.alias(), robust=True)


def _shut(closed: Sequence[str]) -> None:
    """Jobs of the scopes are not born queued any more."""
    queues = [name for what, name in map(scopes.split, closed) if what == "queue"]
    if len(queues) < len(closed):
        queues = [name for (name,) in sql.rows("SELECT name FROM jobs_queue")]
    rq.try_shut(queues)
