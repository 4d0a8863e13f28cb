"""An Azure AI Search that keeps its documents, and is as rude as the real one."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import sqrt
from time import sleep
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

KEY = "an-admin-key-of-the-tests"
_PATH = re.compile(r"/indexes/([a-z0-9-]+)(/docs/index|/docs/search)?\Z")
_DOCUMENT = re.compile(r"[A-Za-z0-9_=-]{1,1024}\Z")
_FILTER = re.compile(r"owner eq '((?:[^']|'')*)'(?: and search\.in\(content, '([\d,]*)', ','\))?\Z")


class Service(BaseHTTPRequestHandler):
    """Stores what fits the schema, and answers questions by the cosine."""

    protocol_version = "HTTP/1.1"
    schemas: ClassVar[dict[str, dict[str, Any]]] = {}
    documents: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {}
    calls: ClassVar[list[tuple[str, str, Any]]] = []
    answers: ClassVar[list[tuple[int, dict[str, str], Any]]] = []
    """What it answers next to documents instead: status, headers, body."""
    reports: ClassVar[list[dict[int, int]]] = []
    """For each of the next calls, the statuses of documents by their numbers."""
    most: ClassVar[int] = 1000
    pause: ClassVar[float] = 0.0

    def do_GET(self) -> None:
        self._serve(None)

    def do_PUT(self) -> None:
        self._serve(self._body())

    def do_POST(self) -> None:
        self._serve(self._body())

    def _body(self) -> Any:
        self.raw = self.rfile.read(int(self.headers["Content-Length"]))
        return json.loads(self.raw)

    def _serve(self, body: Any) -> None:
        parts = urlsplit(self.path)
        type(self).calls.append((self.command, parts.path, body))
        sleep(self.pause)
        if self.headers.get("api-key") != KEY:
            return self._answer(403, {}, {"error": {"message": "wrong key"}})
        found = _PATH.match(parts.path)
        if not found or parse_qs(parts.query) != {"api-version": ["2024-07-01"]}:
            return self._answer(400, {}, {"error": {"message": "no such operation"}})
        name, operation = found.groups()
        if operation is None:
            return self._define(name, body)
        if self.answers:
            return self._answer(*type(self).answers.pop(0))
        if name not in self.schemas:
            return self._answer(404, {}, {"error": {"message": "no such index"}})
        if operation == "/docs/search":
            return self._search(name, body)
        return self._store(name, body["value"])

    def _define(self, name: str, body: Any) -> None:
        if body is not None:
            self.schemas[name] = body
            self.documents[name] = {}
            return self._answer(201, {}, body)
        known = self.schemas.get(name)
        return self._answer(200, {}, known) if known else self._answer(404, {}, {})

    def _store(self, name: str, actions: list[dict[str, Any]]) -> None:
        if len(self.raw) > 16 * 1024**2:
            return self._answer(413, {}, {"error": {}})
        fields = {one["name"]: one for one in self.schemas[name]["fields"]}
        if len(actions) > self.most or any(
            set(one) - {"@search.action", *fields} for one in actions
        ):
            return self._answer(400, {}, {"error": {"message": f"cannot index {actions[0]}"}})
        rude = type(self).reports.pop(0) if self.reports else {}
        value = []
        for one in actions:
            code = rude.get(int(one["id"].rpartition("_")[2])) or self._judge(one, fields)
            if code in (200, 201) and one["@search.action"] == "delete":
                self.documents[name].pop(one["id"], None)
            elif code in (200, 201):
                self.documents[name][one["id"]] = one
            is_done = code in (200, 201)
            value.append({"key": one["id"], "status": is_done, "statusCode": code,
                          "errorMessage": None if is_done else f"no: {one}"})  # fmt: skip
        return self._answer(200 if all(v["status"] for v in value) else 207, {}, {"value": value})

    def _judge(self, one: dict[str, Any], fields: dict[str, Any]) -> int:
        if not _DOCUMENT.match(one["id"]):
            return 400
        if one["@search.action"] == "delete":
            return 200
        is_whole = set(fields) <= set(one) and isinstance(one["content"], str)
        return 201 if is_whole and len(one["vector"]) == fields["vector"]["dimensions"] else 400

    def _search(self, name: str, body: dict[str, Any]) -> None:
        wanted = _FILTER.match(body["filter"])
        if wanted is None:
            return self._answer(400, {}, {"error": {"message": "bad filter"}})
        owner, contents = wanted[1].replace("''", "'"), wanted[2]
        [query] = body["vectorQueries"]
        found = [
            {"@search.score": 1 / (2 - _cosine(one["vector"], query["vector"])),
             "chunk": one["chunk"]}
            for one in self.documents[name].values()
            if one["owner"] == owner
            and (contents is None or one["content"] in contents.split(","))
        ]  # fmt: skip
        found.sort(key=lambda one: -one["@search.score"])
        return self._answer(200, {}, {"value": found[: min(query["k"], body["top"])]})

    def _answer(self, status: int, headers: dict[str, str], body: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


def _cosine(a: list[float], b: list[float]) -> float:
    length = sqrt(sum(x * x for x in a)) * sqrt(sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / length


@contextmanager
def running() -> Iterator[str]:
    """Run a service without any index; yield its address."""
    Service.schemas, Service.documents, Service.calls = {}, {}, []
    Service.answers, Service.reports = [], []
    Service.most, Service.pause = 1000, 0.0
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
