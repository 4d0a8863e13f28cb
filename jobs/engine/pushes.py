"""What happens after the commit of an enqueue: ids are pushed, or a dispatcher is nudged."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import conf
from jobs.engine import rq, sql
from jobs.engine.clients import StillAway
from jobs.engine.wire import wire

log = logging.getLogger("jobs.intake")

_OPEN_FOR = 0.25
"""Seconds for which the answer "this queue is open" is believed."""
_SLOW = 0.05
"""Seconds after which an answer came late: to be born queued saves less than asking costs."""
_SLOW_FOR = 5.0
"""Seconds for which nobody asks a slow Redis about any queue."""


class OpenQueues:
    """Remembers for a moment which queues let due jobs be born queued."""

    def __init__(self) -> None:
        self._believed: dict[str, tuple[float, bool]] = {}
        self._ask_at = 0.0

    def is_open(self, queue: str) -> bool:
        if not conf.settings().BORN_QUEUED:
            return False
        until, answer = self._believed.get(queue, (0.0, False))
        now = time.monotonic()
        if now < until:
            return answer
        if now < self._ask_at:
            return False
        try:
            answer = rq.is_open(queue)
        except rq.Unavailable:
            answer = False
        else:
            if time.monotonic() - now > _SLOW:
                self._ask_at = now + _SLOW_FOR
        self._believed[queue] = (now + _OPEN_FOR, answer)
        return answer

    def close(self, queue: str) -> None:
        """For a moment, jobs of the queue go the way of the dispatcher."""
        self._believed[queue] = (time.monotonic() + _OPEN_FOR, False)


open_queues = OpenQueues()
_FULL = 200
"""Length of a list beyond which new jobs wait in PostgreSQL instead."""


class _Outgoing:
    """The pushes of one transaction, done together after its commit."""

    def __init__(self) -> None:
        self._ids: dict[str, list[UUID]] = {}
        self._nudges = False
        # Django writes the name of a callback that failed to its log.
        self.__qualname__ = type(self).__qualname__

    def push(self, queue: str, job_id: UUID) -> None:
        self._ids.setdefault(queue, []).append(job_id)

    def nudge(self) -> None:
        self._nudges = True

    def __call__(self) -> None:
        # The rows are committed: whatever fails here costs delay, never a job, and is nobody's
        # business in the caller's request.
        try:
            for queue, ids in self._ids.items():
                wire().run(*rq.pushing(queue, ids), partial(_answered, queue))
            if self._nudges:
                wire().run(*rq.nudging(), _ignored)
        except rq.Unavailable as error:
            for queue in self._ids:
                open_queues.close(queue)
            # An outage is logged once, when it begins.
            level = logging.DEBUG if isinstance(error, StillAway) else logging.WARNING
            log.log(level, "push after commit failed, the dispatcher will repeat it: %s", error)


def nudge() -> None:
    """An idle dispatcher wakes up; where Redis is away, it looks by itself before long."""
    with suppress(*rq.Unavailable):
        wire().run(*rq.nudging(), _ignored)


def _answered(queue: str, answer: list[int]) -> None:
    """Redis says how long the list is by now."""
    if answer[0] > _FULL:
        open_queues.close(queue)


def _ignored(_: object) -> None:
    """Nothing follows from this answer."""


def after_commit(queue: str | None, job_id: UUID | None = None) -> None:
    """Once the transaction has committed, the id is pushed or, without a queue, a nudge is sent."""
    conn = sql.connection()
    outgoing = _riding(conn)
    found = outgoing is not None
    outgoing = outgoing or _Outgoing()
    if queue is None or job_id is None:
        outgoing.nudge()
    else:
        outgoing.push(queue, job_id)
    if not found:
        # In autocommit this runs at once, so it must be complete by now.
        transaction.on_commit(outgoing, using=conn.alias, robust=True)


def _riding(conn: Any) -> _Outgoing | None:
    """The transaction's callback, where it is the newest one and of the same savepoints.

    A callback of a savepoint that rolls back is dropped by Django, so what belongs to other
    savepoints must not ride on it.
    """
    if not conn.in_atomic_block or not conn.run_on_commit:
        return None
    savepoints, callback, *_ = conn.run_on_commit[-1]
    if isinstance(callback, _Outgoing) and savepoints == set(conn.savepoint_ids):
        return callback
    return None
