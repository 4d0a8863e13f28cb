"""Searches."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Query

from fileproc import config, schemas
from fileproc.api.base import Owned, on
from fileproc.errors import Refused
from fileproc.login import owner_of
from fileproc.services import search
from fileproc.verbs import VIEW_FILE
from jobs.api import prepared


def _search(request: HttpRequest, body: schemas.SearchIn) -> dict[str, Any]:
    metadata = None if body.metadata is None else json.dumps(body.metadata)
    if metadata is not None and "\\u0000" in metadata:
        raise Refused("INVALID_REQUEST", "must not contain NUL", "metadata")
    found = search.search(
        owner_of(request, body.owner), body.q, mode=body.mode, batch_id=body.batchId,
        folder_id=body.folderId, neighbours=body.neighbours,
        type=body.type.replace("\x00", ""), metadata=metadata, limit=body.limit,
        min_score=body.minScore,
    )  # fmt: skip
    return {"mode": found.mode, "hits": [schemas.of_hit(hit) for hit in found.hits]}


class SearchQuery(Owned):
    """A search in the address."""

    q: str = Field(max_length=4000)
    mode: str = "hybrid"
    batchId: UUID | None = None
    folderId: UUID | None = None
    type: str = Field("", max_length=20)
    metadata: str = Field("", max_length=config.METADATA_LIMIT)
    limit: int = Field(10, ge=1, le=50)
    neighbours: int = Field(0, ge=0, le=search.NEIGHBOURS)
    minScore: float = Field(0.0, ge=0, le=1)


def _get(request: HttpRequest, asked: SearchQuery) -> dict[str, Any]:
    given = asked.model_dump()
    try:
        given["metadata"] = json.loads(asked.metadata) if asked.metadata else None
    except ValueError:
        given["metadata"] = asked.metadata
    if not isinstance(given["metadata"], dict | None):
        raise Refused("INVALID_REQUEST", "must be an object of JSON", "metadata")
    return _search(request, schemas.SearchIn(**given))


# The model may be on another host: no transaction is open while it is asked.
@on("GET", "/search", "upload_search", VIEW_FILE, schemas.SearchOut, before=_get)
def search_get(request: HttpRequest, asked: Query[SearchQuery]) -> Any:
    """Search documents by words and by meaning."""
    return prepared(request)


@on("POST", "/search", "upload_search_post", VIEW_FILE, schemas.SearchOut, before=_search)
def search_post(request: HttpRequest, body: schemas.SearchIn) -> Any:
    """Search documents by words and by meaning; the question is in no address."""
    return prepared(request)
