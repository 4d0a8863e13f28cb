"""Who does the platform's own work: hands jobs out, serves schedules, relays events.

Nobody is elected: of those who are there, each round is done by the first that comes, under locks.
So there is no leader to lose, and what matters is that anybody is there and nothing is late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from jobs import conf
from jobs.engine import rq, sql
from jobs.engine.presence import PREFIX
from jobs.errors import Denied
from jobs.principals import By, principal

Name = Literal["dispatch", "schedules", "relay"]
ROLES: dict[Name, tuple[str, ...]] = {
    "dispatch": ("dispatch",),
    "schedules": ("dispatch",),
    "relay": ("dispatch", "relay"),
}
"""Which processes do it, by the role in which they introduce themselves."""
MISSED = 60.0
"""Seconds after its time from which a slot is late."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that does it."""

    name: str
    since: datetime | None
    """When it connected; None for one that only Redis has heard of."""


@dataclass(frozen=True, slots=True)
class Service:
    """One sort of the platform's own work."""

    name: Name
    state: Literal["active", "late", "silent"]
    """Whether it is done, is behind, or nobody is there to do it."""
    holders: tuple[Holder, ...]
    lag: float
    """Seconds for which the oldest that is due waits."""
    last_at: datetime | None
    """When it was done last, as far as that can be told: an event published, a slot served."""


READ = f"""
(SELECT 'holder' AS what, application_name AS name, min(backend_start) AS at FROM pg_stat_activity
  WHERE datname = current_database() AND starts_with(application_name, '{PREFIX}')
  GROUP BY application_name ORDER BY application_name LIMIT 200)
UNION ALL (SELECT 'published', '', published_at FROM jobs_feed ORDER BY position DESC LIMIT 1)
UNION ALL (SELECT 'lag', '', occurred_at FROM jobs_outbox
  WHERE state = 'pending' AND NOT held ORDER BY id LIMIT 1)
UNION ALL (SELECT 'slot', '', max(last_slot) FROM jobs_schedule)
UNION ALL (SELECT 'overdue', '', min(next_slot) FROM jobs_schedule
  WHERE enabled AND paused_at IS NULL AND next_slot <= jobs_clock())
"""  # noqa: S608 - a constant


def services(*, by: By) -> list[Service]:
    """All of them; empty for callers who see only some tenants."""
    who = principal(by)
    if not who.may("view_worker"):
        raise Denied("view_worker")
    if who.scope.tenants is not None:
        return []
    now, *rows = sql.rows(f"SELECT 'now', '', jobs_clock() UNION ALL {READ}")
    return told(rows, now[2], dispatchers())


def dispatchers() -> list[str]:
    """Those of which Redis has heard lately; none where it cannot be asked."""
    try:
        return rq.live_dispatchers()
    except rq.Unavailable:
        return []


def told(rows: Iterable[Any], now: datetime, heard: Iterable[str]) -> list[Service]:
    """What the rows of ``READ``, and the dispatchers that Redis has heard of, say."""
    holders: dict[str, dict[str, Holder]] = {"dispatch": {}, "relay": {}}
    for name in heard:
        holders["dispatch"][name] = Holder(name, None)
    seen: dict[str, datetime] = {}
    for what, text, at in rows:
        role, _, name = text.removeprefix(PREFIX).partition(":")
        if what == "holder" and role in holders:
            # The name may have been cut.
            whole = next((n for n in holders[role] if n.startswith(name)), name)
            holders[role][whole] = Holder(whole, at)
        elif what != "holder" and at is not None:
            seen[what] = at
    lags = {
        "dispatch": (0.0, 0.0, None),
        "schedules": (_seconds(now, seen.get("overdue")), MISSED, seen.get("slot")),
        "relay": (
            _seconds(now, seen.get("lag")),
            conf.settings().OUTBOX_LAG_TARGET,
            seen.get("published"),
        ),
    }
    return [_service(name, roles, holders, *lags[name]) for name, roles in ROLES.items()]


def _service(
    name: Name, roles: tuple[str, ...], holders: dict[str, dict[str, Holder]], lag: float,
    target: float, last: datetime | None,
) -> Service:  # fmt: skip
    found = tuple(holder for role in roles for holder in holders[role].values())
    state: Literal["active", "late", "silent"]
    state = "silent" if not found else "late" if lag > target else "active"
    return Service(name, state, found, lag, last)


def _seconds(now: datetime, since: datetime | None) -> float:
    return max(0.0, (now - since).total_seconds()) if since else 0.0
