"""How the pipeline does, for owners and operators."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Avg, Count, F, Q
from django.http import HttpRequest
from django.utils import timezone
from ninja import Query

from fileproc import embedding, schemas, states, upkeep
from fileproc.api.base import Owned, find_file, name_of, on
from fileproc.clock import now
from fileproc.errors import Refused
from fileproc.login import owner_of
from fileproc.models import Batch, BatchStatus, File, FileStatus
from fileproc.services import quotas
from fileproc.verbs import CHANGE_FILE, VIEW_FILE
from jobs import sandbox
from jobs.api import auth
from jobs.models import DeadLetter


def _distribution(owner: str) -> dict[str, int]:
    rows = File.objects.shown().filter(owner=owner).values("status").annotate(n=Count("pk"))
    counted = {row["status"]: row["n"] for row in rows}
    return {state: counted.get(state, 0) for state in FileStatus.values}


@on("GET", "/health", "upload_health", VIEW_FILE, schemas.HealthOut)
def health(request: HttpRequest, asked: Query[Owned]) -> Any:
    """Tell the states of files, the moves between them, and how many files are where."""
    ways = {state: sorted(states.files.ways(state)) for state in FileStatus.values}
    return {
        "version": "2", "timestamp": now(), "states": FileStatus.values, "transitions": ways,
        "distribution": _distribution(owner_of(request, asked.owner)),
        "search": "hybrid" if embedding.model() else "text", "isolation": sandbox.isolation(),
    }  # fmt: skip


@on("GET", "/dashboard", "upload_dashboard", VIEW_FILE, schemas.DashboardOut)
def dashboard(request: HttpRequest, asked: Query[Owned]) -> Any:
    """Tell how the owner's files come through."""
    owner = owner_of(request, asked.owner)
    rows = File.objects.shown().filter(owner=owner)
    day = rows.filter(ended_at__gt=timezone.now() - timedelta(days=1))
    numbers = day.aggregate(
        ready=Count("pk", filter=Q(status="ready")), failed=Count("pk", filter=Q(status="failed")),
        took=Avg(F("ended_at") - F("confirmed_at"), filter=Q(status="ready")),
    )  # fmt: skip
    errors = rows.filter(status="failed").order_by("-ended_at")[:10]
    ended = numbers["ready"] + numbers["failed"]
    letters = DeadLetter.objects.filter(state="open", tenant=owner, kind__startswith="fileproc.")
    open_now = [BatchStatus.PENDING_UPLOAD, BatchStatus.ACTIVE]
    used = quotas.usage(owner)
    return {
        "statusDistribution": _distribution(owner),
        "activeBatches": Batch.objects.filter(owner=owner, status__in=open_now).count(),
        "dlqDepth": letters.count(), "stuckFiles": upkeep.stuck().filter(owner=owner).count(),
        "bytesUsed": used.bytes_used,
        "quota": {
            "bytesUsed": used.bytes_used, "bytesLimit": used.bytes_limit,
            "openBatches": used.open_batches, "openBatchesLimit": used.batches_limit,
        },
        "recentErrors": [{"fileId": str(f.pk), "error": f.error_code} for f in errors],
        "metrics": {
            "averageProcessingTime": numbers["took"] and numbers["took"].total_seconds(),
            "throughput24h": numbers["ready"],
            "failureRate24h": round(numbers["failed"] / ended, 4) if ended else 0,
        },
    }  # fmt: skip


@on("GET", "/stuck", "upload_stuck", VIEW_FILE, schemas.StuckPage)
def stuck(request: HttpRequest, asked: Query[Owned]) -> Any:
    """List files that have not moved for half an hour, though nothing holds them back."""
    rows = upkeep.stuck().filter(owner=owner_of(request, asked.owner)).order_by("moved_at")[:200]
    return {"data": [{"fileId": f.pk, "batchId": f.batch_id, "status": f.status,
                      "since": f.moved_at} for f in rows]}  # fmt: skip


@on("POST", "/stuck/{uuid:file_id}/retry", "upload_stuck_retry", CHANGE_FILE, schemas.SuccessOut)
def stuck_retry(request: HttpRequest, file_id: UUID, asked: Query[Owned]) -> Any:
    """Give a stuck file new jobs."""
    file = find_file(request, file_id, asked.owner)
    if not upkeep.restart(file.pk, file.batch_id, by=name_of(request)):
        raise Refused("STATE_CONFLICT", "it is not stuck")
    return {"success": True}


@on("GET", "/orphans", "upload_orphans", VIEW_FILE, schemas.OrphansOut)
def orphans(request: HttpRequest) -> Any:
    """List blobs without a file, and files without their blob; for keys of all tenants."""
    if auth.who(request).scope.tenants is not None:
        raise Refused("FORBIDDEN", "only a key of all tenants may see what belongs to nobody")
    found = upkeep.orphans()
    return {
        "blobs": [{"key": one.key, "size": one.size, "writtenAt": one.written_at}
                  for one in found.blobs[:200]],
        "files": found.files[:200],
    }  # fmt: skip
