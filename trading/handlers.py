"""The handlers, end callbacks, schedules and sweepers of the app."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, TypeVar

from django.db import transaction

import jobs
from jobs import events as outbox
from jobs.retention import sweeper
from trading import (
    digesting,
    erasing,
    importing,
    metrics,
    planning,
    retention,
    scoring,
    simulating,
    states,
)
from trading.clock import now
from trading.config import settings
from trading.models import ImportRun, ScoreRun, Simulation
from trading.payloads import (
    DigestJob,
    EraseSnapshots,
    ImportJob,
    PlanDigests,
    PlanImports,
    ScoreJob,
    SimJob,
)

P = TypeVar("P", bound=jobs.Payload)
Run = Callable[[jobs.Context, P], Any]


def measured(run: Run[P]) -> Run[P]:
    """Measure how long attempts take; a job that only waits has not failed."""

    @wraps(run)
    def wrapped(ctx: jobs.Context, payload: P) -> Any:
        began, status = time.monotonic(), "ok"
        try:
            return jobs.types.Vouched(run(ctx, payload))
        except (jobs.Snooze, jobs.Stopped, jobs.flow.MeterFull, jobs.flow.CircuitOpen):
            raise
        except Exception:
            status = "err"
            raise
        finally:
            metrics.durations.observe(
                (time.monotonic() - began) * 1000, job=ctx.kind, status=status
            )

    return wrapped


_FIXED: dict[str, Any] = {"internal": True, "replayable": False}
jobs.handler(
    ImportJob, queue="q_import", max_attempts=5, backoff=jobs.Exponential(1, 2, 60), timeout=180,
    concurrency=settings().WORKER_CONCURRENCY_IMPORT, own_keys="trading:import:", **_FIXED,
)(measured(importing.run))  # fmt: skip
jobs.handler(
    ScoreJob, queue="q_score", max_attempts=3, backoff=jobs.Exponential(1), timeout=180,
    concurrency=settings().WORKER_CONCURRENCY_SCORE, own_keys="trading:score:", **_FIXED,
)(measured(scoring.run))  # fmt: skip
jobs.handler(
    SimJob, queue="q_sim", max_attempts=3, backoff=jobs.Delays(1, 5, jitter="none"), timeout=60,
    dead_letter=False, concurrency=settings().WORKER_CONCURRENCY_SIM, **_FIXED,
)(measured(simulating.run))  # fmt: skip
jobs.handler(
    DigestJob, queue="q_digest", max_attempts=3, backoff=jobs.Exponential(1), timeout=120,
    concurrency=settings().WORKER_CONCURRENCY_DIGEST, own_keys="trading:snapshots:", **_FIXED,
)(measured(digesting.run))  # fmt: skip
jobs.handler(
    EraseSnapshots, queue="q_digest", max_attempts=20, backoff=jobs.Exponential(1, 2, 600),
    timeout=120, own_keys="trading:snapshots:", **_FIXED,
)(erasing.run)  # fmt: skip
jobs.handler(PlanImports, queue="q_import", timeout=120, **_FIXED)(planning.plan_imports)
jobs.handler(PlanDigests, queue="q_digest", timeout=120, **_FIXED)(planning.plan_digests)

jobs.schedule("trading-imports", PlanImports(), cron="15 1 * * *", overlap="skip")
jobs.schedule("trading-digests", PlanDigests(), cron="0 5 * * MON", overlap="skip")


@jobs.ended(ImportJob)
def close_import(ended: jobs.types.Ended) -> None:
    """Close an import whose job has ended without it."""
    with transaction.atomic():
        row = ImportRun.objects.select_for_update(no_key=True).filter(pk=ended.id).first()
        if row is not None and row.state in states.IMPORT_OPEN:
            error = row.error or "STOPPED"
            states.imports.move(row, "FAILED", by="jobs", error=error, ended_at=now())


@jobs.ended(ScoreJob)
def close_score(ended: jobs.types.Ended) -> None:
    """Close a scoring whose job has ended without it."""
    with transaction.atomic():
        row = ScoreRun.objects.select_for_update(no_key=True).filter(pk=ended.id).first()
        if row is not None and row.state in states.SCORE_OPEN:
            error = row.error or "STOPPED"
            states.scores.move(row, "FAILED", by="jobs", error=error, ended_at=now())


@jobs.ended(SimJob)
def close_simulation(ended: jobs.types.Ended) -> None:
    """Note that no comparison is being computed any more."""
    Simulation.objects.filter(job_id=ended.id, error="").update(error="STOPPED")


@outbox.subscriber("coach.reflect")
def measure_reflection(event: jobs.events.Event) -> None:
    """Measure how long a label took to the feed."""
    waited: timedelta = now() - event.occurred_at
    metrics.reflections.observe(max(0.0, waited.total_seconds()))


sweeper("trading")(retention.clear)
