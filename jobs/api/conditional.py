"""ETags: a reader spares what he has already, a writer changes only what he has seen."""

from __future__ import annotations

import hashlib
from typing import Any

from django.db.models import Model
from django.http import HttpRequest, HttpResponse

from jobs.api.problem import Problem
from jobs.engine import sql


def tag(row: Model, *parts: Any) -> str:
    """The ETag of the row as it is now; it changes with every write to it.

    ``parts`` tell representations apart; a writer's If-Match may name any of them.
    """
    table = row._meta.db_table
    key = row._meta.pk.column if row._meta.pk is not None else "id"
    found = sql.rows(f'SELECT xmin::text FROM {table} WHERE "{key}" = %s', [row.pk])  # noqa: S608
    text = f"{table}:{row.pk}:{found[0][0] if found else ''}"
    made = hashlib.sha256(text.encode()).hexdigest()[:16]
    if any(parts):
        made += "-" + hashlib.sha256(repr(parts).encode()).hexdigest()[:8]
    return f'"{made}"'


def fresh(request: HttpRequest, response: HttpResponse, current: str) -> HttpResponse | None:
    """Not Modified, where the reader has this already; the response bears the tag otherwise."""
    response["ETag"] = current
    response["Cache-Control"] = "private, no-cache"
    given = request.headers.get("If-None-Match")
    if given is None or not _names(given, current, exact=True):
        return None
    same = HttpResponse(status=304)
    same["ETag"] = current
    return same


def check(request: HttpRequest, row: Model) -> None:
    """Lock the row; raise a Problem where the writer does not say what he has seen, or saw another.

    A row that is gone has changed, too.
    """
    rows = type(row)._default_manager.using(sql.alias())
    locked = rows.select_for_update(no_key=True, of=("self",)).filter(pk=row.pk).first()
    given = request.headers.get("If-Match")
    if given is None:
        raise Problem(428, "if-match-missing", "If-Match is needed: the ETag of what you have seen")
    if locked is None or not _names(given, tag(locked), exact=False):
        raise Problem(412, "changed-meanwhile", "somebody has changed this in the meantime")


def _names(given: str, current: str, *, exact: bool) -> bool:
    if given.strip() == "*":
        return True
    tags = [one.strip() for one in given[:2000].split(",")]
    if exact:
        return current in [one.removeprefix("W/") for one in tags]
    return current in ['"' + one.strip('"').partition("-")[0] + '"' for one in tags]
