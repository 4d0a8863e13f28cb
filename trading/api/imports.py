"""Imports: start one, see how far it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Schema, Status
from pydantic import AwareDatetime

from jobs.api import In
from trading import links, services, verbs
from trading.api.caller import BASE, StartedOut, answered, missing, oneself, section, user_of
from trading.models import (
    ImportRun,
)


class ImportIn(In):
    """What to import."""

    since: AwareDatetime | None = None
    broker: str | None = Field(None, max_length=20)


class ImportOut(Schema):
    """An import."""

    jobId: UUID
    broker: str
    state: str
    percent: int
    pages: int
    fetched: int
    stored: int
    conflicts: int
    skipped: int
    since: datetime
    error: str
    createdAt: datetime
    endedAt: datetime | None


def _import(row: ImportRun) -> dict[str, Any]:
    names = ("state", "percent", "pages", "fetched", "stored", "conflicts", "skipped", "since",
             "error")  # fmt: skip
    return {
        "jobId": row.pk, "broker": row.connection.broker, "createdAt": row.created_at,
        "endedAt": row.ended_at, **{name: getattr(row, name) for name in names},
    }  # fmt: skip


@section.post(f"{BASE}/trades/import", "trading_import", needs="", answer={202: StartedOut},
    needs_key=True, rate="3/m",
)  # fmt: skip
def trades_import(request: HttpRequest, body: ImportIn) -> Any:
    """Import the fills of the last 30 days, or since a moment."""

    def start() -> UUID:
        row = links.choose(user_of(request), body.broker or "")
        return services.start_import(row, body.since, by=oneself(request))

    return Status(202, {"jobId": answered(start)})


@section.post(f"{BASE}/brokers/{{uuid:link_id}}/import", "trading_link_import", needs="",
    verb="link.import", answer={202: StartedOut}, needs_key=True, rate="3/m",
)  # fmt: skip
def link_import(request: HttpRequest, link_id: UUID, body: ImportIn) -> Any:
    job = answered(lambda: verbs.import_fills(link_id, by=oneself(request), since=body.since))
    return Status(202, {"jobId": job})


@section.get(f"{BASE}/imports", "trading_imports", needs="", answer=list[ImportOut])
def imports(request: HttpRequest) -> Any:
    """List the newest imports."""
    rows = ImportRun.objects.filter(user_id=user_of(request)).select_related("connection")
    return [_import(row) for row in rows.order_by("-created_at")[:100]]


@section.get(f"{BASE}/imports/{{uuid:job_id}}", "trading_import_get", needs="", answer=ImportOut)
def import_get(request: HttpRequest, job_id: UUID) -> Any:
    """Get an import."""
    rows = ImportRun.objects.filter(user_id=user_of(request)).select_related("connection")
    row = rows.filter(pk=job_id).first()
    if row is None:
        raise missing("import")
    return _import(row)
