"""Bodies and answers of searches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal
from uuid import UUID

from ninja import Field, Schema

from fileproc.services import search
from jobs.api import In


class SearchIn(In):
    """A search."""

    q: str = Field(max_length=4000)
    mode: str = "hybrid"
    batchId: UUID | None = None
    folderId: UUID | None = None
    type: str = Field("", max_length=20)
    metadata: dict[str, Any] | None = None
    limit: int = Field(10, ge=1, le=50)
    minScore: float = Field(0.0, ge=0, le=1)
    neighbours: int = Field(0, ge=0, le=search.NEIGHBOURS)
    owner: str = Field("", max_length=200)


class NeighbourOut(Schema):
    """A chunk before or after a hit."""

    number: int
    text: str
    start: int
    end: int


class HitOut(Schema):
    """A piece of a document that answers."""

    fileId: UUID
    fileName: str
    batchId: UUID
    type: str
    score: float
    snippet: str
    pages: list[int] | None
    headings: list[str]
    start: int
    end: int
    number: int
    neighbours: list[NeighbourOut]


class SearchOut(Schema):
    """The hits, best first, and the mode that was used."""

    mode: Literal["hybrid", "vector", "text"]
    hits: list[HitOut]


def of_hit(hit: search.Hit) -> dict[str, Any]:
    return {
        "fileId": hit.file_id, "fileName": hit.file_name, "batchId": hit.batch_id,
        "type": hit.type, "score": hit.score, "snippet": snippet(hit.text),
        "pages": list(hit.pages) if hit.pages else None, "headings": hit.headings,
        "start": hit.start, "end": hit.end, "number": hit.number,
        "neighbours": [asdict(one) for one in hit.neighbours],
    }  # fmt: skip


def snippet(text: str) -> str:
    """Return the beginning of a chunk, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= search.SNIPPET else line[: search.SNIPPET].rstrip() + "…"
