"""The keeper: the worker's process that speaks with the databases, so that the supervisor never
waits for them. It renews leases, reports deaths, brings cancel requests, and shows the worker
in RQ's registry. Redis is asked by a thread of its own: no lease waits for it.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import Error

from jobs import conf
from jobs import registry as handlers
from jobs.engine import leases, presence, process, reports, roll, rq, sql
from jobs.engine.board import LOST, Board, StopReason, now
from jobs.engine.seldom import Seldom
from jobs.outcomes import LOSSES, Ending, Fault

if TYPE_CHECKING:
    from jobs.engine.executor import Plan

log = logging.getLogger("jobs.keeper")

STOP_INTERVAL = 0.1
REGISTRY_INTERVAL = 20.0
REGISTRY_PATIENCE = 2.0
"""Seconds that the end of a worker waits for RQ's registry."""
ASK_INTERVAL = 0.5
_SIGNALS = {"drain": signal.SIGUSR1, "stop": signal.SIGTERM}
_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Death:
    """An executor is gone; how each job that it had begun is to be settled."""

    owner: UUID
    why: str
    endings: dict[UUID, tuple[Ending, str]]

    def to_line(self) -> bytes:
        endings = {str(job_id): list(ending) for job_id, ending in self.endings.items()}
        return json.dumps([str(self.owner), self.why, endings]).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Death:
        owner, why, endings = json.loads(line)
        return cls(UUID(owner), why, {UUID(job_id): (e[0], e[1]) for job_id, e in endings.items()})


class Keeper:
    """Lives in a process of its own; ``run`` is its whole life."""

    def __init__(self, board: Board, pipe: int, plan: Plan, registry: Any) -> None:
        self._board, self._pipe, self._worker = board, pipe, plan.worker
        self._plan = plan
        self._supervisor = os.getppid()
        self._obeyed = ""
        self._asked_at = 0.0
        self._announced_at = self._tried_at = 0.0
        self._registry = _Registry(registry)
        self._unread = b""
        self._deaths: list[Death] = []
        self._seldom = Seldom(log)
        self._ended = False
        self._renewed_at = 0.0
        self._looked_at = 0.0

    def run(self) -> None:
        """Works until the supervisor closes the pipe and every death is reported."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._registry.start()
        reports.reporter.defer()
        while not (self._ended and not self._deaths):
            self._board.beat(self._board.keeper)
            self._read()
            self._database(self._report_deaths)
            self._database(self._renew)
            self._database(self._bring_stops)
            self._database(self._announce)
            self._database(self._obey)
        self._registry.end()
        self._database(self._leave)
        self._registry.join(REGISTRY_PATIENCE)
        reports.reporter.finish()

    def _database(self, duty: Callable[[], None]) -> None:
        try:
            duty()
        except Error as error:
            name = duty.__name__.strip("_")
            self._seldom.failure(name, error, "%s waits for the database", name)
            with suppress(Error):
                sql.close()

    def _read(self) -> None:
        """What the supervisor has said; waits a moment where it says nothing."""
        if self._ended:
            time.sleep(_PAUSE)
            return
        readable, _, _ = select.select([self._pipe], [], [], _PAUSE)
        if not readable:
            return
        chunk = os.read(self._pipe, 1 << 20)
        if not chunk:
            self._ended = True
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            self._deaths.append(Death.from_line(line))

    def _report_deaths(self) -> None:
        for death in list(self._deaths):
            endings = {
                job_id: (ending, Fault(LOSSES.get(ending, "Lost"), message))
                for job_id, (ending, message) in death.endings.items()
            }
            try:
                leases.bury(death.owner, self._worker, endings, death.why)
            except Error as error:
                if not sql.is_refusal(error):
                    raise
                log.exception("executor %s is left to the reaper", death.owner)
            self._deaths.remove(death)
            self._board.note_report()

    def _renew(self) -> None:
        """Every living executor's lease is renewed, counted from before the renewal was asked."""
        settings = conf.settings()
        asked = now()
        if asked - self._renewed_at < settings.HEARTBEAT:
            return
        living = self._living()
        alive = leases.renew(living.values()) if living else set()
        self._renewed_at = asked
        for executor, owner in living.items():
            if self._board.owner(executor) == owner:  # not replaced while we were asking
                until = asked + settings.LEASE if owner in alive else LOST
                self._board.set_lease(executor, until)

    def _living(self) -> dict[int, UUID]:
        """The executors that have opened their lease and not lost it."""
        return {
            executor: self._board.owner(executor)
            for executor in range(self._board.executors)
            if self._board.lease_until(executor) > 0
        }

    def _bring_stops(self) -> None:
        """Who was asked to stop, by a cancel or a preemption, learns of it; without a lock."""
        moment = time.monotonic()
        if moment - self._looked_at < STOP_INTERVAL:
            return
        self._looked_at = moment
        running = {
            shown.job_id: (executor, shown)
            for executor in self._living()
            for shown in self._board.running(executor)
            if not shown.forced
        }
        if not running:
            return
        for job_id, token, kind, cancelled, forced, overdue in sql.bound_rows(
            _STOPS, [conf.settings().CANCEL_GRACE, conf.settings().PREEMPTION_GRACE, list(running)]
        ):
            executor, shown = running[job_id]
            if shown.token != token:
                continue
            handler = handlers.find(kind)
            force = forced or (overdue and handler is not None and handler.killable)
            reason = StopReason.CANCELLED if cancelled else StopReason.PREEMPTED
            self._board.stop(executor, shown.slot, shown.seq, reason, force=force)

    def _announce(self) -> None:
        """The worker stands on the roll."""
        moment = time.monotonic()
        every = conf.settings().HEARTBEAT if self._announced_at else ASK_INTERVAL
        if self._tried_at and moment - self._tried_at < every:
            return
        self._tried_at = moment
        slots = self._plan.concurrency * self._plan.processes
        roll.announce(self._worker, self._supervisor, self._plan.names, slots)
        self._announced_at = moment

    def _obey(self) -> None:
        """What people ask of the worker reaches its supervisor, once."""
        moment = time.monotonic()
        if self._ended or not self._announced_at or moment - self._asked_at < ASK_INTERVAL:
            return
        self._asked_at = moment
        asked = roll.asked(self._worker)
        if asked and asked != self._obeyed:
            log.info("worker %s is asked to %s", self._worker, asked)
            os.kill(self._supervisor, _SIGNALS[asked])
            self._obeyed = asked

    def _leave(self) -> None:
        roll.leave(self._worker)


