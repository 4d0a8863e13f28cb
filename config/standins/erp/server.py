"""The stand-in over HTTP: JSON, PDFs and exports, and the same by pages below ``/ui``.

Faults are scripted at ``POST /faults``.
"""

from __future__ import annotations

import hashlib
import json
import select
import socket
import ssl
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from config.standins.erp import pages
from config.standins.erp.state import Refusal, State
from config.standins.serving import Server

PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
HTML = "text/html; charset=utf-8"
ELSEWHERE = (("Location", "http://elsewhere.test/login"),)
HANGS = 60
"""Seconds after which a call that hangs is answered after all."""
FAULTS = (
    "slow_login", "hang_login", "drop_after_save", "drop_before_save", "500", "500_after_save",
    "garbage", "garbage_after_save", "no_id", "redirect", "slow_write", "truncated",
    "empty", "wrong_trailer", "changed_columns", "duplicated", "bad_row", "slow_export",
    "one_line", "html_as_pdf", "wrong_total", "expire_session", "hang_write", "hang_after_save",
    "hang_read", "hang_export", "drop_read", "cannot_search",
    "redirect_login", "half_page", "changed_page", "strange_page",
)  # fmt: skip


class Erp:
    """The server. ``script`` makes the next calls of an agent misbehave.

    With a ``certificate``, it speaks TLS: one that nobody trusts is a fault as well.
    """

    def __init__(self, folder: Path, port: int = 0, certificate: Path | None = None) -> None:
        self.book = State(folder / "erp.json")
        self.faults: dict[str, deque[str]] = defaultdict(deque)
        self.slow = 1.0
        self.is_down, self.can_search = False, True
        self.calls: dict[str, int] = defaultdict(int)
        self.attempts: dict[str, int] = defaultdict(int)
        outer = self

        class Handler(_Handler):
            erp = outer

        self.server = Server(("127.0.0.1", port), Handler)
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = int(self.server.server_address[1])
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Return its address."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Serve in a thread."""
        self.thread.start()

    def stop(self) -> None:
        """End the server."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def script(self, agent: str, *faults: str) -> None:
        """Let the next calls to which they apply misbehave, in this order."""
        for fault in faults:
            if fault not in FAULTS:
                raise ValueError(f"unknown fault {fault!r}")
        self.faults[agent].extend(faults)

    def meets(self, agent: str, *faults: str) -> str:
        """Return the agent's next fault if it is one of these, and forget it."""
        waiting = self.faults[agent]
        return waiting.popleft() if waiting and waiting[0] in faults else ""


