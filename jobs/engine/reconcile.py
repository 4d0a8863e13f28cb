"""The reconciler: compares what should be with what is, and repairs the difference.

Each duty does one bounded batch, and may run anywhere twice.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Sequence
from uuid import UUID

from django.db import transaction

from jobs import conf, registry
from jobs.engine import (
    arrivals,
    claims,
    closures,
    endings,
    leases,
    marks,
    relay,
    retention,
    rq,
    schedules,
    slots,
    sql,
    timetables,
    withdrawal,
)
from jobs.engine.duties import Duties
from jobs.engine.flow import Flow

log = logging.getLogger("jobs.reconcile")

REAP_INTERVAL = 0.5
REPUSH_INTERVAL = 0.5
WITHDRAW_INTERVAL = 0.25
STALE_INTERVAL = 1.0
FREE_INTERVAL = 2.0
EXPIRE_INTERVAL = 1.0
PREEMPT_INTERVAL = 0.2
SCHEDULE_INTERVAL = 0.5
FORGET_INTERVAL = 60.0
ANNOUNCE_INTERVAL = 5.0
REAP_LIMIT = 200
"""Jobs settled per reap: after a long outage they come back in portions."""


class Reconciler:
    """The duties that a dispatcher does between its rounds."""

    def __init__(self, worker: str, duties: Duties | None = None) -> None:
        self._worker = worker
        self._duties = duties or Duties(log)
        self._epoch = ""
        self._pushed: dict[str, int] = {}
        self._wiped = False
        self._patience_until = 0.0
        self._patience_checked = False
        self._knows_schedules = False
        self._slots = slots.Watch()
        self._sweeper = retention.Sweeper()
        self._relay = relay.Relay()
        self._teller = endings.Teller()

    def round(self, queues: Sequence[str]) -> None:
        """Every duty whose time has come is done."""
        every = self._duties.every
        with_redis = self._duties.every_with_redis
        with_redis(ANNOUNCE_INTERVAL, "announce", lambda: rq.note_dispatcher(self._worker))
        every(conf.settings().TICK, "close", closures.refresh)
        # Before ids are pushed again: what is withdrawn has none to push.
        every(WITHDRAW_INTERVAL, "withdraw", lambda: withdrawal.withdraw_closed(self._worker))
        every(STALE_INTERVAL, "held", lambda: withdrawal.withdraw_held(self._worker))
        every(STALE_INTERVAL, "stale", lambda: withdrawal.withdraw_stale(self._worker))
        with_redis(REPUSH_INTERVAL, "repush", lambda: self._repush(queues))
        every(REAP_INTERVAL, "reap", self._reap)
        every(SCHEDULE_INTERVAL, "schedules", self._serve_schedules)
        every(PREEMPT_INTERVAL, "preempt", lambda: preempt(queues))
        every(EXPIRE_INTERVAL, "expire", lambda: expire(self._worker))
        every(FREE_INTERVAL, "free", self._free)
        every(FORGET_INTERVAL, "forget", leases.forget_dead)
        every(marks.REFRESH_INTERVAL, "mark", marks.refresh)
        with_redis(FORGET_INTERVAL, "registry", rq.forget_dead_workers)
        every(endings.INTERVAL, "endings", self._teller.run)
        every(self._sweeper.interval, "sweep", self._sweeper.run)
        every(arrivals.INTERVAL, "arrivals", arrivals.tally)
        every(relay.INTERVAL, "relay", self._relay.work)
        self._duties.end()

    @property
    def pause(self) -> float:
        """Seconds that may pass until the next round."""
        tick = conf.settings().TICK
        return min(tick, relay.INTERVAL) if self._relay.is_lively else tick

    def note_push(self, queue: str, seq: int) -> None:
        """The last push that Redis has acknowledged; the counter only ever grows."""
        self._wiped = self._wiped or seq <= self._pushed.get(queue, 0)
        self._pushed[queue] = seq

    def note_outage(self) -> None:
        """The database was away: leases could not be renewed, which proves nothing."""
        self._patience_until = time.monotonic() + conf.settings().LEASE

    def _serve_schedules(self) -> None:
        if not self._knows_schedules:
            timetables.sync()
            self._knows_schedules = True
        schedules.tick()

    def _reap(self) -> None:
        if not self._patience_checked:
            self._patience_until = max(self._patience_until, time.monotonic() + patience())
            self._patience_checked = True
        if time.monotonic() >= self._patience_until:
            for owner in leases.mark_lapsed():
                log.warning("the lease of executor %s ran out", owner)
        if lost := leases.reap(self._worker, REAP_LIMIT):
            log.warning("%d jobs of silent executors were settled", len(lost))

    def _free(self) -> None:
        if leaked := slots.free_leaked():
            log.warning("%d exclusive keys were held by nobody, like %r", len(leaked), leaked[0])
        self._slots.wake_forgotten()
        slots.wake_limited()

    def _repush(self, queues: Sequence[str]) -> None:
        """Queued ids that are in no list are pushed again; all of them after a loss of Redis."""
        self._look_for_loss(queues)
        after = 0.0 if self._wiped else conf.settings().REQUEUE_AFTER
        for queue in queues:
            missing = find_missing(queue, after)
            if missing:
                log.info("pushing %d ids again to %s", len(missing), queue)
                _, seq = rq.push(queue, missing)
                self._pushed[queue] = seq
                _touch(missing)
        self._wiped = False

    def _look_for_loss(self, queues: Sequence[str]) -> None:
        # A new mark every time: the old one, put back, would hide that it had been lost.
        known, self._epoch = self._epoch, rq.epoch(secrets.token_hex(8))
        self._wiped = self._wiped or (bool(known) and known != self._epoch)
        for queue in queues:
            counter = rq.push_counter(queue)
            self._wiped = self._wiped or counter < self._pushed.get(queue, 0)
            self._pushed[queue] = counter
        if self._wiped:
            log.warning("Redis has lost what was written to it; pushing the queued jobs again")


def patience() -> float:
    """Seconds that a reaper has to wait before it trusts the silence of an executor.

    While the server is younger than a lease, nobody could have renewed one in time.
    """
    lease = conf.settings().LEASE
    [(age,)] = sql.rows(
        "SELECT extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8"
    )
    return float(max(0.0, lease - age))


def find_missing(queue: str, after: float, limit: int = 5000) -> list[UUID]:
    """Ids queued for longer than ``after`` seconds and in no list of Redis."""
    stale = sql.bound_rows(
        "SELECT id FROM jobs_job WHERE queue = %s AND state = 'queued' "
        "AND queued_at <= jobs_clock() - %s * interval '1 s' "
        # Those admitted at a rate too long ago are about to be withdrawn.
        "AND (flow & %s = 0 OR queued_at > jobs_clock() - %s * interval '1 s') "
        "ORDER BY queued_at LIMIT %s",
        [queue, after, int(Flow.PACED), withdrawal.STALE_AFTER, limit],
    )
    if not stale:
        return []
    present = rq.listed(queue)
    return [job_id for (job_id,) in stale if job_id not in present]


# An admission at a rate does not grow younger.
_TOUCH = """
WITH l AS MATERIALIZED (SELECT id FROM jobs_job
  WHERE id = ANY(%s) AND state = 'queued' AND flow & %s = 0
  ORDER BY id FOR NO KEY UPDATE)
