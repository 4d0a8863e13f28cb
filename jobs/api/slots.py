"""When schedules come: the slots ahead, those of a rule to be, and those that were missed."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Field, Query, Schema
from pydantic import ConfigDict

from jobs.api import auth
from jobs.api.inputs import In, ms
from jobs.api.sections import Section
from jobs.operate import schedules, sight
from jobs.operate.permissions import VIEW_SCHEDULE
from jobs.operate.schedules import LONGEST, SHORTEST

section = Section("schedules", {"schedule": "/schedules"})


class SlotsIn(Schema):
    """How many slots, and after when."""

    model_config = ConfigDict(extra="forbid")
    count: int = Field(5, ge=1, le=100)
    after: datetime | None = None


class SlotsOut(Schema):
    """Moments."""

    slots: list[datetime]


class RuleIn(In):
    """A rule of the clock: either ``cron`` with a ``time_zone``, or ``interval_ms``."""

    cron: schedules.CronText = None
    interval_ms: int | None = Field(None, ge=ms(SHORTEST), le=ms(LONGEST))
    time_zone: schedules.Zone = None
    count: int = Field(5, ge=1, le=100)
    after: datetime | None = None


class GapsIn(Schema):
    """From when to when, in the past."""

    model_config = ConfigDict(extra="forbid")
    start: datetime
    end: datetime


class JobsMadeOut(Schema):
    """The jobs."""

    job_ids: list[UUID]


@section.post(
    "/schedules/preview",
    "schedule_preview",
    needs=VIEW_SCHEDULE,
    answer=SlotsOut,
    keeps_answer=False,
)
def schedule_preview(request: HttpRequest, body: RuleIn) -> Any:
    """The next slots that a schedule of this rule would have; nothing is written."""
    found = schedules.foresee(
        cron=body.cron,
        interval=seconds(body.interval_ms),
        time_zone=body.time_zone,
        count=body.count,
        start=body.after,
    )
    return {"slots": found}


@section.get("/schedules/{name}/next", "schedule_next", needs=VIEW_SCHEDULE, answer=SlotsOut)
def schedule_next(request: HttpRequest, name: str, wanted: Query[SlotsIn]) -> Any:
    """The next slots that are to have a job: none of those that a pause leaves out."""
    sight.check(auth.who(request), "schedule", name)
    return {"slots": schedules.preview(name, wanted.count, wanted.after)}


@section.get(
    "/schedules/{name}/backfill", "schedule_gaps", needs=VIEW_SCHEDULE, answer=SlotsOut
)  # fmt: skip
def schedule_gaps(request: HttpRequest, name: str, wanted: Query[GapsIn]) -> Any:
    """The slots without a job in a period, which a backfill would fill."""
    sight.check(auth.who(request), "schedule", name)
    return {"slots": schedules.backfill_preview(name, wanted.start, wanted.end)}


section.does(
    "schedule.backfill",
    "/schedules/{name}/backfill",
    "schedule_backfill",
    answer={201: JobsMadeOut},
    show=lambda who, name, made: {"job_ids": made},
)


def seconds(ms: int | None) -> float | None:
    """The same in seconds."""
    return None if ms is None else ms / 1000
