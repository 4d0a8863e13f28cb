"""Workers: who is there, what they do, and telling them to take no more or to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs import conf
from jobs.engine import sql
from jobs.errors import Denied, NotAllowed
from jobs.operate import targets
from jobs.operate.permissions import MANAGE_WORKER
from jobs.operate.targets import WORKER, Place
from jobs.operate.verbs import acting, of, verb
from jobs.principals import By, principal

CURRENT_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Current:
    """A job that a worker runs."""

    id: UUID
    kind: str
    queue: str
    tenant: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Seen:
    """A worker as it reported itself last."""

    name: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    slots: int
    memory: float
    """MiB that its processes hold for themselves."""
    state: str
    """busy, idle, draining, lost (silent for longer than a lease) or ended."""
    asked: str
    asked_by: str
    started_at: datetime
    seen_at: datetime
    jobs: tuple[Current, ...]


_LIST = """
SELECT w.name, w.host, w.pid, w.version, w.queues, w.slots, w.memory, w.asked, w.asked_by,
  w.started_at, w.seen_at, w.ended_at IS NOT NULL,
  w.seen_at < jobs_clock() - %s * interval '1 s'
FROM jobs_worker w WHERE (%s::text IS NULL OR w.name = %s) ORDER BY w.name LIMIT 1000
"""
_CURRENT = """
SELECT l.worker, j.id, j.kind, j.queue, j.tenant, j.started_at FROM jobs_lease l
JOIN jobs_job j ON j.owner = l.owner AND j.state = 'running'
WHERE l.worker = ANY (%s) AND l.dead_at IS NULL
ORDER BY l.worker, j.started_at, j.id LIMIT %s
"""


def workers(*, by: By) -> list[Seen]:
    """The workers of the last day, by name, that serve a queue within the reader's scope."""
    return _seen(by, None)


def worker(name: str, *, by: By) -> Seen:
    """The worker of this name; raises UnknownTarget."""
    found = _seen(by, name if isinstance(name, str) and "\x00" not in name else "")
    if not found:
        raise targets.unknown("worker", name)
    return found[0]


@verb("worker.drain", on=WORKER, permission=MANAGE_WORKER, group="administrator")
def drain(name: str, *, by: By, reason: str = "") -> None:
    """Let a worker finish what it has begun, and take no more; its process stays."""
    _ask(drain, name, by, reason)


@verb("worker.stop", on=WORKER, permission=MANAGE_WORKER, group="administrator")
def stop(name: str, *, by: By, reason: str) -> None:
    """Drain a worker and end it, as at a SIGTERM.

    What keeps programs running may start it again.
    """
    _ask(stop, name, by, reason)


def _ask(function: Callable[..., Any], name: str, by: By, reason: str) -> None:
    what = of(function).action
    with acting(function, name, by=by, reason=reason) as act:
        found = _seen(act.principal, name, allowed=True)
        if not found:
            raise targets.unknown("worker", name)
        state = found[0].state
        if state in ("ended", "lost"):
            raise NotAllowed(what, name, state, ["busy", "idle", "draining"])
        if found[0].asked != "stop":
            sql.run(
                "UPDATE jobs_worker SET asked = %s, asked_by = %s, asked_at = jobs_clock() "
                "WHERE name = %s",
                [what, act.name, name],
            )
        act.changed({"asked": found[0].asked}, {"asked": what})


def _seen(by: By, name: str | None, allowed: bool = False) -> list[Seen]:
    who = principal(by)
    if not allowed and not who.may("view_worker"):
        raise Denied("view_worker")
    rows = sql.rows(_LIST, [conf.settings().LEASE, name, name])
    rows = [row for row in rows if who.scope.queues is None or who.scope.queues & set(row[4])]
    current: dict[str, list[Current]] = {}
    names = [row[0] for row in rows]
    for owner, *job in sql.rows(_CURRENT, [names, CURRENT_LIMIT]) if names else []:
        one = Current(*job)
        place = Place(one.tenant, one.queue)
        if who.scope.covers(*place):
            current.setdefault(owner, []).append(one)
        else:
            current.setdefault(owner, [])
    return [_made(row, current.get(row[0])) for row in rows]


def _made(row: tuple[Any, ...], current: list[Current] | None) -> Seen:
    name, host, pid, version, queues, slots, memory, asked, asked_by, started, seen, *ends = row
    is_ended, is_silent = ends
    if is_ended:
        state = "ended"
    elif is_silent:
        state = "lost"
    elif asked:
        state = "draining"
    else:
        state = "idle" if current is None else "busy"
    return Seen(
        name, host, pid, version, tuple(queues), slots, memory, state, asked, asked_by, started,
        seen, tuple(current or ()),
    )  # fmt: skip
