"""The statements of the engine look rows up by id, whatever the planner takes the table for.

In a table of some thousand rows, none of which had an owner when it was analyzed, reading it
whole looks cheap; with a batch of many ids it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

import jobs
from jobs.engine import claims, dispatch
from jobs.engine.claims import Claim
from tests.jobs.factories import WORKER, an_executor, ended, settle, sql, succeed
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db

WAITING = 6000
BATCH = 100


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
def plans(request: pytest.FixtureRequest) -> None:
    sql("SELECT set_config('plan_cache_mode', %s, true)", [request.param])


@pytest.fixture
def running(plans: None) -> list[Claim]:
    """Jobs that run, while the planner knows only of waiting ones."""
    queue = "default"
    dispatch.know_queues({queue})
    jobs.enqueue_many([Noop() for _ in range(WAITING)])
    sql("ANALYZE jobs_job")
    admitted: list[UUID] = []
    while len(admitted) < 4 * BATCH:
        admitted += [job_id for job_id, _ in dispatch.admit(queue, BATCH)]
    owner = an_executor(queue)
    claimed: list[Claim] = []
    assert read(lambda: claimed.extend(claims.claim(queue, admitted, owner, WORKER))) < 6
    return claimed


def read(work: Callable[[], object]) -> float:
    """How many rows of the job table the work read, for each job of ``4 * BATCH``."""
    before = _rows_read()
    work()
    return (_rows_read() - before) / (4 * BATCH)


def _rows_read() -> int:
    [(rows,)] = sql(
        "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) "
        "FROM pg_stat_xact_user_tables WHERE relname = 'jobs_job'"
    )
    return int(rows)


def test_successes_read_their_own_rows(running: list[Claim]) -> None:
    assert read(lambda: succeed(*running)) < 6


def test_failures_read_their_own_rows(running: list[Claim]) -> None:
    assert read(lambda: settle(*[ended(claim) for claim in running])) < 6
