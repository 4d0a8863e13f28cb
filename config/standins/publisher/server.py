"""The server: it remembers what it has published, and misbehaves as it is told."""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.parser import BytesParser
from email.policy import default
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from config.standins.publisher import (
    bluesky,
    consents,
    google,
    linkedin,
    mastodon,
    media,
    meta,
    pages,
    tiktok,
    wordpress,
    x,
    youtube,
)
from config.standins.serving import Server

Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]


class Request:
    """A request, taken apart."""

    def __init__(self, method: str, target: str, body: bytes, headers: Any) -> None:
        parts = urlsplit(target)
        self.method = method
        self.service, _, self.path = parts.path.lstrip("/").partition("/")
        self.query = dict(parse_qsl(parts.query))
        self.raw, self.headers = body, headers
        self.body: dict[str, Any] = {}
        self.parts: dict[str, bytes] = {}
        """Of a form with files."""
        content_type = headers.get("Content-Type") or ""
        if method == "PUT":
            pass
        elif "json" in content_type:
            self.body = json.loads(body or b"{}")
        elif content_type.startswith("multipart/"):
            self.parts = _parts(content_type, body)
        elif "urlencoded" in content_type:
            self.body = dict(parse_qsl(body.decode(), keep_blank_values=True))
        kind, _, credentials = (headers.get("Authorization") or "").partition(" ")
        self.token = credentials
        if kind == "Basic":
            self.token = base64.b64decode(credentials).decode().partition(":")[2]


