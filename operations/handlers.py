"""Declares the jobs: sixteen kinds from the table, and four that serve them."""

from __future__ import annotations

from typing import Any

import jobs
from jobs.backoff import Fixed
from jobs.retention import Keep, sweeper
from operations import checking, endings, payloads, reads, retention, syncing, writes
from operations import following as following
from operations import metrics as metrics
from operations.config import settings
from operations.models.agent import PREFIX
from operations.services import syncs
from operations.table import OPERATIONS, Family
from operations.table import Operation as Spec

_RUN = {Family.WRITE: writes.run, Family.READ: reads.run, Family.SYNC: syncing.run}
_BY_FAMILY: dict[Family, dict[str, Any]] = {
    Family.WRITE: {
        "backoff": jobs.Delays(10, 30, 60, jitter="none"), "crash_limit": 4, "preempts": True,
        "replayable": False, "grace": 5,
    },
    Family.READ: {"backoff": Fixed(5, jitter="none"), "preempts": True, "grace": 5},
    Family.SYNC: {
        "backoff": jobs.Exponential(30, jitter="none"), "preemptible": True, "killable": True,
        "preemptions": 20,
    },
}  # fmt: skip


def _declare(spec: Spec) -> None:
    run: Any = _RUN[spec.family]

    def handle(ctx: jobs.Context, task: Any) -> jobs.types.Vouched:
        return jobs.types.Vouched(run(ctx, task))

    handle.__name__ = handle.__qualname__ = spec.type.replace("-", "_")
    payload = payloads.TASKS[spec.type]
    jobs.handler(
        payload, queue=spec.queue, max_attempts=spec.attempts, on_timeout="fail", internal=True,
        timeout=settings().timeout(spec.type), keep_completed=Keep(last=100),
        keep_failed=Keep(last=50), emits=True, own_keys=PREFIX,
        **_BY_FAMILY[spec.family],
    )(handle)  # fmt: skip
    jobs.ended(payload)(endings.close)


for _spec in OPERATIONS.values():
    _declare(_spec)


@jobs.handler(
    payloads.CheckTask, queue="erp-write", internal=True, preempts=True, max_attempts=20,
    backoff=Fixed(endings.EVERY), timeout=60, own_keys=PREFIX,
)  # fmt: skip
def check_write(ctx: jobs.Context, task: payloads.CheckTask) -> dict[str, Any]:
    """Ask the ERP about a write whose outcome is unknown."""
    return checking.check(ctx, task)


@jobs.handler(
    payloads.LoginTask, queue="erp-read", internal=True, preempts=True, max_attempts=1, timeout=45,
    on_timeout="fail", replayable=False, own_keys=PREFIX,
)  # fmt: skip
def test_login(ctx: jobs.Context, task: payloads.LoginTask) -> dict[str, Any]:
    """Test the login of an agent."""
    return checking.test_login(ctx, task)


jobs.ended(payloads.LoginTask)(checking.end_login_test)


@jobs.handler(payloads.ScheduleTask, queue="erp-sync", internal=True, max_attempts=1, timeout=20)
def schedule_syncs(ctx: jobs.Context, task: payloads.ScheduleTask) -> int:
    """Enqueue the syncs that are due."""
    return syncs.schedule()


jobs.schedule("operations-syncs", payloads.ScheduleTask(), interval=30, overlap="skip")
sweeper("operations")(retention.clear)
