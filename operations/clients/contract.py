"""What a client of the ERP offers, and how answers are judged, however they arrive."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from operations.errors import (
    ErpRefused,
    ErpUnreachable,
    ErpUnreadable,
    LoginRefused,
    SessionEnded,
)

REFUSALS = frozenset(
    {
        "unknown_article", "unknown_customer", "unknown_order", "order_closed", "conflict",
        "unknown_document", "not_found",
    }
)  # fmt: skip
"""Codes by which the ERP says that it did nothing."""
AWAY = (500, 502, 503, 504)
LONGEST_ID = 80
ANSWER_LIMIT = 1024 * 1024
DOCUMENT_LIMIT = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Found:
    """What a search for a reference has found."""

    id: str


class Client(Protocol):
    """A session of an agent."""

    def end(self, reason: str) -> None:
        """End the call under way, from another thread, and refuse every later one.

        A write is answered soon, and what became of it is better known than guessed: only one
        whose attempt is over anyway is ended.
        """

    def login(self, password: str) -> None:
        """Log in, which ends every other session of the agent."""

    def find(self, reference: str) -> Found | None:
        """Search for a write by its reference; raise ErpRefused where it cannot be searched."""

    def write(self, type: str, reference: str, data: dict[str, Any]) -> str:
        """Carry out a write and return the id of what it has made or changed."""

    def read(self, what: str, id: str) -> dict[str, Any] | None:
        """Return an order or a customer, or None if it does not exist."""

    def document(self, kind: str, order: str, number: str) -> bytes:
        """Download a PDF."""

    def export(self, type: str) -> Iterator[bytes]:
        """Download an export in pieces."""


def id_of(answer: dict[str, Any]) -> str:
    """Return the id of an answer; raise ErpUnreadable unless it can be stored."""
    id = answer.get("id")
    if not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID or not id.isprintable():
        raise ErpUnreadable("no_id")
    return id


def error_of(status: int, code: str, words: str) -> Exception:
    """Return the error of an answer that is no success."""
    words = words[:2000]
    if status == 401 and code == "login_refused":
        return LoginRefused(code, words)
    if status == 401 and code == "session_ended":
        return SessionEnded(code, words)
    if status in AWAY:
        return ErpUnreachable(f"status_{status}", words)
    if 400 <= status < 500 and code in REFUSALS:
        return ErpRefused(code, words)
    return ErpUnreadable(f"status_{status}", words)


def sha256(content: bytes) -> str:
    """Return the checksum of a document."""
    return hashlib.sha256(content).hexdigest()
