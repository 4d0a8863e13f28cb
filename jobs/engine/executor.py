"""An executor: a long-lived child of the worker that takes, claims, runs and settles jobs.

The main thread takes ids and claims them in batches; ``concurrency`` threads run handlers;
one thread settles what they leave behind, again in batches; one event loop runs coroutines.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import Error

from jobs import conf, registry
from jobs.context import Signal
from jobs.engine import claims, leases, process, rq, runner, sql
from jobs.engine.board import Board, StopReason, now
from jobs.engine.claims import Claim, Ended
from jobs.engine.dispatch import Dispatcher
from jobs.engine.settler import Settler
from jobs.ids import uuid7
from jobs.outcomes import decide

log = logging.getLogger("jobs.executor")

IDLE_WAIT = 1.0
"""Seconds that an idle executor waits for an id before it looks around."""
LOOK_AHEAD_SECONDS = 0.008
"""So much work, by the measured pace, may be claimed beyond the free slots."""
LOOK_AHEAD_LIMIT = 200
LOOK_AHEAD_LONGEST = 0.05
"""Nothing is claimed ahead of jobs that take longer, since it might begin sooner elsewhere."""
DRAINED, RECYCLED = 0, 3
"""Exit codes: told to stop or out of work, and in need of a replacement."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an executor is to do; the same for all of a worker."""

    worker: str
    queues: tuple[tuple[str, int], ...]
    """Names and weights."""
    concurrency: int
    burst: bool = False
    max_jobs: int | None = None
    max_memory: float | None = None
    processes: int = 1

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.queues]


