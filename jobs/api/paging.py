"""Pages: signed cursors that say where a walk along (moment, id) has arrived.

A cursor belongs to its list, its order and its filters; with others, or changed, it is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.core import signing
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema
from pydantic import ConfigDict

from jobs.api.problem import Problem

T = TypeVar("T")
LIMIT = 200
DEFAULT = 50
_signer = signing.Signer(salt="jobs.api.cursor")


class PageIn(Schema):
    """Which page of a list."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(DEFAULT, ge=1, le=LIMIT)
    cursor: str | None = Field(None, max_length=1000)


class PageOut(Schema):
    """Where the neighbours of this page are."""

    next: str | None
    prev: str | None
    limit: int


class Listed(Schema, Generic[T]):
    """A page of a list."""

    data: list[T]
    page: PageOut


def page(
    request: HttpRequest,
    response: HttpResponse,
    rows: QuerySet[Any],
    wanted: PageIn,
    *,
    moment: str = "created_at",
    filters: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A page of the rows, newest first, with its cursors and a Link header."""
    mark = _mark(request, moment, filters or {})
    place = _read(wanted.cursor, mark) if wanted.cursor else None
    backwards = place is not None and place[0]
    signs = ("", "") if backwards else ("-", "-")
    if place is not None:
        rows = rows.filter(_beyond(moment, *place))
    found = list(rows.order_by(f"{signs[0]}{moment}", f"{signs[1]}id")[: wanted.limit + 1])
    more, found = len(found) > wanted.limit, found[: wanted.limit]
    if backwards:
        found.reverse()
    following = _write(False, found[-1], moment, mark) if found and (more or backwards) else None
    before = place is not None and (more or not backwards)
    previous = _write(True, found[0], moment, mark) if found and before else None
    links = [
        f'<{_address(request, cursor)}>; rel="{rel}"'
        for rel, cursor in (("next", following), ("prev", previous))
        if cursor
    ]
    if links:
        response["Link"] = ", ".join(links)
    told = {"next": following, "prev": previous, "limit": wanted.limit}
    return {"data": found, "page": told}


def _beyond(moment: str, backwards: bool, at: datetime, key: Any) -> Q:
    # The first condition alone bounds the walk along the index.
    sign = "gt" if backwards else "lt"
    return Q(**{f"{moment}__{sign}e": at}) & (
        Q(**{f"{moment}__{sign}": at}) | Q(**{f"id__{sign}": key})
    )


def _mark(request: HttpRequest, moment: str, filters: Mapping[str, Any]) -> str:
    text = json.dumps([request.path, moment, sorted(filters.items())], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _write(backwards: bool, row: Model, moment: str, mark: str) -> str:
    at: datetime = getattr(row, moment)
    return _signer.sign_object([int(backwards), mark, at.isoformat(), str(row.pk)])


def _read(cursor: str, mark: str) -> tuple[bool, datetime, str]:
    try:
        backwards, known, at, key = _signer.unsign_object(cursor)
        if known != mark:
            raise Problem(400, "cursor-of-another-list", "the cursor belongs to other filters")
        return bool(backwards), datetime.fromisoformat(at), key
    except (signing.BadSignature, ValueError, TypeError, UnicodeError):
        raise Problem(400, "invalid-cursor", "the cursor is not one of ours") from None


def _address(request: HttpRequest, cursor: str) -> str:
    query = request.GET.copy()
    query["cursor"] = cursor
    return f"{request.path}?{query.urlencode()}"


def place_in(request: HttpRequest, wanted: PageIn, text: str) -> tuple[bool, datetime, str] | None:
    """Where the page begins, of a list that pages itself: backwards or not, a moment, an id."""
    return _read(wanted.cursor, _mark(request, "", {"query": text})) if wanted.cursor else None


def place_out(
    request: HttpRequest, text: str, backwards: bool, place: tuple[datetime, Any] | None
) -> str | None:
    """The cursor of a place, for ``place_in``."""
    if place is None:
        return None
    mark = _mark(request, "", {"query": text})
    return _signer.sign_object([int(backwards), mark, place[0].isoformat(), str(place[1])])


def link(request: HttpRequest, response: HttpResponse, page: Mapping[str, Any]) -> None:
    """The response bears the neighbours of the page as a Link header."""
    found = [
        f'<{_address(request, page[rel])}>; rel="{rel}"' for rel in ("next", "prev") if page[rel]
    ]
    if found:
        response["Link"] = ", ".join(found)
