"""Running one claimed job in a process of its own, with limits, that is ended alone.

The process is forked by the executor's fork server and has connections of its own. It does what a
slot would do, but for settling: how the attempt ended goes back to the executor. While it works,
the slot watches it, asks it to stop, and ends it when its time is up.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import signal
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from jobs import conf, registry, tracing
from jobs.context import Signal
from jobs.engine import messages, metrics, process, runner
from jobs.engine.board import StopReason, now
from jobs.engine.claims import Claim
from jobs.engine.forkserver import Child, ForkFailed, ForkServer
from jobs.isolation import Isolation
from jobs.outcomes import Ending
from jobs.registry import Handler

log = logging.getLogger("jobs.executor")

_LOOK_INTERVAL = 0.05
_HEAD = struct.Struct("<I")
_SLACK = 64 * 2**20
"""Bytes that a process may send beyond a result: its events and the lines of its log."""
_SEND_PATIENCE = 30.0
_FORK_PAUSE = 5.0
"""Seconds that a job waits for which no process could be started."""
Stop = Callable[[], tuple[StopReason, bool]]
"""Why the job has to stop, and whether by force."""


# ---- The executor's side


def run(
    server: ForkServer, claim: Claim, handler: Handler, stop: Stop, worker: str
) -> runner.Result:
    """Return what became of the claimed job. Never raises, whatever its process does."""
    try:
        child = server.fork()
    except ForkFailed as error:
        return runner.ended(claim, handler, "held", str(error), floor=_FORK_PAUSE)
    try:
        outcome = _Watched(child, claim, handler, stop).result(worker)
        if child.is_orphaned:
            server.give_up()
        return outcome
    finally:
        child.kill()
        child.close()


class _Watched:
    """An isolated job's process, watched by a slot of its executor."""

    def __init__(self, child: Child, claim: Claim, handler: Handler, stop: Stop) -> None:
        self._child, self._claim, self._handler, self._stop = child, claim, handler, stop
        self._give_up_at = now() + claim.timeout + handler.grace
        self._asked_at: float | None = None
        """When it was asked to stop."""
        self._received = bytearray()
        self._limit = conf.settings().RESULT_LIMIT + _SLACK
        self._killed_for: StopReason | None = None

    def result(self, worker: str) -> runner.Result:
        """Watch it to its end; return what became of the job."""
        self._hand_over(worker)
        while not self._child.wait(_LOOK_INTERVAL):
            self._read()
            self._obey()
        self._read()
        return self._outcome()

    def _hand_over(self, worker: str) -> None:
        talk = self._child.talk
        talk.settimeout(_SEND_PATIENCE)
        with suppress(OSError):  # then it has died, or does not read
            for text in (messages.pack_claim(self._claim), worker.encode()):
                talk.sendall(_HEAD.pack(len(text)) + text)
        talk.setblocking(False)

    def _read(self) -> None:
        """Read what it has sent."""
        try:
            while chunk := self._child.talk.recv(1 << 16):
                self._received += chunk
                if len(self._received) > self._limit:
                    self._received.clear()
                    self._child.kill()
        except BlockingIOError:
            return
        except OSError:
            log.debug("the process of job %s hung up", self._claim.id)
        self._child.no_more_talk()

    def _obey(self) -> None:
        """Ask it to stop when the job has to; kill it when that takes too long."""
        reason, forced = self._stop()
        moment = now()
        if reason is not StopReason.NONE and self._asked_at is None:
            self._asked_at = moment
            with suppress(OSError):
                self._child.talk.send(bytes([reason]))
        if self._killed_for is None and (why := self._overdue(reason, forced, moment)):
            self._killed_for = why
            log.warning(
                "killing the process of job %s, which was asked to stop: %s",
                self._claim.id,
                why.word,
            )
            self._child.kill()

    def _overdue(self, reason: StopReason, forced: bool, moment: float) -> StopReason | None:
        if reason is StopReason.CANCELLED and self._asked_at is not None:
            forced = forced or moment - self._asked_at >= conf.settings().CANCEL_GRACE
        if forced:
            return reason
        return StopReason.TIMEOUT if moment >= self._give_up_at else None

    def _outcome(self) -> runner.Result:
        claim, handler = self._claim, self._handler
        problem = "its process ended without a result"
        if text := self._message():
            try:
                return messages.unpack_result(text, claim)
            except messages.BadMessage as error:
                problem = f"what its process has sent is damaged: {error}"
        if self._killed_for is not None:
            ending, words = _KILLED[self._killed_for]
            return runner.ended(claim, handler, ending, f"{words}; its process was killed")
        if self._child.is_orphaned:
            return runner.ended(claim, handler, "lost", "the fork server ended with its process")
        code = self._child.exit_code
        if code is None:
            words = "no process could be started"
            return runner.ended(claim, handler, "held", words, floor=_FORK_PAUSE)
        if code == -signal.SIGXCPU:
            return runner.ended(claim, handler, "timeout", "used up its processor time")
        if code:
            problem = f"its process {process.code_description(code)}"
        return runner.ended(claim, handler, "crashed", problem)

    def _message(self) -> bytes:
        """Return its message; nothing where that is incomplete."""
        if len(self._received) < _HEAD.size:
            return b""
        [size] = _HEAD.unpack_from(self._received)
        text = bytes(self._received[_HEAD.size :])
        return text if len(text) == size else b""


