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
from functools import partial
from typing import Any
from uuid import UUID

from django.db import Error

from jobs import conf, registry
from jobs.context import Signal
from jobs.engine import (
    capacity,
    claims,
    isolated,
    leases,
    marks,
    presence,
    process,
    reports,
    rq,
    runner,
    sql,
)
from jobs.engine.board import Board, StopReason, now
from jobs.engine.claims import Claim, Ended
from jobs.engine.clients import LONGEST_WAIT
from jobs.engine.dispatch import Dispatcher
from jobs.engine.forkserver import ForkServer
from jobs.engine.outage import outage
from jobs.engine.seldom import Seldom
from jobs.engine.settler import Settler
from jobs.ids import uuid7
from jobs.outcomes import decide
from jobs.registry import Handler

log = logging.getLogger("jobs.executor")

IDLE_CONNECTION = 15.0
"""Seconds after which a slot without a job gives up its database connections."""
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


UNWRITTEN_LIMIT = 1024
"""Results that may wait to be written before an executor begins nothing more."""


def board_slots(concurrency: int) -> int:
    """Return how many slots of the board an executor has."""
    return 2 * concurrency + UNWRITTEN_LIMIT


class Executor:
    """Lives in a process of its own; ``run`` is its whole life."""

    def __init__(self, plan: Plan, board: Board, index: int) -> None:
        self._plan, self._board, self._index = plan, board, index
        self._owner = board.owner(index)
        self._inbox: queue.SimpleQueue[Claim | None] = queue.SimpleQueue()
        self._freed: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._begun = self._ended = 0
        """Claims given to the threads, and claims they have reported as done."""
        self._settler = Settler(plan.worker, self._is_busy, self._free)
        self._places = list(range(board.slots))
        """Free slots of the board; more than threads, since results may wait to be written."""
        self._seldom = Seldom(log)
        self._pace = _Pace()
        self._stopping = False
        self._claimed = 0
        self._is_recycled = False
        self._feeder = Dispatcher(plan.worker)
        self._order = _weighted_orders(plan.queues)
        self._marked_at = time.monotonic()
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_lock = threading.Lock()
        # While there are no threads.
        self._forks = ForkServer(isolated.body) if _needs_forks() else None

    def run(self) -> None:
        """Works until asked to stop, recycled, or (in a burst) out of work."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._open_lease()
        reports.reporter.defer()
        self._settler.start()
        self._threads = [
            threading.Thread(target=self._work, daemon=True, name=f"slot-{n}")
            for n in range(self._plan.concurrency)
        ]
        for thread in self._threads:
            thread.start()
        while not self._stopping:
            try:
                self._round()
            except rq.Unavailable as error:
                outage.begin(error)
                if isinstance(error, rq.Refused):
                    self._seldom.warning("refused", "Redis refuses: %s", error)
                self._pause(0.5)
            except Error as error:
                self._seldom.failure("round", error, "the database is away")
                with suppress(Error):
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
        outage.check()
        order = next(self._order)
        self._refresh_mark()
        taken = rq.take(order, want)
        taken = taken or (self._burst() if self._plan.burst else self._wait(order))
        for name, ids in taken.items():
            if self._stopping:  # asked so while it waited
                rq.give_back(name, ids)
            else:
                self._start(self._claim(name, ids))
                sql.give_back()

    def _wait(self, order: Sequence[str]) -> dict[str, list[UUID]]:
        arrived = rq.wait(order, LONGEST_WAIT)
        if arrived is None:
            return {}
        name, ids = arrived
        return {name: ids}

    def _refresh_mark(self) -> None:
        """Read the lists of the database as it is now: it may have moved to another server."""
        moment = time.monotonic()
        if moment - self._marked_at >= marks.REFRESH_INTERVAL:
            self._marked_at = moment
            marks.refresh()
            sql.give_back()

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
                text = "a claim failed; the jobs will be offered again"
                self._seldom.failure("offer", error, text)
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
                self._seldom.failure("claim", error, "a claim waits for the database")
        return []

    def _start(self, claimed: list[Claim]) -> None:
        self._claimed += len(claimed)
        suspects = []
        for claim in claimed:
            if claim.crashes and not _is_isolated(claim):
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

    def _work(self) -> None:
        """A handler thread's life."""
        while True:
            claim = self._next_claim()
            if claim is None:
                return
            begun = time.monotonic()
            slot = self._places.pop()
            outcome = self._run(claim, slot)
            if outcome is None:
                self._free(slot)
            else:
                self._board.hold(self._index, slot)
                self._settler.put(outcome, slot)
            try:
                runner.refresh_connections()
            except Exception:
                log.exception("connections could not be closed")
            self._pace.note(time.monotonic() - begun)
            self._freed.put(None)

    def _run(self, claim: Claim, slot: int) -> runner.Result:
        """Show the job on the board and run it; return what became of it."""
        handler = registry.find(claim.kind)
        grace = conf.settings().GRACE if handler is None else handler.grace
        alone = handler is not None and handler.isolation is not None
        board, index = self._board, self._index
        seq = board.begin(
            index, slot, claim.id, claim.token, claim.attempt, claim.timeout, grace, alone
        )

        def peek() -> str:
            reason = board.stop_reason(index, slot, seq)
            return reason.word if reason is not StopReason.NONE else ""

        try:
            if handler is not None and handler.isolation is not None:
                stop = partial(board.stop_order, index, slot, seq)
                return self._isolate(claim, handler, stop)
            return runner.run(claim, Signal(peek), self._await, self._plan.worker)
        except BaseException as error:
            log.exception("the runner itself failed on job %s", claim.id)
            return runner.broken(claim, error)

    def _isolate(self, claim: Claim, handler: Handler, stop: isolated.Stop) -> runner.Result:
        """Run the job in a process of its own."""
        if self._forks is None:  # the kind was registered after this executor had begun
            raise RuntimeError("an isolated kind has to be in a handlers module")
        process.close_connections()  # the process has its own
        outcome = isolated.run(self._forks, claim, handler, stop, self._plan.worker)
        if not self._forks.is_alive:
            self._board.wear_out(self._index)
            self._is_recycled = self._stopping = True
        return outcome

    def _next_claim(self) -> Claim | None:
        with suppress(queue.Empty):
            return self._inbox.get(timeout=IDLE_CONNECTION)
        with suppress(Error):
            process.close_connections()  # others may need them
        return self._inbox.get()

    def _free(self, slot: int) -> None:
        """Nothing is left to be written of the job that the slot has shown."""
        self._board.end(self._index, slot)
        self._places.append(slot)

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
        if not self._settler.is_ready:
            return 0  # what would be begun could not be ended
        slots = self._plan.concurrency
        waiting = self._inbox.qsize() + self._settler.backlog()
        want = slots - self._board.busy(self._index) - waiting + self._pace.look_ahead(slots)
        # A thread may have taken a claim, and no place yet.
        want = min(want, len(self._places) - self._inbox.qsize() - slots)
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
                needed = capacity.of_executor(plan.concurrency)
                text = f"waiting for the database (this executor needs {needed} connections)"
                self._seldom.failure("lease", error, text)
                with suppress(Error):
                    sql.close()
                self._pause(pause)
            else:
                self._board.set_lease(self._index, asked + conf.settings().LEASE)
                with suppress(Error):
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
        reports.reporter.finish()
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


def _is_isolated(claim: Claim) -> bool:
    handler = registry.find(claim.kind)
    return handler is not None and handler.isolation is not None


def _needs_forks() -> bool:
    return any(handler.isolation is not None for handler in registry.handlers())


def _pauses() -> Iterator[float]:
    """Seconds to wait before each further try: quick at first, then once a second."""
    return itertools.chain((0.05, 0.1, 0.2, 0.5), itertools.repeat(1.0))


def main(plan: Plan, board: Board, index: int) -> None:
    """The body of the forked process; never returns."""
    code = 1
    try:
        process.forget_connections()
        presence.introduce_worker(plan.worker)
        Executor(plan, board, index).run()
        code = 0
    except BaseException:
        log.exception("the executor failed")
    finally:
        os._exit(code)
