"""A gate in front of the AI service, which can be shut for some requests."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from config.standins.serving import Server

_PASSED = ("Content-Type", "X-KeyId", "X-Timestamp", "X-Signature")


class Gate:
    """Pass requests on to the service at ``target``; drop as many as were asked for."""

    def __init__(self, target: str) -> None:
        self.target = target.rstrip("/")
        self.dropped = 0
        self._left = 0
        self._lock = threading.Lock()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                gate._serve(self)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> Gate:
        """Serve in a thread."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def drop(self, count: int) -> None:
        """Close the connections of the next requests without an answer."""
        with self._lock:
            self._left += count

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        with self._lock:
            if is_dropped := self._left > 0:
                self._left -= 1
                self.dropped += 1
        if is_dropped:
            request.close_connection = True
            request.connection.close()
            return
        parts = urlsplit(self.target)
        asked = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
        try:
            headers = {name: request.headers.get(name, "") for name in _PASSED}
            asked.request("POST", parts.path + request.path, body, headers)
            answer = asked.getresponse()
            found = answer.read()
        finally:
            asked.close()
        request.send_response(answer.status)
        for name in ("Content-Type", "Retry-After"):
            if value := answer.headers.get(name):
                request.send_header(name, value)
        request.send_header("Content-Length", str(len(found)))
        request.end_headers()
        request.wfile.write(found)
