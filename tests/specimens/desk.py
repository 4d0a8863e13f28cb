"""A verb of a test app, declared as apps do it, and the page of its things."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from pydantic import Field

from jobs.admin import PlatformAdmin
from jobs.verbs import JOB, By, Target, acting, permissions, verb
from tests.specimens.models import Plan

APPROVE_PLAN = "specimens.approve_plan"
PLAN = Target("sketch", int, "plans", rows=Plan.objects.all, tenant="title")


def declare() -> Callable[..., Any]:
    """Declare the verb ``plan.approve``."""

    @verb("sketch.approve", on=PLAN, permission=APPROVE_PLAN)
    def approve(
        plan_id: int,
        *,
        by: By,
        reason: str,
        mood: Annotated[Literal["calm", "bold"], Field(description="how it is read")] = "calm",
    ) -> None:
        """Approve a plan."""
        with acting(approve, plan_id, by=by, reason=reason) as act:
            row = PLAN.locked(plan_id)
            act.changed({"mood": row.mood}, {"mood": mood})
            row.mood, row.status = mood, Plan.Status.APPROVED
            row.save(update_fields=["mood", "status"])

    return approve


def declare_printing() -> None:
    """Declare the verb ``plan.print``, with a parameter of most sorts."""

    @verb("sketch.print", on=PLAN, permission=APPROVE_PLAN)
    def print_plan(
        plan_id: int,
        *,
        by: By,
        copies: Annotated[int, Field(ge=1, le=10)] = 1,
        number: int = 0,
        day: date | None = None,
        label: Annotated[str, Field(max_length=5)] = "",
        share: float = 0.5,
        wait: timedelta = timedelta(0),
        colours: Sequence[str] = ("black", "red"),
    ) -> None:
        """Print a plan."""
        with acting(print_plan, plan_id, by=by) as act:
            assert day is None or type(day) is date
            act.note(copies=copies, day=str(day), label=label, colours=list(colours))


def declare_shipping() -> None:
    """Declare the verb ``plan.ship``, with parameters that are called like options of Django."""

    @verb("sketch.ship", on=PLAN, permission=APPROVE_PLAN)
    def ship(
        plan_id: int, version: int, *, by: By, action: str, settings: str = "", verb: bool = False
    ) -> str:
        """Ship a plan."""
        return f"{plan_id} {version} {action}{settings} {verb}"


def declare_on_jobs() -> None:
    """Declare the verb ``job.applaud``."""

    @verb("job.applaud", on=JOB, permission=permissions.EDIT_JOB)
    def applaud(job_id: UUID, *, by: By, reason: str = "", times: int = 1) -> int:
        """Applaud a job."""
        with acting(applaud, job_id, by=by, reason=reason) as act:
            act.note(times=times)
            return times


class PlanAdmin(PlatformAdmin):
    """The plans."""

    nouns = ("sketch",)
    view_permission = APPROVE_PLAN

    def find(self, request: HttpRequest, key: str) -> Any:
        return Plan.objects.filter(pk=key).first()