class _Handler(BaseHTTPRequestHandler):
    erp: Erp
    is_page = False
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the log of calls is at ``/log``."""

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length)
        path = urlsplit(self.path).path
        if path.startswith("/ui/"):
            self._serve(pages.parsed(path.rpartition("/")[2], content))
        else:
            self._serve(json.loads(content or b"{}"))

    def _serve(self, body: dict[str, Any]) -> None:
        url = urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        known = {name: cookie.value for name, cookie in cookies.items()}
        agent = str(
            body.get("login") or self.headers.get("X-Login") or unquote(known.get("login", ""))
        )
        session = self.headers.get("X-Session") or known.get("session", "")
        self.is_page = parts[0] == "ui" and len(parts) > 1
        self.what = parts[1] if self.is_page else parts[0]
        if self.is_page:
            parts = parts[1:]
        self.erp.calls[parts[0]] += 1
        try:
            if parts[0] == "faults":
                self.erp.script(body["agent"], *body["faults"])
                return self._json({})
            if parts[0] == "log":
                return self._json({"log": self.erp.book.log})
            if self.erp.is_down:
                return self._json({"code": "maintenance"}, 503)
            if parts[0] == "favicon.ico":
                return self._send(b"", "image/x-icon")
            if parts[0] == "login" and self.is_page and self.command == "GET":
                return self._send(pages.login(), HTML)
            if parts[0] == "login":
                return self._login(agent, str(body.get("password", "")))
            with self.erp.book.call(agent, parts[0], session):
                if self.erp.meets(agent, "expire_session"):
                    self.erp.book.sessions.pop(agent)
                    return self._json({"code": "session_ended"}, 401)
                self._answer(agent, parts, query, body)
        except Refusal as refusal:
            self._json({"code": refusal.code, "message": "Refused: Via Segreta 1"}, refusal.status)

    def _login(self, agent: str, password: str) -> None:
        self.erp.attempts[agent] += 1
        if self.erp.meets(agent, "slow_login"):
            time.sleep(self.erp.slow)
        if self.erp.meets(agent, "hang_login"):
            self._hang()
        if self.erp.meets(agent, "redirect_login"):
            return self._send(b"", "text/html", 302, ELSEWHERE)
        made = self.erp.book.login(agent, password)
        if not self.is_page:
            return self._json({"session": made})
        cookies = {"session": made, "login": quote(agent)}
        headers = [("Set-Cookie", f"{n}={v}; Path=/; HttpOnly") for n, v in cookies.items()]
        return self._send(pages.page("home"), HTML, 200, headers)

    def _answer(
        self, agent: str, parts: list[str], query: dict[str, str], body: dict[str, Any]
    ) -> None:
        what, rest = parts[0], parts[1:]
        if self.is_page:
            fault = self.erp.meets(agent, "half_page", "changed_page", "strange_page")
            if fault == "half_page":
                return self._send(pages.page("home")[:-90], HTML)
            if fault == "strange_page":
                return self._send(pages.page("home"), HTML)
            if what in ("documents", "exports"):
                if what == "documents":
                    self.erp.book.document(*rest)
                return self._send(pages.download("/" + "/".join(parts)), HTML)
            if what == "operations" and self.command == "GET":
                without = "reference" if fault == "changed_page" else ""
                lines = int(query.get("lines", "0"))
                return self._send(pages.form(rest[0], lines, without), HTML)
        if what in ("orders", "customers", "documents") and self.erp.meets(agent, "hang_read"):
            self._hang()
        if what in ("orders", "customers") and self.erp.meets(agent, "drop_read"):
            return self._drop()
        if what == "operations":
            return self._write(agent, rest[0], body)
        if what == "find":
            if not self.erp.can_search or self.erp.meets(agent, "cannot_search"):
                return self._json({"code": "search_unavailable"}, 501)
            return self._json(self.erp.book.find(query["reference"]))
        if what in ("orders", "customers"):
            found = self.erp.book.read(what, rest[0])
            if found is None:
                return self._json({"code": "not_found"}, 404)
            if what == "orders" and self.erp.meets(agent, "wrong_total"):
                found = {**found, "total": "0.01"}
            return self._json(found)
        if what == "documents":
            return self._document(agent, *rest)
        if what == "exports":
            return self._export(agent, rest[0])
        return self._json({"code": "not_found"}, 404)

    def _write(self, agent: str, type: str, body: dict[str, Any]) -> None:
        fault = self.erp.meets(
            agent, "drop_after_save", "drop_before_save", "500", "500_after_save", "garbage",
            "garbage_after_save", "no_id", "redirect", "slow_write", "hang_write",
            "hang_after_save",
        )  # fmt: skip
        if fault == "drop_before_save":
            return self._drop()
        if fault == "500":
            return self._json({"code": "internal"}, 500)
        if fault == "garbage":
            return self._send(b"<html>Errore", "text/html")
        if fault == "redirect":
            return self._send(b"", "text/html", 302, ELSEWHERE)
        if fault == "slow_write":
            time.sleep(self.erp.slow)
        if fault == "hang_write" and not self._hang():
            return None
        id = self.erp.book.write(type, body["reference"], body["data"])
        if fault == "hang_after_save":
            self._hang()
        if fault == "drop_after_save":
            return self._drop()
        if fault == "500_after_save":
            return self._json({"code": "internal"}, 500)
        if fault == "garbage_after_save":
            return self._send(b'{"id": ', "application/json")
        return self._json({} if fault == "no_id" else {"id": id})

    def _document(self, agent: str, kind: str, order: str, number: str) -> None:
        self.erp.book.document(kind, order, number)
        if self.erp.meets(agent, "html_as_pdf"):
            return self._send(b"<html>Login</html>", "application/pdf")
        return self._send(PDF, "application/pdf")

    def _export(self, agent: str, type: str) -> None:
        fault = self.erp.meets(
            agent, "truncated", "empty", "wrong_trailer", "changed_columns", "duplicated",
            "bad_row", "slow_export", "one_line", "500", "hang_export",
        )  # fmt: skip
        if fault == "hang_export":
            self._hang()
        if fault == "500":
            return self._json({"code": "internal"}, 500)
        columns, rows = self.erp.book.rows(type)
        if fault == "one_line":
            return self._send(b"x" * 2_000_000, "application/x-ndjson")
        if fault == "empty":
            rows = []
        if fault == "changed_columns":
            columns = [*columns[:-1], "somethingElse"]
        if fault == "duplicated":
            rows = [*rows, rows[0]]
        if fault == "bad_row":
            rows = [[rows[0][0], *([{"not": "text"}] * (len(columns) - 1))], *rows[1:]]
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for line in _lines(columns, rows, fault):
            if fault == "slow_export":
                time.sleep(self.erp.slow / 10)
            try:
                self.wfile.write(line)
            except OSError:  # the caller has gone
                return

    def _json(self, answer: dict[str, Any], status: int = 200) -> None:
        if self.is_page:
            if status == 200:
                return self._send(pages.result(self.what, answer), HTML)
            made = pages.refused(str(answer["code"]), str(answer.get("message", "")))
            return self._send(made, HTML, status)
        self._send(json.dumps(answer).encode(), "application/json", status)

    def _send(
        self, body: bytes, kind: str, status: int = 200, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        try:
            self.send_response(status)
            for name, value in (("Content-Type", kind), *headers):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # the caller has gone
            self.close_connection = True

    def _hang(self) -> bool:
        """Say nothing for long; return whether the caller is still there."""
        readable, _, _ = select.select([self.connection], [], [], HANGS)
        self.close_connection = bool(readable)
        return not readable

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _lines(columns: list[str], rows: list[list[Any]], fault: str) -> Iterator[bytes]:
    hashed = hashlib.sha256()
    for line in ({"columns": columns}, *rows):
        text = json.dumps(line).encode() + b"\n"
        hashed.update(text)
        yield text
    if fault == "truncated":
        return
    digest = "0" * 64 if fault == "wrong_trailer" else hashed.hexdigest()
    yield json.dumps({"count": len(rows), "sha256": digest}).encode() + b"\n"
