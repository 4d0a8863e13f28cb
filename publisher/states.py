"""The moves of a publication's status: no other code writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jobs
from jobs.machines import Edge, Moved, machine
from publisher.models import Publication, PublicationEvent

Status = Publication.Status
_TOPICS = {
    Status.COMPLETED: "publisher.publication.completed",
    Status.FAILED: "publisher.publication.failed",
}
_SHOWN = ("attempts", "reason", "error", "remote_id")


def _record(moves: Sequence[Moved]) -> None:
    """Add the moves to the history and publish the ends, in the same transaction."""
    PublicationEvent.objects.bulk_create(
        PublicationEvent(publication_id=moved.pk, type=moved.to, by=moved.by, detail=_detail(moved))
        for moved in moves
    )
    for moved in moves:
        topic = _TOPICS.get(Status(moved.to))
        if moved.source == Status.FAILED:
            topic = "publisher.publication.replayed"
        if topic is not None:
            row: Any = moved.instance or Publication.objects.get(pk=moved.pk)
            reason = str(moved.fields.get("reason", ""))
            if reason == Publication.Reason.IN_DOUBT:
                topic = "publisher.publication.in_doubt"
            payload = {"publication": str(moved.pk), **({"reason": reason} if reason else {})}
            jobs.emit(topic, payload, key=f"publication:{moved.pk}", tenant=row.tenant)


def _detail(moved: Moved) -> dict[str, Any]:
    found = {name: moved.fields[name] for name in _SHOWN if moved.fields.get(name)}
    return {**found, **({"why": moved.why} if moved.why else {})}


publication = machine(
    Publication,
    "status",
    [
        Edge("start", Status.PENDING, Status.RUNNING, "a worker runs its job"),
        Edge("complete", Status.RUNNING, Status.COMPLETED, "it has appeared"),
        Edge("retry", Status.RUNNING, Status.PENDING, "it will be tried again"),
        Edge("fail", [Status.RUNNING, Status.PENDING], Status.FAILED, "it will not be tried again"),
        Edge("replay", Status.FAILED, Status.PENDING, "a person asks for it"),
    ],
    on_moves=_record,
)
