"""The moves of a plan's status: no other code writes it."""

from __future__ import annotations

from typing import Any

import jobs
from jobs.machines import Edge, Moved, machine
from publisher.models import Plan

Status = Plan.Status


def _announce(moved: Moved) -> None:
    row: Any = moved.instance or Plan.objects.get(pk=moved.pk)
    jobs.emit(
        f"publisher.plan.{moved.to}", {"plan": str(moved.pk), "version": row.version},
        key=f"plan:{moved.pk}", tenant=row.tenant,
    )  # fmt: skip


plan = machine(
    Plan,
    "status",
    [
        Edge("submit", Status.DRAFT, Status.READY, "somebody asks for approval"),
        Edge("approve", Status.READY, Status.APPROVED, "its current version is approved"),
        Edge("schedule", Status.APPROVED, Status.SCHEDULED, "its slots have publications"),
        Edge("publish", Status.SCHEDULED, Status.PUBLISHED, "every publication is completed"),
        Edge("fail", Status.SCHEDULED, Status.FAILED, "all have ended, and some have failed"),
        Edge("replay", Status.FAILED, Status.SCHEDULED, "a failed publication runs again"),
        Edge("reopen", [Status.READY, Status.APPROVED, Status.SCHEDULED], Status.DRAFT,
             "it is changed, or changes are requested"),
    ],
    on_move=_announce,
)  # fmt: skip