_KILLED: dict[StopReason, tuple[Ending, str]] = {
    StopReason.TIMEOUT: ("timeout", "did not end after its timeout"),
    StopReason.CANCELLED: ("cancelled", "did not stop when it was cancelled"),
    StopReason.PREEMPTED: ("preempted", "did not stop when it was preempted"),
}


# ---- The process's side


def body(talk: socket.socket) -> None:
    """Run the claim that the executor sends, and send back how it ended."""
    claim = messages.unpack_claim(_receive(talk))
    worker = _receive(talk).decode()
    handler = registry.find(claim.kind)
    if handler is not None and handler.isolation is not None:
        _limit(handler.isolation)
    result = runner.run(claim, Signal(_StopReader(talk).reason), _await, worker)
    text = messages.pack_result(result)
    talk.settimeout(_SEND_PATIENCE)
    talk.sendall(_HEAD.pack(len(text)) + text)
    with suppress(Exception):
        tracing.flush()
        metrics.recorder.leave()
        process.close_connections()


class _StopReader:
    """Reads from the executor why the job has to stop."""

    def __init__(self, talk: socket.socket) -> None:
        self._talk, self._lock, self._reason = talk, threading.Lock(), ""

    def reason(self) -> str:
        """Return why the job has to stop; empty while it need not."""
        if not self._reason:
            with self._lock, suppress(OSError):
                if word := self._talk.recv(1, socket.MSG_DONTWAIT):
                    self._reason = StopReason(word[0]).word
        return self._reason


def _await(coroutine: Any, signal: Signal) -> Any:
    return asyncio.run(runner.obey(coroutine, signal))


def _receive(talk: socket.socket) -> bytes:
    [size] = _HEAD.unpack(_exactly(talk, _HEAD.size))
    return _exactly(talk, size)


def _exactly(talk: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        chunk = talk.recv(min(size - len(found), 1 << 16))
        if not chunk:
            raise EOFError("the executor is gone")
        found += chunk
    return bytes(found)


def _limit(limits: Isolation) -> None:
    """Bound what this process may use from here on, and offer it to the kernel first of all."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_AS, process.address_space() + limits.memory)
    _lower(resource.RLIMIT_NOFILE, limits.files)
    _lower(resource.RLIMIT_NPROC, process.tasks_of_user() + limits.processes)
    if limits.cpu is not None:
        _lower(resource.RLIMIT_CPU, math.ceil(limits.cpu), more=1)


def _lower(which: int, limit: int, more: int = 0) -> None:
    _, hard = resource.getrlimit(which)
    most = limit + more
    if hard != resource.RLIM_INFINITY:
        limit, most = min(limit, hard), min(most, hard)
    resource.setrlimit(which, (limit, most))
