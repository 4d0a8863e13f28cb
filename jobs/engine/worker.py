"""The worker's supervisor: forks executors and a keeper, and watches them from outside.

It has no thread, no database connection and no Redis connection, so that it can fork at any
time and is never kept waiting. What it needs of the databases, the keeper does.
"""

from __future__ import annotations

import gc
import logging
import os
import secrets
import select
import signal
import socket
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import UUID

from jobs import conf
from jobs.engine import executor, keeper, process, rq
from jobs.engine.board import LOST, NOBODY, Board, Running, StopReason, now
from jobs.engine.executor import Plan
from jobs.engine.keeper import Death
from jobs.ids import uuid7
from jobs.outcomes import Ending

log = logging.getLogger("jobs.worker")

_LOOK_INTERVAL = 0.1
_FENCE_SHARE = 0.2
"""With less than this share of its lease left, an executor's jobs are asked to stop."""
_RESPAWN_PAUSE = 1.0
_STANDSTILL = 3.0
"""Seconds without a sign of life after which an executor's interpreter is stuck."""
_KEEPER_PATIENCE = 2.0
"""Seconds at least without a sign of life after which the keeper is replaced."""
_STEADY = 60.0
"""Seconds after which a keeper counts as steady. Until then each gets twice the patience of the one
before it: what takes long, like a name server that is gone, is the same for the next one."""
_EXECUTOR_PATIENCE = 4
"""Leases without a sign of life after which an executor gets a successor. It is not killed: it
may be waiting for a lock in the database, and have results to write."""
_ISOLATED_PATIENCE = 10.0
"""Seconds that an executor has to end the process of a job that is late, before it is to blame."""
_NAP = 1.0
"""Seconds from one look to the next after which this process has been asleep itself."""
_LAST_WORDS = 4.0
"""Seconds that the keeper has for its last reports."""
_SHUTDOWN_NOTICE = 5.0
"""Seconds before the end of the drain at which handlers learn of the shutdown."""


_FORCED_ENDINGS: dict[StopReason, Ending] = {
    StopReason.TIMEOUT: "timeout",
    StopReason.CANCELLED: "cancelled",
    StopReason.PREEMPTED: "preempted",
    StopReason.SHUTDOWN: "lost",
    StopReason.LEASE_LOST: "lost",
}


def worker_name(group: str = "") -> str:
    """A name of its own for every worker; that of its group comes first."""
    name = f"{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(2)}"
    return f"{group}@{name}" if group else name


@dataclass(slots=True)
class _Child:
    """An executor's process."""

    pid: int
    index: int
    owner: UUID
    born: float
    retiring: bool = False
    killed_for: str = ""
    overdue: set[UUID] = field(default_factory=set)
    """Jobs for whose timeout it was killed."""
    forced: dict[UUID, StopReason] = field(default_factory=dict)
    """Jobs that were to be stopped by force, and why."""


