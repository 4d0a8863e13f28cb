"""The machine of an operation's phase; each move leaves a step and an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import jobs
from jobs.machines import Edge, Moved, machine
from operations import events
from operations.models import Operation, Phase, Step

OPEN = (Phase.QUEUED, Phase.IN_PROGRESS, Phase.ERP_SAVE_DONE, Phase.DB_COMMITTED, Phase.IN_DOUBT)
UNDECIDED = (Phase.IN_DOUBT, Phase.ERP_SAVE_DONE)
ENDED = (Phase.FAILED, Phase.CANCELLED)


def _record(moves: Sequence[Moved]) -> None:
    Step.objects.bulk_create(
        Step(operation_id=moved.pk, phase=moved.to, by=moved.by, why=moved.why[:200])
        for moved in moves
    )
    for moved in moves:
        row: Any = moved.instance or Operation.objects.get(pk=moved.pk)
        events.publish(row, moved)


operation = machine(
    Operation,
    "phase",
    [
        Edge("start", Phase.QUEUED, Phase.IN_PROGRESS, "a worker runs its job"),
        Edge("put back", Phase.IN_PROGRESS, Phase.QUEUED,
             "it was preempted or released, or is tried again"),
        Edge("save", [Phase.IN_PROGRESS, Phase.IN_DOUBT], Phase.ERP_SAVE_DONE, "the ERP has it"),
        Edge("store", Phase.ERP_SAVE_DONE, Phase.DB_COMMITTED, "its rows are stored here"),
        Edge("complete", [Phase.IN_PROGRESS, Phase.DB_COMMITTED], Phase.COMPLETED, "it is done"),
        Edge("doubt", Phase.IN_PROGRESS, Phase.IN_DOUBT, "whether the ERP has it is unknown"),
        Edge("fail", [Phase.QUEUED, Phase.IN_PROGRESS, Phase.IN_DOUBT], Phase.FAILED,
             "nothing was saved"),
        Edge("cancel", [Phase.QUEUED, Phase.IN_PROGRESS, Phase.IN_DOUBT], Phase.CANCELLED,
             "nothing was saved"),
        Edge("retry", ENDED, Phase.QUEUED, "its job runs again"),
    ],
    on_moves=_record,
)  # fmt: skip


def lock(id: UUID) -> Operation | None:
    """Lock and return an operation.

    An attempt locks its job and then its operation: in the other order, each would wait for the
    other.
    """
    jobs.Job.objects.select_for_update(no_key=True).filter(pk=id).first()
    rows = Operation.objects.select_for_update(of=("self",)).select_related("agent")
    return rows.filter(pk=id).first()
