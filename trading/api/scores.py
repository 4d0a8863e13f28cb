"""Scorings: label again, see how far it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Schema, Status
from pydantic import AwareDatetime

from jobs.api import In
from trading import verbs
from trading.api.caller import BASE, StartedOut, answered, missing, oneself, section, user_of
from trading.models import (
    ScoreRun,
)


class ScoreOut(Schema):
    """A scoring."""

    jobId: UUID
    state: str
    scored: int
    changed: int
    error: str
    since: datetime
    createdAt: datetime
    endedAt: datetime | None


class RescoreIn(In):
    """From when on to score again."""

    since: AwareDatetime | None = None


@section.post(f"{BASE}/trades/score", "trading_rescore", needs="", verb="trader.rescore",
    answer={202: StartedOut}, rate="3/m",
)  # fmt: skip
def rescore(request: HttpRequest, body: RescoreIn) -> Any:
    job = answered(lambda: verbs.rescore(user_of(request), by=oneself(request), since=body.since))
    return Status(202, {"jobId": job})


@section.get(f"{BASE}/scores/{{uuid:job_id}}", "trading_score_get", needs="", answer=ScoreOut)
def score_get(request: HttpRequest, job_id: UUID) -> Any:
    """Get a scoring."""
    row = ScoreRun.objects.filter(user_id=user_of(request), pk=job_id).first()
    if row is None:
        raise missing("scoring")
    return {"jobId": row.pk, "state": row.state, "scored": row.scored, "changed": row.changed,
            "error": row.error, "since": row.since, "createdAt": row.created_at,
            "endedAt": row.ended_at}  # fmt: skip
