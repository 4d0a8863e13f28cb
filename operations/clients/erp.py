"""The ERP over JSON. A client belongs to one session of one agent, and logs in once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from jobs import http
from operations.clients.contract import Found, error_of, id_of
from operations.config import settings
from operations.errors import ErpRefused, ErpUnreachable, ErpUnreadable
from operations.models import Agent


class Erp:
    """A session of an agent. ``ended`` is called when a call was ended by ``end``, and raises."""

    def __init__(
        self, client: http.Client, login: str, ended: Callable[[], object] = lambda: None
    ) -> None:
        self._client, self._login, self._ended = client, login, ended
        self._is_ended = self._is_writing = False

    def end(self, reason: str) -> None:
        """End the call under way; a write that is cancelled is awaited."""
        if self._is_writing and reason in ("cancelled", "shutdown"):
            return
        self._is_ended = True
        self._client.abort()

    def login(self, password: str) -> None:
        """Log in, which ends every other session of the agent."""
        answer = self._call("POST", "/login", {"login": self._login, "password": password})
        session = answer.get("session")
        if not isinstance(session, str) or not session:
            raise ErpUnreadable("no_session")
        self._client.headers["X-Session"] = session

    def find(self, reference: str) -> Found | None:
        """Search for a write by its reference; raise ErpRefused where it cannot be searched."""
        answer = self._call("GET", f"/find?reference={quote(reference)}")
        if answer.get("found") is False:
            return None
        return Found(id_of(answer))

    def write(self, type: str, reference: str, data: dict[str, Any]) -> str:
        """Carry out a write and return the id of what it has made or changed."""
        self._is_writing = True
        try:
            return id_of(
                self._call("POST", f"/operations/{type}", {"reference": reference, "data": data})
            )
        finally:
            self._is_writing = False

    def read(self, what: str, id: str) -> dict[str, Any] | None:
        """Return an order or a customer, or None if it does not exist."""
        try:
            return self._call("GET", f"/{what}/{quote(id, safe='')}")
        except ErpRefused as error:
            if error.code == "not_found":
                return None
            raise

    def document(self, kind: str, order: str, number: str) -> bytes:
        """Download a PDF."""
        path = "/".join(quote(part, safe="") for part in (kind, order, number))
        try:
            answer = self._client.get(f"/documents/{path}")
        except http.TooLarge:
            raise ErpUnreadable("document_too_large") from None
        except http.HttpError as error:
            raise self._unreachable(error) from error
        if answer.status_code != 200:
            raise _error(answer.status_code, answer.content)
        if not answer.content.startswith(b"%PDF-"):
            raise ErpUnreadable("not_a_pdf")
        return bytes(answer.content)

    def export(self, type: str) -> Iterator[bytes]:
        """Download an export in pieces."""
        try:
            with self._client.stream("GET", f"/exports/{type}") as answer:
                if answer.status_code != 200:
                    raise _error(answer.status_code, answer.read())
                yield from answer.iter_bytes()
        except http.TooLarge:
            raise ErpUnreadable("export_too_large") from None
        except http.HttpError as error:
            raise self._unreachable(error) from error

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        try:
            answer = self._client.request(method, path, json=body)
        except http.TooLarge:
            raise ErpUnreadable("answer_too_large") from None
        except http.HttpError as error:
            raise self._unreachable(error) from error
        if answer.status_code != 200:
            raise _error(answer.status_code, answer.content)
        found = _json(answer.content)
        if found is None:
            raise ErpUnreadable("unreadable_answer")
        return found

    def _unreachable(self, error: http.HttpError) -> Exception:
        """Return the error of a call that got no answer; ``sent`` stays with its cause."""
        if self._is_ended:
            self._ended()
        return ErpUnreachable(
            "blocked_address" if isinstance(error, http.Blocked) else "unreachable"
        )


def _json(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
        if b"\\u" in content:  # half of a surrogate pair cannot be stored
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _error(status: int, content: bytes) -> Exception:
    said = _json(content) or {}
    return error_of(status, str(said.get("code", "")), str(said.get("message", "")))


@contextmanager
def connect(
    agent: Agent, seconds: float, limit: int, ended: Callable[[], object]
) -> Iterator[Erp]:  # fmt: skip
    """Open a connection for an agent; no call of it lasts longer than ``seconds``."""
    headers = {"X-Login": agent.erp_login}
    with http.client(
        base_url=settings().ERP_URL, headers=headers, total=seconds, step=seconds,
        max_bytes=limit,
    ) as client:  # fmt: skip
        yield Erp(client, agent.erp_login, ended)
