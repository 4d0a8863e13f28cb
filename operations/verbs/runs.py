"""Verbs on runs of syncs."""

from __future__ import annotations

from uuid import UUID

from jobs.verbs import By, verb
from operations import mirror
from operations.acting import acting
from operations.errors import Refused
from operations.models import MIRROR, Outcome, SyncRun
from operations.verbs.declared import DECIDE_DELETIONS, RUN


def _held(id: UUID) -> SyncRun:
    found = SyncRun.objects.select_for_update().filter(pk=id).first()
    if found is None:
        raise Refused(404, "not-found", "there is no such sync run")
    if found.outcome != Outcome.HELD:
        raise Refused(409, "conflict", f"it is {found.outcome}")
    return found


def _tenant_of(id: UUID) -> str:
    tenant = SyncRun.objects.filter(pk=id).values_list("tenant", flat=True).first()
    if tenant is None:
        raise Refused(404, "not-found", "there is no such sync run")
    return tenant


@verb("syncrun.allow", on=RUN, permission=DECIDE_DELETIONS)
def allow(run_id: UUID, *, by: By, reason: str) -> int:
    """Delete exactly the rows whose deletion was held; return how many."""
    with acting(
        allow, run_id, tenant=_tenant_of(run_id), queue="erp-sync", by=by, reason=reason
    ) as act:
        run = _held(run_id)
        model = MIRROR[run.type]
        rows = model.objects.filter(
            agent_id=run.agent_id, key__in=run.held, changed_at__lte=run.ended_at
        )
        count = mirror.remove(model, run.agent_id, list(rows.values_list("key", flat=True)))
        run.outcome, run.deleted = Outcome.ALLOWED, run.deleted + count
        run.save(update_fields=["outcome", "deleted"])
        act.note(count=count)
        return count


@verb("syncrun.reject", on=RUN, permission=DECIDE_DELETIONS)
def reject(run_id: UUID, *, by: By, reason: str) -> None:
    """Keep the rows whose deletion was held."""
    with acting(reject, run_id, tenant=_tenant_of(run_id), queue="erp-sync", by=by, reason=reason):
        run = _held(run_id)
        run.outcome = Outcome.REJECTED
        run.save(update_fields=["outcome"])
