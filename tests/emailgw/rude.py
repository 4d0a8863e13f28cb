"""An SMTP server that says, byte for byte, what a test wants it to say."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Answers = Callable[[str, str], bytes | None]
"""Return the raw answer to a step (``BANNER``, ``EHLO``, ``AUTH``, ``MAIL``, ``RCPT``, ``DATA``,
``END``) about an address, or None for a plain yes. An answer that does not end a line is followed
by the end of the connection."""

_YES = {
    "BANNER": b"220 rude\r\n",
    "EHLO": b"250-rude\r\n250 AUTH PLAIN LOGIN\r\n",
    "AUTH": b"235 welcome\r\n",
    "DATA": b"354 go ahead\r\n",
    "QUIT": b"221 bye\r\n",
}


class Rude:
    """The server; ``taken`` counts whole contents by their Message-ID."""

    def __init__(self) -> None:
        self.answers: Answers = lambda step, address: None
        self.taken: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.port = 0

    def answer(self, step: str, address: str = "") -> bytes:
        self.asked[step] += 1
        told = self.answers(step, address)
        return _YES.get(step, b"250 OK\r\n") if told is None else told


@contextmanager
def rude() -> Iterator[Rude]:
    """Run a rude server on loopback."""
    server = Rude()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError, _Over):
                _talk(server, self.rfile, self.wfile)
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    class Listener(socketserver.ThreadingTCPServer):
        daemon_threads, allow_reuse_address = True, True

    with Listener(("127.0.0.1", 0), Handler) as listener:
        server.port = listener.server_address[1]
        thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        listener.shutdown()
        thread.join()


class _Over(Exception):
    """The server has hung up."""


def _talk(server: Rude, lines: Any, out: Any) -> None:
    recipient = ""

    def say(step: str, address: str = "") -> bytes:
        answer = server.answer(step, address)
        out.write(answer)
        out.flush()
        if not answer.endswith(b"\r\n"):
            raise _Over
        return answer

    say("BANNER")
    for line in iter(lines.readline, b""):
        verb = line[:4].decode("ascii", "replace").strip().upper()
        address = line.partition(b"<")[2].partition(b">")[0].decode("ascii", "replace")
        if verb == "RCPT":
            recipient = recipient or address
            say("RCPT", address)
        elif verb == "MAIL":
            recipient = ""
            say("MAIL", address)
        elif verb == "DATA":
            if say("DATA", recipient).startswith(b"354"):
                server.taken[_content(lines)] += 1
                say("END", recipient)
        elif verb == "QUIT":
            say("QUIT")
            return
        else:
            say("EHLO" if verb in ("EHLO", "HELO") else verb)


def _content(lines: Any) -> str:
    """Read a whole content and return its Message-ID."""
    found = ""
    for line in iter(lines.readline, b""):
        if line == b".\r\n":
            return found
        name, _colon, value = line.partition(b":")
        if name.lower() == b"message-id":
            found = value.decode().strip()
    raise _Over