UPDATE jobs_job j SET queued_at = jobs_clock() FROM l WHERE j.id = l.id
"""


def _touch(ids: list[UUID]) -> None:
    """The ids count as queued from now on, so that they are not pushed again at once."""
    sql.repeating(lambda: sql.bound_rows(_TOUCH, [ids, int(Flow.PACED)]))


_EXPIRE = """
WITH l AS MATERIALIZED (SELECT id FROM jobs_job
  WHERE state IN ('blocked', 'pending', 'queued') AND expires_at <= jobs_clock()
  ORDER BY id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobs_job j SET state = 'expired', finished_at = jobs_clock(), queued_at = NULL,
  moved_by = %s, move_reason = 'not started before its expiry'
FROM l WHERE j.id = l.id RETURNING j.id, j.state, j.flow
"""


def expire(worker: str, limit: int = 1000) -> int:
    """Jobs that have not started before their expiry are closed."""

    def write() -> int:
        with transaction.atomic(using=sql.alias()):
            moved = sql.rows(_EXPIRE, [limit, worker])
            claims.follow(moved)
            return len(moved)

    return sql.repeating(write)


def preempt(served: Sequence[str] | None = None) -> int:
    """Take exclusive keys from preemptible holders for which somebody more urgent waits.

    A running holder is asked to stop; a queued one is pending again, and the urgent job is queued
    in its place. With ``served``, only jobs of these queues preempt. Return how many holders were
    preempted.
    """
    of_kinds = {
        name: handler.preemptions
        for handler in registry.handlers()
        if handler.preemptions is not None
        for name in (handler.kind, *handler.payload.aliases)
    }
    limit = conf.settings().PREEMPTION_LIMIT
    parameters = [limit, json.dumps(of_kinds), None if served is None else list(served)]

    def write() -> list[sql.Row]:
        with transaction.atomic(using=sql.alias()):
            preempted = sql.rows(_PREEMPT, parameters)
            if preempted:
                claims.nudge()
            return preempted

    preempted = sql.repeating(write)
    for _, heir, queue in preempted:
        if queue is not None:
            rq.give_back(queue, [heir])
    return len(preempted)


_PREEMPT = "SELECT holder, heir, queue FROM jobs_preempt(%s, %s::jsonb, %s::text[])"
