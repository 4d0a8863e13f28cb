"""What a reader returns, and how it gives up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class Encrypted(Exception):
    """The document needs a password."""


class Unsupported(Exception):
    """The content is of no type that is read here."""


class Bomb(Exception):
    """It unpacks to far more than it should."""


class Damaged(Exception):
    """It is not a proper document of its type."""


class TooLarge(Exception):
    """It has more pages or text than the limit allows."""


class Empty(Exception):
    """It contains no text."""


@dataclass
class Text:
    """A text that grows, with the places of pages and headings in it."""

    limit: int
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    pages: list[int] = field(default_factory=list)
    headings: list[list[Any]] = field(default_factory=list)
    is_table: bool = False
    warnings: list[str] = field(default_factory=list)
    unread: int = 0
    """Pictures and scanned pages whose text was not recognised."""

    def add(self, text: str) -> None:
        self.length += len(text)
        if self.length > self.limit:
            raise TooLarge
        self.pieces.append(text)

    def page(self) -> None:
        self.pages.append(self.length)

    def heading(self, level: int, title: str) -> None:
        """Begin a section; the title itself is added by the caller."""
        title = " ".join(title.split())[:200]
        if title and len(self.headings) < 20_000:
            self.headings.append([self.length, level, title])

    def as_data(self, kind: str) -> dict[str, Any]:
        text = "".join(self.pieces)
        if not text.strip() and not self.unread:
            raise Empty
        return {
            "type": kind, "text": text, "pages": self.pages, "headings": self.headings,
            "is_table": self.is_table, "warnings": self.warnings, "unread": self.unread,
        }  # fmt: skip
