"""The dispatcher: moves due jobs to ``queued`` and feeds their ids to Redis, a few at a time.

The backlog stays in PostgreSQL, where priority, fairness and pauses work. Any number of
dispatchers may run; each queue's row lets one of them through at a time.
"""

from __future__ import annotations

import json
import logging
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import Error, transaction

from jobs import conf
from jobs.engine import admission, closures, leases, presence, process, reports, rq, sql
from jobs.engine.duties import Duties
from jobs.engine.outage import outage
from jobs.engine.reconcile import Reconciler
from jobs.engine.seldom import Seldom

log = logging.getLogger("jobs.dispatch")

MAX_LANES = 200
ROUND_LIMIT = 300
DEPTH_LIMIT = 5000
DEPTH_SECONDS = 0.1
"""A list holds this many seconds of work, by the measured pace, and what is done in a round."""
LONGEST_ROUND = 1.0
LIVE_INTERVAL = 0.25
BUSY_PAUSE = 0.004


@dataclass(slots=True)
class _Feed:
    """What one dispatcher knows of one queue's list."""

    slots: int = 0
    length: int = 0
    measured_at: float = 0.0
    pace: float = 0.0
    drained: float = 0.0
    depth: int = 0
    backlog: bool = False
    opened_at: float = 0.0

    @property
    def is_short(self) -> bool:
        """Whether more jobs wait and the list is less than half full."""
        return self.backlog and self.length < self.depth // 2

    def room(self, length: int, moment: float) -> int:
        """How many ids the list may take now."""
        elapsed = moment - self.measured_at
        # Of a Redis that is far away, a round takes long enough to empty a list.
        ahead = DEPTH_SECONDS + (min(elapsed, LONGEST_ROUND) if self.backlog else 0.0)
        if self.measured_at and elapsed > 0:
            drained = max(0, self.length - length) / elapsed
            # Up at once, but only on the second sign: the first may be free slots filling up.
            sure = min(drained, self.drained)
            weight = min(1.0, elapsed / 0.1)
            self.pace = max(sure, self.pace + (drained - self.pace) * weight)
            self.drained = drained
        self.length, self.measured_at = length, moment
        self.depth = min(max(2 * self.slots, int(self.pace * ahead)), DEPTH_LIMIT)
        return self.depth - length


class Dispatcher:
    """Feeds every queue that a live worker listens to; ``run`` is the life of a process."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._feeds: dict[str, _Feed] = {}
        self._live_at = 0.0
        self._synced_at: float | None = None
        self._rated_keys: list[str] = []
        self._known: set[str] = set()
        self._stopping = False
        self._seldom = Seldom(log)
        self._duties = Duties(log)
        self._reconciler = Reconciler(name, self._duties)

    def run(self) -> None:
        """Works until asked to stop, through any outage of either database."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        process.on_hangup(self._on_signal)
        presence.introduce("dispatch", self._name)
        log.info("dispatcher %s feeds the queues", self._name)
        reports.reporter.defer()
        while not self._stopping:
            try:
                self.round()
                self._wait()
            except rq.Unavailable as error:
                outage.begin(error)
                if isinstance(error, rq.Refused):
                    self._seldom.warning("refused", "Redis refuses: %s", error)
                time.sleep(0.2)
            except Exception as error:
                self._recover(error)
        reports.reporter.finish()
        log.info("dispatcher %s is gone", self._name)

    def _recover(self, error: Exception) -> None:
        if isinstance(error, Error) and sql.is_disconnected(error):
            self._seldom.failure("away", error, "the database is away")
            self._reconciler.note_outage()
        else:
            self._seldom.failure("round", error, "a round failed")
        with suppress(Error):
            sql.close()
        time.sleep(0.2)

    def round(self) -> int:
        """Every queue has been fed once and the duties that were due are done.

        While Redis is away the duties of the database are done all the same, and one that fails
        keeps no other from being done.
        """
        duties = self._duties
        duties.do("limits", self._sync_limits)
        duties.do("promote", promote)
        duties.do_with_redis("look", self._look_who_lives)
        fed = 0
        for queue, feed in self._feeds.items():
            if duties.lacks_redis:
                break
            fed += duties.do_with_redis(f"feed {queue}", partial(self._feed, queue, feed)) or 0
        self._reconciler.round(list(self._feeds))
        duties.end()
        return fed

    def _feed(self, queue: str, feed: _Feed) -> int:
        room = feed.room(rq.length(queue), time.monotonic())
        if room <= 0:
            feed.backlog = True
            return 0
        budget = min(room, ROUND_LIMIT)
        ids = admit(queue, budget)
        # Fewer ids than asked for do not mean that no more wait: lanes share evenly, rounded down.
        feed.backlog = bool(ids)
        if ids:
            feed.length, seq = rq.push(queue, ids)
            self._reconciler.note_push(queue, seq)
        elif time.monotonic() - feed.opened_at > 0.5:
            if closures.lets_be_born_queued(queue):
                rq.set_open(queue, 2.0)
            feed.opened_at = time.monotonic()
        return len(ids)

    def _sync_limits(self) -> None:
        """Before anything is admitted, and now and then again, limits are as code declares them."""
        moment = time.monotonic()
        if self._synced_at is None or moment - self._synced_at >= admission.SYNC_INTERVAL:
            admission.sync_limits()
            self._rated_keys = [scope for (scope,) in sql.rows(_RATED_KEYS)]
            self._synced_at = moment

    def _look_who_lives(self) -> None:
        moment = time.monotonic()
        if moment - self._live_at < LIVE_INTERVAL:
            return
        self._live_at = moment
        admission.end_overrides()
        live = Counter(leases.live_queues())
        if unknown := set(live) - self._known:
            know_queues(unknown)
            self._known |= unknown
        for gone in set(self._feeds) - set(live):
            del self._feeds[gone]
        for queue, slots in live.items():
            self._feeds.setdefault(queue, _Feed()).slots = slots

    def _wait(self) -> None:
        if any(feed.is_short for feed in self._feeds.values()):
            return
        if any(feed.backlog for feed in self._feeds.values()):
            time.sleep(BUSY_PAUSE)
            return
        rq.await_nudge(self._until_next())

    def _until_next(self) -> float:
        tick = self._reconciler.pause
        [(wait,)] = sql.bound_rows("SELECT jobs_next_round(%s)", [self._rated_keys])
        return min(tick, max(0.005, tick if wait is None else wait))

    def _on_signal(self, *_: object) -> None:
        self._stopping = True


_RATED_KEYS = """
SELECT scope FROM jobs_limiter WHERE scope < 'kind' AND key IS NULL AND per_second > 0
"""


def admit(queue: str, budget: int) -> list[UUID]:
    """Ids of jobs that are queued from now on, in the order in which to push them."""
    weights = json.dumps(dict(conf.settings().WEIGHTS))
    parameters = [queue, budget, MAX_LANES, weights]
    statement = "SELECT id FROM jobs_dispatch(%s, %s, %s, %s::jsonb)"
    return [i for (i,) in sql.repeating(lambda: sql.bound_rows(statement, parameters))]


def promote(limit: int = 2000) -> int:
    """Jobs whose time has come are ready."""
    [(promoted,)] = sql.repeating(lambda: sql.bound_rows("SELECT jobs_promote(%s)", [limit]))
    return int(promoted)


def know_queues(names: set[str]) -> None:
    """Each queue has the row that its dispatch locks."""
    with transaction.atomic(using=sql.alias()):
        for name in sorted(names):
            sql.run("INSERT INTO jobs_queue (name) VALUES (%s) ON CONFLICT DO NOTHING", [name])
