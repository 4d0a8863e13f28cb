"""A provider of embeddings that is as rude as the real ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep
from typing import Any, ClassVar

KEY = "a-secret-key-of-the-tests"
POISON = "poison"


class Provider(BaseHTTPRequestHandler):
    """Answers with vectors in which texts about lamps are near to each other."""

    answers: ClassVar[list[tuple[int, dict[str, str], Any]]] = []
    """What it answers next instead: status, headers, body."""
    calls: ClassVar[list[tuple[str, list[str], dict[str, Any]]]] = []
    """Path, texts and the rest of each call."""
    dimensions: ClassVar[int] = 8
    most: ClassVar[int] = 2048
    pause: ClassVar[float] = 0.0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = body.pop("input")
        type(self).calls.append((self.path, texts, body))
        sleep(self.pause)
        given = self.headers.get("Authorization", "")
        if KEY not in (self.headers.get("api-key"), given.removeprefix("Bearer ")):
            return self._answer(401, {}, {"error": f"wrong key {given}"})
        if self.answers:
            return self._answer(*type(self).answers.pop(0))
        if len(texts) > self.most or any(POISON in text for text in texts):
            return self._answer(400, {}, {"error": {"message": f"cannot embed {texts[0]}"}})
        data = [{"index": n, "embedding": self._vector(text)} for n, text in enumerate(texts)]
        return self._answer(200, {}, {"data": data[::-1]})

    def _vector(self, text: str) -> list[float]:
        near = [1.0, 0.1] if "lamp" in text.lower() else [0.1, 1.0]
        return [*near, *[0.001 * (len(text) % 7)] * (self.dimensions - 2)]

    def _answer(self, status: int, headers: dict[str, str], body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def running() -> Iterator[str]:
    """Run a provider without a memory; yield its address."""
    Provider.answers, Provider.calls = [], []
    Provider.dimensions, Provider.most, Provider.pause = 8, 2048, 0.0
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