def _parts(content_type: str, body: bytes) -> dict[str, bytes]:
    """Return the fields of a form by their names."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    found: dict[str, bytes] = {}
    for one in BytesParser(policy=default).parsebytes(head + body).iter_parts():
        name = one.get_param("name", header="content-disposition")
        data: Any = one.get_payload(decode=True)
        found[str(name)] = data
    return found


class Standin:
    """All providers, on one port of this machine."""

    def __init__(self, port: int = 0) -> None:
        self.lock = threading.RLock()
        self.silence = threading.Event()
        self._server = Server(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        with self.lock:
            self.silence.set()
            self.silence = threading.Event()
            """Is set when requests that stall are to end."""
            self.calls: list[tuple[str, str]] = []
            self.posts: dict[str, list[dict[str, Any]]] = defaultdict(list)
            """What has appeared, by page, user, location or blog, the newest first."""
            self.comments: dict[str, list[dict[str, Any]]] = defaultdict(list)
            self.containers: dict[str, dict[str, Any]] = {}
            self.polls = 1
            """How often a container is asked for before it is finished."""
            self.uploads: dict[str, dict[str, Any]] = {}
            self.fails = ""
            """Why TikTok and Instagram fail to process media."""
            self.damaged = 0
            """How many portions were not what the server of media has sent."""
            self.longest = 500
            """How many characters the Mastodon server takes."""
            self.quota = (0, 50)
            """How many posts each user of Instagram has used besides those here, and may use."""
            self.expired: set[str] = set()
            """Tokens that are not good any more."""
            self.refreshes: dict[str, str] = {"refresh-1": "token-1"}
            """Refresh tokens that are good, each once."""
            self.codes: dict[str, dict[str, str]] = {}
            """Codes of consents, which are good once."""
            self.keeps_refresh = False
            """Whether an answer to a refresh leaves the refresh token out."""
            self.retry_after = 120
            """What an answer with status 429 asks for, in seconds."""
            self.refuses_client = False
            """Whether Google refuses the client that refreshes tokens."""
            self.numbers = 0
            self.script: Callable[[Request], str] = lambda request: ""
            """Names the fault of a request that meets none of ``misbehave``."""
            self.under_way: Counter[str] = Counter()
            self.most: Counter[str] = Counter()
            """How many requests with a token are and were under way at once."""
            self._faults: dict[str, list[str]] = defaultdict(list)
            self._refusals: dict[str, Answer] = {}
            self._meeting = "", 0, threading.Barrier(1)

    def misbehave(self, path: str, *faults: str) -> None:
        """Let the next requests whose path ends so meet these faults, one after another.

        ``drop`` and ``late`` carry the request out, and close the line or answer 500; ``garbage``
        answers text; a number is a status; ``stall`` says nothing until ``reset``. ``none`` lets
        one pass.
        """
        with self.lock:
            self._faults[path] += faults

    def refuse(self, path: str, status: int, body: Any) -> None:
        """Let the next request whose path ends so meet this answer, and have no effect."""
        with self.lock:
            self._refusals[path] = status, body

    def take_refusal(self, request: Request) -> Answer | None:
        """Return the answer that a request is to meet, once."""
        with self.lock:
            for path in self._refusals:
                if request.path.endswith(path):
                    return self._refusals.pop(path)
        return None

    def check_media(self, start: int, data: bytes) -> None:
        """Count a portion that is not the file's."""
        self.damaged += data != media.part(start, len(data))

    def next_id(self) -> str:
        """Return a new id."""
        self.numbers += 1
        return str(17_000_000 + self.numbers)

    def page_of(self, name: str) -> str:
        """Return the address at which a post can be seen."""
        return f"{self.url}/posts#{quote(name)}"

    @staticmethod
    def now() -> str:
        """Return the time as the providers write it."""
        return datetime.now(UTC).isoformat(timespec="seconds")

    @staticmethod
    def milliseconds() -> int:
        """Return the time in milliseconds."""
        return int(datetime.now(UTC).timestamp() * 1000)

    def take_fault(self, request: Request) -> str:
        """Return the fault of a request, and have done with it."""
        with self.lock:
            for path, faults in self._faults.items():
                if faults and f"{request.method} /{request.path}".endswith(path):
                    return faults.pop(0)
            return self.script(request)

    def meet_at(self, path: str, number: int) -> None:
        """Let the next requests whose path ends so wait for each other."""
        self._meeting = path, number, threading.Barrier(number, timeout=10)

    def await_others(self, request: Request) -> None:
        """Wait where requests are to meet."""
        with self.lock:
            path, left, barrier = self._meeting
            if not left or not request.path.endswith(path):
                return
            self._meeting = path, left - 1, barrier
        with suppress(threading.BrokenBarrierError):
            barrier.wait()

    @contextmanager
    def counted(self, request: Request) -> Iterator[None]:
        """Count a request while it is under way."""
        with self.lock:
            self.under_way[request.token] += 1
            self.most[request.token] = max(self.most[request.token], self.under_way[request.token])
        try:
            yield
        finally:
            with self.lock:
                self.under_way[request.token] -= 1

    def answer(self, request: Request) -> Answer:
        """Carry a request out."""
        with self.lock:
            self.calls.append((request.method, request.path))
            service = SERVICES.get(request.service)
            return (404, {"error": "not found"}) if service is None else service(self, request)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more."""
        self.silence.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


SERVICES: dict[str, Callable[[Standin, Request], Answer]] = {
    "graph": meta.answer, "google": google.answer, "oauth": google.token, "blog": wordpress.answer,
    "tiktok": tiktok.answer, "youtube": youtube.answer, "media": media.answer,
    "linkedin": linkedin.answer, "x": x.answer, "mastodon": mastodon.answer,
    "bluesky": bluesky.answer, "consent": consents.answer,
    "": pages.answer, "posts": pages.answer,
}  # fmt: skip


def _handler(standin: Standin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            request = Request(self.command, self.path, body, self.headers)
            with standin.counted(request):
                standin.await_others(request)
                self._meet(request)

        def _meet(self, request: Request) -> None:
            fault = standin.take_fault(request)
            if fault == "stall":
                standin.silence.wait()
                self.close_connection = True
                return
            if fault.isdigit():
                code = 1 if int(fault) >= 500 else 200
                self._send(int(fault), {"error": {"message": "told to", "code": code}})
                return
            refusal = standin.take_refusal(request)
            status, found, *more = refusal or standin.answer(request)
            headers: dict[str, str] = more[0] if more else {}
            if fault == "drop":
                self.close_connection = True
            elif fault == "late":
                self._send(500, {"error": {"message": "told to", "code": 1}})
            elif fault == "garbage":
                self._send(status, "garbage")
            else:
                self._send(status, found, headers)

        def _send(self, status: int, found: Any, headers: dict[str, str] | None = None) -> None:
            if isinstance(found, bytes):
                body = found
            elif found is None:
                body = b""
            else:
                body = b"<html>" if found == "garbage" else json.dumps(found).encode()
            self.send_response(status)
            for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            if status == 429:
                self.send_header("Retry-After", str(standin.retry_after))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler
