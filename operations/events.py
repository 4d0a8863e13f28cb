"""Events of operations. They contain ids, states and codes, and no personal data."""

from __future__ import annotations

from typing import Any

import jobs
from jobs.events import Event, subscriber
from jobs.machines import Moved
from operations.models import Operation, Phase

TOPICS = {
    Phase.IN_PROGRESS: "JOB_STARTED", Phase.COMPLETED: "JOB_COMPLETED",
    Phase.FAILED: "JOB_FAILED", Phase.CANCELLED: "JOB_CANCELLED", Phase.IN_DOUBT: "JOB_IN_DOUBT",
}  # fmt: skip
PREEMPTED = "preempted"


def emit(row: Operation, name: str, **data: Any) -> None:
    """Publish an event of the operation, in the caller's transaction."""
    payload = {
        "jobId": str(row.pk), "type": row.type, "agent": row.agent_id,
        "entityId": row.entity.partition(":")[2], "entityName": row.entity_name,
        "priority": row.spec.priority, **data,
    }  # fmt: skip
    jobs.emit(
        f"operations.{name}", jobs.types.Vouched(payload), key=f"job:{row.pk}", tenant=row.tenant
    )


def publish(row: Operation, moved: Moved) -> None:
    """Publish a move of the operation."""
    if moved.to == Phase.QUEUED:
        if moved.source != Phase.IN_PROGRESS:
            return emit(row, "JOB_QUEUED")
        return emit(
            row, "JOB_PREEMPTED" if moved.why == PREEMPTED else "JOB_RETRYING", reason=moved.why
        )
    if moved.to == Phase.COMPLETED:
        return emit(row, "JOB_COMPLETED", result=moved.fields.get("result", row.result))
    if moved.to in TOPICS:
        code = moved.fields.get("error_code", row.error_code)
        emit(row, TOPICS[Phase(moved.to)], **({"error": code} if code else {}))
    return None


@subscriber("jobs.circuit.*")
def tell_circuits(event: Event) -> None:
    """Tell an agent that the circuit to the ERP has opened or closed."""
    name = str(event.payload.get("circuit", ""))
    if not name.startswith("erp:"):
        return
    agent = name.removeprefix("erp:")
    topic = "CIRCUIT_OPEN" if event.topic.endswith("opened") else "CIRCUIT_CLOSED"
    jobs.emit(f"operations.{topic}", {"agent": agent}, key=name, tenant=f"agent:{agent}")