class Executor:
    """Lives in a process of its own; ``run`` is its whole life."""

    def __init__(self, plan: Plan, board: Board, index: int) -> None:
        self._plan, self._board, self._index = plan, board, index
        self._owner = board.owner(index)
        self._inbox: queue.SimpleQueue[Claim | None] = queue.SimpleQueue()
        self._freed: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._begun = self._ended = 0
        """Claims given to the threads, and claims they have told to be done with."""
        self._settler = Settler(plan.worker, self._is_busy)
        self._pace = _Pace()
        self._stopping = False
        self._claimed = 0
        self._is_recycled = False
        self._feeder = Dispatcher(plan.worker)
        self._order = _weighted_orders(plan.queues)
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_lock = threading.Lock()

    def run(self) -> None:
        """Works until told to stop, recycled, or (in a burst) out of work."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._open_lease()
        self._settler.start()
        self._threads = [
            threading.Thread(target=self._work, args=(slot,), daemon=True, name=f"slot-{slot}")
            for slot in range(self._plan.concurrency)
        ]
        for thread in self._threads:
            thread.start()
        while not self._stopping:
            try:
                self._round()
            except rq.Unavailable as error:
                log.warning("Redis is away: %s", error)
                self._pause(0.5)
            except Error as error:
                log.warning("the database is away: %s", error)
                sql.close()
                self._pause(0.5)
            except Exception:
                log.exception("a round failed")
                self._pause(0.5)
        self._wind_up()

    def _round(self) -> None:
        """Takes ids for the free slots and claims them, or waits for one."""
        self._board.beat(self._index)
        if self._is_spent():
            if self._inbox.qsize():  # what was claimed is begun here
                self._await_freed()
            else:
                self._stopping = self._is_recycled = True
            return
        want = self._wanted()
        if want <= 0:
            self._await_freed()
            return
        order = next(self._order)
        taken = rq.take(order, want) or (self._burst() if self._plan.burst else self._wait(order))
        for name, ids in taken.items():
            if self._stopping:  # told so while it waited
                rq.give_back(name, ids)
            else:
                self._start(self._claim(name, ids))

    def _wait(self, order: Sequence[str]) -> dict[str, list[UUID]]:
        arrived = rq.wait(order, IDLE_WAIT)
        return {} if arrived is None else {arrived[0]: arrived[1]}

    def _burst(self) -> dict[str, list[UUID]]:
        """A burst feeds itself, so that it also ends where no dispatcher runs."""
        if not self._feeder.round():
            self._stopping = self._stopping or self._is_out_of_work()
            self._await_freed()
        return {}

    def _claim(self, name: str, ids: Sequence[UUID]) -> list[Claim]:
        """The claims, however often the database has to be asked: the ids are in no list now."""
        token = uuid7()
        try:
            return claims.claim(name, ids, self._owner, self._plan.worker, token)
        except Error as error:
            if not sql.is_disconnected(error):
                log.exception("claim failed; the reconciler will offer the jobs again")
                return []
        for pause in _pauses():
            self._pause(pause)
            if self._stopping:
                return []
            try:
                # Our first try may have been committed although its answer was lost.
                sql.close()
                mine = claims.claimed(token, ids)
                return mine or claims.claim(name, ids, self._owner, self._plan.worker, token)
            except Error as error:
                log.warning("claim waits for the database: %s", error)
        return []

    def _start(self, claimed: list[Claim]) -> None:
        self._claimed += len(claimed)
        suspects = []
        for claim in claimed:
            if claim.crashes:
                suspects.append(claim)
            else:
                self._begin(claim)
        for claim in suspects:
            self._run_alone(claim)

    def _run_alone(self, claim: Claim) -> None:
        """A job that was running when an executor died takes nobody with it the next time."""
        while self._busy_or_waiting() and not self._stopping:
            self._await_freed()
        if self._stopping:
            self._release([claim])
            return
        self._begin(claim)
        while self._busy_or_waiting() and not self._stopping:
            self._await_freed()

    def _begin(self, claim: Claim) -> None:
        self._begun += 1
        self._inbox.put(claim)

    def _busy_or_waiting(self) -> bool:
        # By count: a thread may have taken a claim and not shown it on the board yet.
        self._note_freed()
        return self._begun != self._ended

    def _work(self, slot: int) -> None:
        """A handler thread's life."""
        board, index, plan = self._board, self._index, self._plan
        while True:
            claim = self._inbox.get()
            if claim is None:
                return
            begun = time.monotonic()
            seq = board.begin(index, slot, claim.id, claim.token, claim.attempt, claim.timeout)

            def peek(seq: int = seq) -> str:
                reason = board.stop_reason(index, slot, seq)
                return reason.word if reason is not StopReason.NONE else ""

            try:
                outcome = runner.run(claim, Signal(peek), self._await, plan.worker)
                runner.refresh_connections()
            except BaseException:
                log.exception("the runner itself failed on job %s", claim.id)
                outcome = None
            if outcome is not None:
                self._settler.put(outcome)
            board.end(index, slot)
            self._pace.note(time.monotonic() - begun)
            self._freed.put(None)

    def _await(self, coroutine: Any, signal: Signal) -> Any:
        """The coroutine's result, run on this executor's one event loop."""
        if self._loop is None:
            with self._loop_lock:
                if self._loop is None:
                    loop = asyncio.new_event_loop()
                    threading.Thread(target=loop.run_forever, daemon=True, name="loop").start()
                    self._loop = loop
        return asyncio.run_coroutine_threadsafe(runner.obey(coroutine, signal), self._loop).result()

    # ---- how much to take

    def _wanted(self) -> int:
        slots = self._plan.concurrency
        waiting = self._inbox.qsize() + self._settler.backlog()
        want = slots - self._board.busy(self._index) - waiting + self._pace.look_ahead(slots)
        if self._plan.max_jobs is not None:
            want = min(want, self._plan.max_jobs - self._claimed)
        return want

    def _await_freed(self) -> None:
        self._board.beat(self._index)
        with suppress(queue.Empty):
            self._freed.get(timeout=0.05)
            self._ended += 1
        self._note_freed()

    def _note_freed(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._freed.get_nowait()
                self._ended += 1

    def _is_spent(self) -> bool:
        if self._plan.max_jobs is not None and self._claimed >= self._plan.max_jobs:
            return True
        limit = self._plan.max_memory
        # One that is born too large still does something before it goes.
        return limit is not None and self._claimed > 0 and process.memory_mb() > limit

    def _is_out_of_work(self) -> bool:
        if self._busy_or_waiting() or self._settler.backlog():
            return False
        [(more,)] = sql.rows(
            "SELECT EXISTS (SELECT 1 FROM jobs_job WHERE queue = ANY(%s) AND (state = 'queued' "
            "OR state = 'pending' AND (wait = 0 OR wait = 1 AND run_at <= jobs_clock())))",
            [self._plan.names],
        )
        return not more

    def _is_busy(self) -> bool:
        return bool(self._inbox.qsize())

    # ---- beginning and end

    def _open_lease(self) -> None:
        plan = self._plan
        for pause in _pauses():
            asked = now()
            try:
                leases.open_lease(self._owner, plan.worker, plan.names, plan.concurrency)
            except Error as error:
                log.warning("waiting for the database: %s", error)
                sql.close()
                self._pause(pause)
            else:
                self._board.set_lease(self._index, asked + conf.settings().LEASE)
                claims.claim(plan.names[0], [], self._owner, plan.worker)  # its plan is made
                return
            if self._stopping:
                return

    def _on_sigterm(self, *_: object) -> None:
        self._stopping = True

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._stopping and (left := end - time.monotonic()) > 0:
            self._board.beat(self._index)
            time.sleep(min(left, 0.05))

    def _wind_up(self) -> None:
        """Nothing new is begun; what runs may end; what was not begun is handed back."""
        unbegun = []
        while True:
            try:
                claim = self._inbox.get_nowait()
            except queue.Empty:
                break
            if claim is not None:
                unbegun.append(claim)
        self._release(unbegun)
        with suppress(Error):
            leases.drain([self._owner])
        # Not until the slots are idle: a thread may have taken a claim and not shown it yet.
        for _ in self._threads:
            self._inbox.put(None)
        while any(thread.is_alive() for thread in self._threads):
            self._await_freed()
        self._settler.finish()
        # Daemon threads may hold anything; the supervisor closes the lease.
        os._exit(RECYCLED if self._is_recycled else DRAINED)

    def _release(self, unbegun: Sequence[Claim]) -> None:
        for claim in unbegun:
            handler = registry.find(claim.kind)
            move = decide("released", claim.counters, handler, why="handed back unbegun")
            self._settler.put(Ended(claim.id, claim.token, claim.kind, move))


class _Pace:
    """How long jobs take here of late, and so how many may be claimed ahead."""

    def __init__(self) -> None:
        self._mean = 1.0

    def note(self, seconds: float) -> None:
        # Threads may overwrite each other's note; it is an estimate.
        weight = 0.02 if seconds < self._mean else 0.2
        self._mean += (seconds - self._mean) * weight if self._mean < 1.0 else seconds - self._mean

    def look_ahead(self, slots: int) -> int:
        if self._mean > LOOK_AHEAD_LONGEST:
            return 0
        return min(LOOK_AHEAD_LIMIT, int(LOOK_AHEAD_SECONDS * slots / max(self._mean, 1e-5)))


def _weighted_orders(queues: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Endless orders of the queues, in which each comes first as often as its weight says."""
    names = [name for name, _ in queues]
    if len(names) == 1:
        return itertools.repeat(names)
    return _smooth(dict(queues))


def _smooth(weights: dict[str, int]) -> Iterator[list[str]]:
    credit = dict.fromkeys(weights, 0)
    total = sum(weights.values())
    while True:
        for name, weight in weights.items():
            credit[name] += weight
        order = sorted(credit, key=lambda name: -credit[name])
        credit[order[0]] -= total
        yield order


def _pauses() -> Iterator[float]:
    """Seconds to wait before each further try: quick at first, then once a second."""
    return itertools.chain((0.05, 0.1, 0.2, 0.5), itertools.repeat(1.0))


def main(plan: Plan, board: Board, index: int) -> None:
    """The body of the forked process; never returns."""
    code = 1
    try:
        process.forget_connections()
        Executor(plan, board, index).run()
        code = 0
    except BaseException:
        log.exception("the executor failed")
    finally:
        os._exit(code)
