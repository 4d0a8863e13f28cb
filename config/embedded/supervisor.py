"""The detached owner of the shared servers.

    python -m config.embedded.supervisor DATA_FOLDER

Every process that uses the servers keeps a connection to the control socket open; that
connection is its reference. When the last one has been closed for a moment, the servers stop
and the supervisor ends.
"""

import fcntl
import json
import logging
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from config.embedded import choice, client, places
from config.embedded.errors import EmbeddedError
from config.embedded.server import Server

LINGER = 1.5
FIRST_WAIT = 20.0
TICK = 0.25

log = logging.getLogger("supervisor")


class Supervisor:
    def __init__(self, data: Path) -> None:
        self._data = data
        self._servers: dict[str, Server] = {}
        self._holders: set[socket.socket] = set()
        self._leave_at = time.monotonic() + FIRST_WAIT
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._partial: dict[socket.socket, bytes] = {}

    def run(self) -> None:
        """The servers have come and gone, and the control socket is removed."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        control = client.control(self._data)
        places.own_folder(control.parent)
        control.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(control))
            door.listen(256)
            self._selector.register(door, selectors.EVENT_READ)
            try:
                while not self._finished():
                    self._turn(door)
            finally:
                # The door first: who comes now starts a new supervisor, which waits for our lock.
                door.close()
                control.unlink(missing_ok=True)
                self._stop_servers()
                self._hang_up()
                with suppress(OSError):
                    control.parent.rmdir()

    def _finished(self) -> bool:
        return self._stopping or (not self._holders and time.monotonic() >= self._leave_at)

    def _turn(self, door: socket.socket) -> None:
        for key, _ in self._selector.select(TICK):
            if key.fileobj is door:
                line, _ = door.accept()
                line.setblocking(False)
                self._partial[line] = b""
                self._selector.register(line, selectors.EVENT_READ)
            elif isinstance(key.fileobj, socket.socket):
                self._listen(key.fileobj)
        self._revive()

    def _listen(self, line: socket.socket) -> None:
        try:
            part = line.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self._forget(line)
            return
        *requests, self._partial[line] = (self._partial[line] + part).split(b"\n")
        for request in requests:
            self._reply(line, self._answer(line, request))

    def _forget(self, line: socket.socket) -> None:
        self._selector.unregister(line)
        del self._partial[line]
        line.close()
        soon = time.monotonic() + LINGER
        if line in self._holders:
            self._holders.remove(line)
            self._leave_at = soon
        # A client that failed, or only asked for the status, is nobody to wait for.
        self._leave_at = min(self._leave_at, soon)

    def _reply(self, line: socket.socket, answer: dict[str, Any]) -> None:
        try:
            line.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            log.info("a client left before its answer")

    def _answer(self, line: socket.socket, text: bytes) -> dict[str, Any]:
        try:
            request = json.loads(text)
            if "hold" in request:
                urls = {kind: self._serve(kind) for kind in request["hold"]}
                self._holders.add(line)
                return {"urls": urls}
            if request.get("do") == "stop":
                self._stop_servers()
                self._stopping = True
            return self._status()
        except (EmbeddedError, OSError) as error:
            log.error("%s", error)
            return {"error": str(error)}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return {"error": f"not understood: {error!r}"}

    def _serve(self, kind: str) -> str:
        server = self._servers.get(kind)
        if server is None:
            server = choice.pair(self._data)[kind]
        if not server.alive:
            log.info("starting %s", kind)
            server.start()
            self._servers[kind] = server
        return server.url

    def _revive(self) -> None:
        for kind, server in self._servers.items():
            if not server.alive:
                log.warning("%s ended unexpectedly", kind)
                try:
                    self._serve(kind)
                except (EmbeddedError, OSError) as error:
                    log.error("%s", error)
                    self._stopping = True

    def _status(self) -> dict[str, Any]:
        running = {kind: server for kind, server in self._servers.items() if server.alive}
        return {
            "supervisor": os.getpid(),
            "users": len(self._holders),
            "servers": {
                kind: {"pid": server.pid, "url": server.url, "log": str(server.log)}
                for kind, server in running.items()
            },
        }

    def _stop_servers(self) -> None:
        for kind, server in reversed(self._servers.items()):
            log.info("stopping %s", kind)
            server.__exit__()
        self._servers.clear()

    def _hang_up(self) -> None:
        for line in list(self._partial):
            line.close()

    def _on_signal(self, *_: object) -> None:
        self._stopping = True


def detach() -> bool:
    """True in a new process that belongs to no terminal and no parent."""
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    return True


def main(data: Path) -> None:
    places.own_folder(places.sockets(data))
    if not detach():
        return
    os.umask(0o077)
    output = os.open(data / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s [%(process)d] %(message)s")
    lock = os.open(data / "supervisor.lock", os.O_RDWR | os.O_CREAT, 0o600)
    # A predecessor that is still stopping its servers keeps this lock until it is done.
    fcntl.flock(lock, fcntl.LOCK_EX)
    log.info("supervisor for %s", data)
    try:
        Supervisor(data).run()
    except Exception:
        log.exception("supervisor failed")
        raise
    log.info("supervisor ended")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (EmbeddedError, OSError) as problem:
        sys.exit(f"{problem}")
