"""Erasing all data of a user: the rows at once, the snapshots by a job that is tried again."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

import jobs
from jobs import blobs
from trading.models import (
    BrokerConnection,
    Digest,
    ImportRun,
    Insight,
    Rule,
    RuleBreak,
    ScoreRun,
    Simulation,
    Trade,
)
from trading.payloads import (
    DigestJob,
    EraseSnapshots,
    ImportJob,
    ScoreJob,
    SimJob,
    snapshots_of,
    tenant_of,
)

_MODELS: tuple[Any, ...] = (
    RuleBreak, Insight, Rule, Digest, Simulation, Trade, ImportRun, ScoreRun, BrokerConnection,
)  # fmt: skip


def erase(user: int) -> dict[str, Any]:
    """Delete everything that the app keeps about a user, in the caller's transaction.

    What runs meanwhile waits for it at its fence, and writes nothing then.
    """
    _cancel_jobs(user)
    counted = {}
    for model in _MODELS:
        gone, _ = model.objects.filter(user_id=user).delete()
        counted[model.__name__] = gone
    # A digest that runs, and may have just written its snapshot, holds the same exclusive key.
    jobs.enqueue(EraseSnapshots(userId=user), tenant=tenant_of(user), exclusive=snapshots_of(user))
    return counted


def _cancel_jobs(user: int) -> None:
    kinds = [payload.kind for payload in (ImportJob, ScoreJob, SimJob, DigestJob)]
    unfinished = jobs.Job.objects.filter(
        tenant=tenant_of(user), kind__in=kinds, finished_at__isnull=True
    )
    seen: set[UUID] = set()
    while found := set(unfinished.values_list("pk", flat=True)) - seen:
        seen |= found
        for job_id in sorted(found):
            with suppress(jobs.errors.NotAllowed, jobs.errors.UnknownJob):  # it has just ended
                jobs.cancel(job_id, by="trading", reason="the user's data is deleted")


def run(ctx: jobs.Context, payload: EraseSnapshots) -> dict[str, Any]:
    """Delete the snapshots that no digest of the user names; newer digests keep theirs."""
    if ctx.tenant != tenant_of(payload.userId):
        raise jobs.Unrecoverable("NOT_YOURS")
    store, count = blobs.store(), 0
    kept = set(Digest.objects.filter(user_id=payload.userId).values_list("storage_key", flat=True))
    for blob in list(store.list(f"digests/{payload.userId}/")):
        ctx.checkpoint()
        if blob.key not in kept:
            store.delete(blob.key)
            count += 1
    return {"snapshots": count}
