"""A world of two servers on loopback, and a name service that says what a test wants."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpcore

from jobs.addresses import Address
from jobs.http import network

PEM = Path(__file__).with_name("server.pem")
PUBLIC = "93.184.215.14"
OTHER = "151.101.1.140"

Reply = bytes | Callable[[socket.socket, threading.Event], None]


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def redirect(to: str, status: str = "302 Found") -> bytes:
    return answer(b"", status, Location=to)


def drip(data: bytes) -> Reply:
    """Sends one byte at a time, much faster than any single read would give up."""

    def send(line: socket.socket, closing: threading.Event) -> None:
        for byte in data:
            if closing.wait(0.02):
                return
            line.sendall(bytes([byte]))

    return send


class Server:
    """Answers by path; knows what it was asked, and by which names TLS called it."""

    def __init__(self, tls: bool = False) -> None:
        self.replies: dict[str, Reply] = {}
        self.seen: list[bytes] = []
        self.names: list[str | None] = []
        self.accepted = 0
        self.closing = threading.Event()
        self._tls = self._context() if tls else None
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._lines: list[socket.socket] = []
        self._threads[0].start()

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(PEM)
        context.sni_callback = lambda _line, name, _context: self.names.append(name)
        return context

    def _accept(self) -> None:
        while True:
            line, _ = self._door.accept()
            if self.closing.is_set():
                line.close()
                return
            self.accepted += 1
            self._lines.append(line)
            thread = threading.Thread(target=self._serve, args=(line,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(line)
            if self._tls:
                line = stack.enter_context(self._tls.wrap_socket(line, server_side=True))
            while head := self._request(line):
                reply = self.replies[head.split(b" ")[1].decode()]
                if callable(reply):
                    reply(line, self.closing)
                    return
                line.sendall(reply)

    def _request(self, line: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            data += (piece := line.recv(65536))
            if not piece:
                return b""
        head, _, body = data.partition(b"\r\n\r\n")
        length = [row for row in head.lower().split(b"\r\n") if row.startswith(b"content-length:")]
        while length and len(body) < int(length[0].split(b":")[1]):
            body += line.recv(65536)
        self.seen.append(head + b"\r\n\r\n" + body)
        return head

    def headers(self, number: int = -1) -> dict[str, str]:
        rows = self.seen[number].partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (row.partition(": ") for row in rows)}

    def close(self) -> None:
        self.closing.set()
        socket.create_connection(("127.0.0.1", self.port)).close()
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._door.close()


class World:
    """Ports 80 and 443 of every public address are our two servers; the rest is not there."""

    def __init__(self) -> None:
        self.plain, self.secure = Server(), Server(tls=True)
        self.answers: dict[str, list[list[str]]] = {
            "api.example.com": [[PUBLIC]],
            "other.example.net": [[OTHER]],
        }
        self.asked: list[str] = []
        self.dialed: list[tuple[str, int]] = []
        self.context = ssl.create_default_context(cafile=str(PEM))

    def resolve(self, host: str) -> list[str]:
        """The next answer of the host's script; the last one stays."""
        self.asked.append(host)
        if host not in self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        script = self.answers[host]
        return script.pop(0) if len(script) > 1 else script[0]

    def place(self, address: Address, port: int) -> tuple[Address, int]:
        self.dialed.append((str(address), port))
        ports = {80: self.plain.port, 443: self.secure.port}
        return ip_address("127.0.0.1"), ports.get(port, port)

    @property
    def options(self) -> dict[str, Any]:
        return {"resolver": self.resolve, "context": self.context}

    def close(self) -> None:
        self.plain.close()
        self.secure.close()


@contextlib.contextmanager
def world(patch: Any) -> Iterator[World]:
    made = World()
    dial, async_dial = network.dial, network.AsyncBackend.dial

    def fake(address: Address, port: int, seconds: float) -> socket.socket:
        return dial(*made.place(address, port), seconds)

    async def async_fake(
        self: network.AsyncBackend, address: Address, port: int, seconds: float
    ) -> httpcore.AsyncNetworkStream:
        return await async_dial(self, *made.place(address, port), seconds)

    patch.setattr(network, "dial", fake)
    patch.setattr(network.AsyncBackend, "dial", async_fake)
    try:
        yield made
    finally:
        made.close()