class _Registry(threading.Thread):
    """Shows the worker in RQ's registry, where people look for it, until told to end."""

    def __init__(self, worker: Any) -> None:
        super().__init__(daemon=True, name="registry")
        self._worker = worker
        self._over = threading.Event()

    def end(self) -> None:
        self._over.set()

    def run(self) -> None:
        while not self._over.is_set():
            self._try(self._worker.announce)
            self._over.wait(REGISTRY_INTERVAL)
        self._try(self._worker.register_death)

    def _try(self, tell: Callable[[], object]) -> None:
        try:
            tell()
        except (*rq.Unavailable, ValueError) as error:
            log.debug("RQ's registry was not told: %s", error)


_STOPS = """
SELECT id, token, kind, cancel_requested_at IS NOT NULL,
  cancel_forced AND cancel_requested_at < jobs_clock() - %s * interval '1 s',
  cancel_requested_at IS NULL AND preempt_asked_at < jobs_clock() - %s * interval '1 s'
FROM jobs_job WHERE id = ANY(%s) AND state = 'running'
  AND (cancel_requested_at IS NOT NULL OR preempted_by IS NOT NULL)
"""


def main(board: Board, pipe: int, plan: Plan, registry: Any, inherited: Sequence[int] = ()) -> None:
    """The body of the forked process; never returns."""
    code = 1
    try:
        process.forget_connections()
        presence.introduce_worker(plan.worker)
        for descriptor in inherited:
            os.close(descriptor)
        Keeper(board, pipe, plan, registry).run()
        code = 0
    except BaseException:
        log.exception("the keeper failed")
    finally:
        os._exit(code)