class Supervisor:
    """One worker: ``processes`` executors and what they need."""

    def __init__(self, plan: Plan, processes: int) -> None:
        self._plan, self._processes = replace(plan, processes=processes), processes
        # Replacements start before the replaced have gone.
        self._board = Board(processes * 2 + 1, executor.board_slots(plan.concurrency))
        self._children: dict[int, _Child] = {}
        self._keeper_pid = 0
        self._pipe = -1
        self._unsent = b""
        self._deaths: deque[bytes] = deque()
        """Those that no keeper has reported yet."""
        self._reported = 0
        self._keeper_killed, self._keeper_born, self._keepers_killed = False, 0.0, 0
        self._looked_at = self._awake_since = now()
        self._signals = 0
        self._asked_to_drain = False
        self._is_draining = False
        self._stop_at: float | None = None
        self._respawn_at = 0.0
        self._finished = 0
        self._registry = rq.JobsWorker(plan.worker, plan.names, self._supervise)

    def run(self) -> int:
        """Works until asked to stop; answers the exit code."""
        rq.self_test()
        return 0 if self._registry.work() else 1

    def _supervise(self) -> int:
        wakeup = self._install_signals()
        process.close_connections()
        # What is loaded by now is shared by all the children, for as long as nobody touches it.
        gc.collect()
        gc.freeze()
        log.info("worker %s listens to %s", self._plan.worker, ", ".join(self._plan.names))
        while not self._is_done():
            self._respawn()
            self._look()
            select.select([wakeup], [], [], _LOOK_INTERVAL)
            with suppress(BlockingIOError):
                os.read(wakeup, 4096)
            self._reap_children()
            self._obey_signals()
            self._send()
        self._end_keeper()
        log.info("worker %s is gone", self._plan.worker)
        return 0

    # ---- children

    def _respawn(self) -> None:
        if self._keeper_pid == 0:
            self._fork_keeper()
        if self._is_draining or self._stop_at is not None or now() < self._respawn_at:
            return
        active = sum(not child.retiring for child in self._children.values())
        for _ in range(self._processes - active - self._finished):
            index = self._free_index()
            if index is None:
                return
            self._fork_executor(index)

    def _free_index(self) -> int | None:
        taken = {child.index for child in self._children.values()}
        return next((i for i in range(self._board.executors) if i not in taken), None)

    def _fork_executor(self, index: int) -> None:
        owner = uuid7()
        self._board.assign(index, owner)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_child(parent)
            executor.main(self._plan, self._board, index)
        self._children[pid] = _Child(pid, index, owner, now())

    def _fork_keeper(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_child(parent)
            keeper.main(self._board, reading, self._plan, self._registry, [writing])
        os.close(reading)
        if self._pipe >= 0:
            os.close(self._pipe)
        self._keeper_pid, self._pipe = pid, writing
        self._keeper_killed, self._keeper_born = False, now()
        self._board.beat(self._board.keeper)
        # What the last keeper had heard and not reported, this one hears again.
        self._drop_reported()
        self._unsent = b"".join(self._deaths)

    def _drop_reported(self) -> None:
        while self._reported < self._board.reported:
            self._deaths.popleft()
            self._reported += 1

    def _become_child(self, parent: int) -> None:
        signal.set_wakeup_fd(-1)
        process.die_with_parent(parent)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if self._pipe >= 0:
            with suppress(OSError):
                os.close(self._pipe)

    def _reap_children(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._keeper_pid:
                log.error("the keeper %s; starting another", process.exit_description(status))
                self._keeper_pid = 0
            elif child := self._children.pop(pid, None):
                self._bury(child, status)

    def _bury(self, child: _Child, status: int) -> None:
        """The executor is gone: what it was running is settled at once, by the keeper."""
        shown = list(self._board.running(child.index))
        how = process.exit_description(status)
        code = os.waitstatus_to_exitcode(status)
        # One that was retired right after its fork has not begun to handle signals.
        retired = child.retiring and code == -signal.SIGTERM
        ended = (retired or code in (executor.DRAINED, executor.RECYCLED)) and not shown
        crashed = not child.killed_for and not ended
        if crashed:
            # What it was running is reported job by job.
            level = logging.WARNING if shown else logging.ERROR
            log.log(level, "executor %d %s while running %d jobs", child.pid, how, len(shown))
            if not shown and now() - child.born < _RESPAWN_PAUSE:
                self._respawn_at = now() + _RESPAWN_PAUSE
        elif code == executor.DRAINED and not child.retiring:
            self._finished += 1
        unwritten: tuple[Ending, str] = ("lost", "its process ended before its result was written")
        endings: dict[UUID, tuple[Ending, str]] = dict.fromkeys(
            self._board.unwritten(child.index), unwritten
        )
        endings |= {r.job_id: self._ending(child, r, how) for r in shown}
        why = child.killed_for or ("its executor " + how if crashed else "its executor ended")
        self._board.assign(child.index, NOBODY)
        self._drop_reported()
        self._deaths.append(Death(child.owner, why, endings).to_line())
        self._unsent += self._deaths[-1]
        self._send()

    def _ending(self, child: _Child, shown: Running, how: str) -> tuple[Ending, str]:
        if shown.job_id in child.overdue:
            return "timeout", "did not end after its timeout; its process was killed"
        if reason := child.forced.get(shown.job_id):
            return _FORCED_ENDINGS[
                reason
            ], f"did not stop when it was {reason.word}; its process was killed"
        if child.killed_for:
            return "lost", f"its executor was stopped: {child.killed_for}"
        if shown.isolated:  # in a process of its own, it cannot have been the cause
            return "lost", f"its executor {how}"
        return "crashed", f"its process {how}"

    def _send(self) -> None:
        """Passes on to the keeper what it can take, without waiting for it."""
        while self._unsent:
            try:
                sent = os.write(self._pipe, self._unsent)
            except (BlockingIOError, BrokenPipeError):
                return
            self._unsent = self._unsent[sent:]

    # ---- watching

    def _look(self) -> None:
        moment = now()
        if moment - self._looked_at > _NAP:
            # This process was stopped, or starved: so may the others have been.
            self._awake_since = moment
        self._looked_at = moment
        self._watch_keeper(moment)
        for child in list(self._children.values()):
            self._enforce_beat(child, moment)
            self._enforce_timeouts(child, moment)
            self._enforce_stops(child)
            self._enforce_lease(child, moment)
        if self._stop_at is not None:
            self._enforce_drain(moment)

    def _enforce_timeouts(self, child: _Child, moment: float) -> None:
        stands_still = moment - self._board.last_beat(child.index) > _STANDSTILL
        for shown in self._board.running(child.index):
            late = moment - shown.deadline
            if late < 0:
                continue
            self._board.stop(child.index, shown.slot, shown.seq, StopReason.TIMEOUT)
            if shown.isolated:
                late -= _ISOLATED_PATIENCE
            if late >= shown.grace / 3:
                self._retire(child)
            # An executor whose own loop stands still cannot obey: no grace for it.
            if late >= shown.grace or stands_still:
                child.overdue.add(shown.job_id)
                self._kill(child, "a job outlived its timeout")

    def _silence(self, index: int, moment: float) -> float:
        """Return for how long there has been no sign of life, as far as this process was awake."""
        return moment - max(self._board.last_beat(index), self._awake_since)

    def _watch_keeper(self, moment: float) -> None:
        """A keeper that stands still is replaced while there is time to renew the leases."""
        if not self._keeper_pid or self._keeper_killed:
            return
        if moment - self._keeper_born > _STEADY:
            self._keepers_killed = 0
        settings = conf.settings()
        patience = max(_KEEPER_PATIENCE, (settings.LEASE - settings.HEARTBEAT) / 2)
        if self._silence(self._board.keeper, moment) > patience * 2**self._keepers_killed:
            log.error("the keeper stands still; killing it")
            self._keeper_killed = True
            self._keepers_killed += 1
            os.kill(self._keeper_pid, signal.SIGKILL)

    def _enforce_beat(self, child: _Child, moment: float) -> None:
        """An executor that stands still, or asks for it, has a successor; what it runs may end."""
        if self._board.is_worn_out(child.index):
            self._retire(child)
        patience = _EXECUTOR_PATIENCE * conf.settings().LEASE
        if not child.retiring and self._silence(child.index, moment) > patience:
            log.error("executor %d stands still; starting another", child.pid)
            self._retire(child)

    def _enforce_stops(self, child: _Child) -> None:
        """Who was to be stopped by force, and has not stopped, loses its process."""
        for shown in self._board.running(child.index):
            if shown.forced and not shown.isolated:  # otherwise the executor does it
                child.forced[shown.job_id] = shown.stop
                self._kill(child, f"a job was {shown.stop.word} and did not stop")

    def _enforce_lease(self, child: _Child, moment: float) -> None:
        """Before others may take its jobs, an executor no longer works on them."""
        until = self._board.lease_until(child.index)
        lease = conf.settings().LEASE
        if until == LOST:
            until = moment
        elif until <= 0 or until - moment > lease * _FENCE_SHARE:
            return
        for shown in self._board.running(child.index):
            self._board.stop(child.index, shown.slot, shown.seq, StopReason.LEASE_LOST)
        self._retire(child)
        if moment >= until and self._board.busy(child.index):
            self._kill(child, "its lease could not be renewed")

    def _enforce_drain(self, moment: float) -> None:
        assert self._stop_at is not None  # noqa: S101 - the caller has looked
        drain = conf.settings().DRAIN
        if moment >= self._stop_at - min(_SHUTDOWN_NOTICE, drain / 5):
            self._tell_all(StopReason.SHUTDOWN)
        if moment >= self._stop_at:
            for child in self._children.values():
                self._kill(child, "shutdown")

    def _tell_all(self, reason: StopReason) -> None:
        for child in self._children.values():
            for shown in self._board.running(child.index):
                self._board.stop(child.index, shown.slot, shown.seq, reason)

    def _retire(self, child: _Child) -> None:
        """It takes nothing new, ends what it has, and is replaced."""
        if not child.retiring:
            child.retiring = True
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)

    def _kill(self, child: _Child, why: str) -> None:
        if not child.killed_for:
            child.killed_for = why
            log.warning("killing executor %d: %s", child.pid, why)
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)

    # ---- the end

    def _install_signals(self) -> int:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        process.on_hangup(self._on_signal)
        signal.signal(signal.SIGUSR1, self._on_drain)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        return reading

    def _on_drain(self, *_: object) -> None:
        self._asked_to_drain = True

    def _on_signal(self, *_: object) -> None:
        self._signals += 1

    def _obey_signals(self) -> None:
        if self._asked_to_drain and not self._is_draining:
            log.info("worker %s takes no more, %d drain", self._plan.worker, self._busy())
            self._is_draining = True
            for child in self._children.values():
                self._retire(child)
        if self._signals and self._stop_at is None:
            log.info("worker %s stops: no new jobs, %d drain", self._plan.worker, self._busy())
            self._stop_at = now() + conf.settings().DRAIN
            for child in self._children.values():
                self._retire(child)
        elif self._signals > 1:
            self._signals = 1
            log.info("worker %s stops now", self._plan.worker)
            self._tell_all(StopReason.SHUTDOWN)
            self._stop_at = min(self._stop_at or now(), now() + 0.5)

    def _busy(self) -> int:
        return sum(self._board.busy(child.index) for child in self._children.values())

    def _is_done(self) -> bool:
        if self._children:
            return False
        return self._stop_at is not None or self._finished >= self._processes

    def _end_keeper(self) -> None:
        """The keeper has reported what is left, or the leases will tell."""
        if self._keeper_pid == 0:
            self._fork_keeper()
        deadline = now() + _LAST_WORDS
        while self._unsent and now() < deadline:
            self._send()
            time.sleep(0.01)
        os.close(self._pipe)
        while now() < deadline:
            pid, _ = os.waitpid(self._keeper_pid, os.WNOHANG)
            if pid:
                return
            time.sleep(0.01)
        os.kill(self._keeper_pid, signal.SIGKILL)
