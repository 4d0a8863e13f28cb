"""What the stand-ins share: real HTTP, planned faults, and a record of what was asked."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from config.standins.serving import Server


@dataclass(frozen=True)
class Fault:
    """What happens to one request instead of an answer."""

    status: int = 0
    """0 drops the connection."""
    headers: dict[str, str] = field(default_factory=dict)
    body: str = "<html>too busy</html>"
    sleep: float = 0.0


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    path: str
    text: str
    """The query as it was sent."""
    query: dict[str, str]
    headers: Any
    form: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """An answer; ``found`` is sent as JSON."""

    status: int
    found: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class Venue(ABC):
    """A server on loopback; start it, plan faults, look at what was asked."""

    def __init__(self, port: int = 0) -> None:
        self.asked: list[tuple[float, str, dict[str, str]]] = []
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        self._lock = threading.Lock()
        venue = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                venue._serve(self)

            def do_POST(self) -> None:
                venue._serve(self)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> Self:
        """Serve in a thread."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def reset(self) -> None:
        """Forget faults and what was asked."""
        with self._lock:
            self._faults.clear()
            self.asked.clear()

    def plan(self, what: str, *faults: Fault) -> None:
        """Let the next requests whose path ends like this fail so."""
        with self._lock:
            self._faults[what] += faults

    def count(self, what: str) -> int:
        """Return how often something was asked for."""
        return sum(name == what for _, name, _ in self.asked)

    @abstractmethod
    def answer(self, asked: Asked) -> Answer:
        """Return what the venue answers."""

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        parts = urlsplit(request.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        what = parts.path.rsplit("/", 1)[-1]
        with self._lock:
            self.asked.append((time.time(), what, query))
            fault = self._faults[what].pop(0) if self._faults[what] else None
        if fault is not None:
            time.sleep(fault.sleep)
            if not fault.status:
                request.close_connection = True
                request.connection.close()
                return
            self._send(request, fault.status, fault.body.encode(), fault.headers)
            return
        is_form = "form-urlencoded" in request.headers.get("Content-Type", "")
        form = dict(parse_qsl(body.decode())) if is_form else {}
        made = self.answer(
            Asked(request.command, parts.path, parts.query, query, request.headers, form)
        )
        self._send(request, made.status, json.dumps(made.found).encode(), made.headers)

    def _send(
        self, request: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]
    ) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)
