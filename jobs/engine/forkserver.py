"""The fork server: an executor's child without threads or connections, which forks for it.

An executor has threads, so it must not fork. Before it starts them, it forks this process, which
forks a child for each isolated job. It reports how each child ended, and kills what the child has
started itself. All of them die with the executor.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from jobs.engine import process

log = logging.getLogger("jobs.executor")

_NUMBER = struct.Struct("<i")
Body = Callable[[socket.socket], None]
"""What a child does; it ends with it."""


class ForkFailed(Exception):
    """No process could be started: the machine has none left, or the fork server is gone."""


class Child:
    """A process that runs the body, as its executor sees it."""

    def __init__(self, talk: socket.socket, status: socket.socket) -> None:
        self.talk = talk
        """The other end of what its body was called with."""
        self._status = status
        self._report = b""
        self._poll = select.poll()
        for line in (talk, status):
            self._poll.register(line, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait until there is something to read, or it has ended; return whether it has."""
        self._poll.poll(seconds * 1000)
        with suppress(BlockingIOError):
            while chunk := self._status.recv(64, socket.MSG_DONTWAIT):
                self._report += chunk
            return True  # the report is complete, or the server is gone
        return False

    def no_more_talk(self) -> None:
        """Do not wait for its words any more: it has closed its end."""
        with suppress(KeyError):
            self._poll.unregister(self.talk)

    @property
    def pid(self) -> int | None:
        """Its process id; None where no process could be started, or not yet."""
        return self._number(0)

    @property
    def exit_code(self) -> int | None:
        """How it ended: its code, or the negative number of a signal; None where nobody knows."""
        return self._number(1)

    @property
    def is_orphaned(self) -> bool:
        """Whether its server has died, so that its end is not reported any more."""
        return self.pid is not None and self.exit_code is None

    def _number(self, n: int) -> int | None:
        if len(self._report) < (n + 1) * _NUMBER.size:
            return None
        return int(_NUMBER.unpack_from(self._report, n * _NUMBER.size)[0])

    def kill(self) -> None:
        """End it with what it has started itself, unless it has ended."""
        if self.pid is not None and self.exit_code is None:
            _kill(self.pid)

    def close(self) -> None:
        self.talk.close()
        self._status.close()


class ForkServer:
    """The executor's end. To be made before the executor has a thread."""

    def __init__(self, body: Body) -> None:
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        if os.fork() == 0:
            ours.close()
            _Server(theirs, body).run(parent)
        theirs.close()
        self._line, self._lock = ours, threading.Lock()
        self._is_gone = False

    @property
    def is_alive(self) -> bool:
        """Whether the server can fork, as far as anybody has noticed."""
        return not self._is_gone

    def give_up(self) -> None:
        """Ask nothing more of the server: it has died."""
        self._is_gone = True

    def fork(self) -> Child:
        """Return a new child; raises ForkFailed where the server is gone."""
        talk, far_talk = socket.socketpair()
        status, far_status = socket.socketpair()
        with far_talk, far_status:
            try:
                with self._lock:
                    lines = [far_talk.fileno(), far_status.fileno()]
                    socket.send_fds(self._line, [b"f"], lines)
            except OSError as error:
                self.give_up()
                talk.close()
                status.close()
                raise ForkFailed(f"the fork server is gone: {error}") from error
        return Child(talk, status)


class _Server:
    """The server's process; ``run`` is its whole life."""

    def __init__(self, line: socket.socket, body: Body) -> None:
        self._line, self._body = line, body
        self._children: dict[int, socket.socket] = {}
        """Each child, and where its end is reported."""
        self._wakeup = -1, -1

    def run(self, parent: int) -> NoReturn:
        code = 1
        try:
            process.die_with_parent(parent)
            self._listen()
            code = 0
        except BaseException:
            log.exception("the fork server failed")
        finally:
            os._exit(code)

    def _listen(self) -> None:
        reading, writing = self._wakeup = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        # A service manager sends these to every process; the executor decides when to end.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _ignore)
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        poll.register(reading, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(1000)}
            with suppress(BlockingIOError):
                os.read(reading, 4096)
            self._reap()
            if self._line.fileno() in ready and not self._serve():
                return

    def _serve(self) -> bool:
        """Fork a child for the next request; return False where the executor is gone."""
        word, fds, _, _ = socket.recv_fds(self._line, 1, 2)
        if not word:
            for pid in self._children:
                _kill(pid)
            return False
        talk, status = (socket.socket(fileno=fd) for fd in fds)
        with talk:
            self._fork(talk, status)
        return True

    def _fork(self, talk: socket.socket, status: socket.socket) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            log.error("no process could be started: %s", error)
            status.close()
            return
        if pid == 0:
            self._be_child(parent, talk, status)
        self._children[pid] = status
        _send(status, pid)

    def _be_child(self, parent: int, talk: socket.socket, status: socket.socket) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            process.die_with_parent(parent)
            os.setsid()
            for line in (self._line, status, *self._children.values()):
                line.close()
            for descriptor in self._wakeup:
                os.close(descriptor)
            self._body(talk)
            code = 0
        except BaseException:
            log.exception("an isolated job's process failed")
        finally:
            os._exit(code)

    def _reap(self) -> None:
        for pid, status in list(self._children.items()):
            # Its id, which is that of its group, is nobody else's until it is waited for.
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _kill(pid)
            _, code = os.waitpid(pid, 0)
            del self._children[pid]
            _send(status, os.waitstatus_to_exitcode(code))
            status.close()


def _send(line: socket.socket, number: int) -> None:
    with suppress(OSError):  # nobody listens any more
        line.send(_NUMBER.pack(number), socket.MSG_DONTWAIT)


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _ignore(*_: object) -> None:
    """Not SIG_IGN: the programs that a child starts would inherit that."""
