"""Metrics of the app."""

from __future__ import annotations

from django.db.models import Count, Min

from jobs import metrics
from jobs.models import Breaker
from operations.clock import now
from operations.models import Agent, Login, Operation, Outcome, Phase, SyncRun
from operations.services.browsers import browsers_of
from operations.services.syncs import standings
from operations.table import OPERATIONS, Family
from operations.verify import MISMATCH

WRITES = [one.type for one in OPERATIONS.values() if one.family is Family.WRITE]


def _oldest() -> float:
    rows = Operation.objects.filter(type__in=WRITES, phase__in=[Phase.QUEUED, Phase.IN_PROGRESS])
    oldest = rows.aggregate(oldest=Min("created_at"))["oldest"]
    return (now() - oldest).total_seconds() if oldest else 0


def _waiting() -> dict[str, float]:
    rows = Operation.objects.filter(phase=Phase.QUEUED).order_by().values_list("type")
    return {type: float(count) for type, count in rows.annotate(Count("pk"))}


def _staleness() -> dict[str, float]:
    found: dict[str, float] = {}
    for one in standings(list(Agent.objects.filter(is_active=True))):
        if one.staleness is not None:
            found[one.type] = max(found.get(one.type, 0), one.staleness)
    return found


def _circuits() -> float:
    rows = Breaker.objects.filter(name__startswith="erp:").exclude(state="closed")
    return float(rows.count())


metrics.gauge(
    "operations_oldest_write_seconds", "Age of the oldest write that has not ended.", read=_oldest
)
metrics.gauge("operations_waiting", "Operations that wait, by type.", ["type"], read=_waiting)
metrics.gauge(
    "operations_in_doubt", "Writes whose outcome is unknown.",
    read=lambda: float(Operation.objects.filter(phase=Phase.IN_DOUBT).count()),
)  # fmt: skip
metrics.gauge(
    "operations_mismatches", "Writes of which the ERP has other values than were sent.",
    read=lambda: float(
        Operation.objects.filter(phase=Phase.ERP_SAVE_DONE, error_code=MISMATCH).count()
    ),
)  # fmt: skip
metrics.gauge(
    "operations_held_runs", "Sync runs whose deletions wait for a person.",
    read=lambda: float(SyncRun.objects.filter(outcome=Outcome.HELD).count()),
)  # fmt: skip
metrics.gauge(
    "operations_refused_logins", "Agents whose login is refused.",
    read=lambda: float(Agent.objects.filter(login=Login.REFUSED).count()),
)  # fmt: skip
metrics.gauge(
    "operations_sync_staleness", "Age of the stalest mirror through its target, by type.",
    ["type"], read=_staleness,
)  # fmt: skip
metrics.gauge(
    "operations_browser_contexts", "Contexts of browsers that agents use.",
    read=lambda: float(browsers_of(Operation.objects.all())[1]),
)  # fmt: skip
metrics.gauge(
    "operations_circuits_open", "Agents whose work waits for the ERP to answer again.",
    read=_circuits,
)  # fmt: skip
