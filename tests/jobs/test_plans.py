"""The statements of the engine look rows up by id, whatever the planner takes the table for.

In a table of some thousand rows, none of which had an owner when it was analyzed, reading it
whole looks cheap; with a batch of many ids it is not. So the functions forbid it, and need an
index for everything they read: a scan that is forbidden and made all the same seems to cost so
much to PostgreSQL before 18 that it compiles the statement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs.engine import claims, dispatch
from jobs.engine.admission import sync_limits
from jobs.engine.claims import Claim
from jobs.operate import pauses
from tests.integration.mix import enqueue_everything
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
        admitted += dispatch.admit(queue, BATCH)
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


def tables_read_whole(work: Callable[[], object]) -> set[str]:
    """Return the tables that the work read from their beginning to their end."""
    before = dict(sql(_SCANS))
    work()
    return {name for name, scans in sql(_SCANS) if scans > before.get(name, 0)}


_SCANS = "SELECT relname, seq_scan FROM pg_stat_xact_user_tables"


def test_functions_that_forbid_scans_need_none(plans: None, tmp_path: Path) -> None:
    queue = "default"
    dispatch.know_queues({queue})
    sync_limits()
    owner = an_executor(queue)
    enqueue_everything(str(tmp_path))
    for scope in ("key:k1", "kind:test.echo"):
        pauses.pause(scope, by="somebody", reason="something that is closed")
    found: dict[str, set[str]] = defaultdict(set)
    sql("DISCARD PLANS")  # those that were made where scans are allowed

    def note(name: str, work: Callable[[], Iterable[Any]]) -> list[Any]:
        answer: list[Any] = []
        found[name] |= tables_read_whole(lambda: answer.extend(work()))
        return answer

    rounds = 0
    while admitted := note("dispatch", partial(dispatch.admit, queue, 20)):
        claimed = note("claim", partial(claims.claim, queue, admitted, owner, WORKER))
        if claimed:  # on a slow machine the last ones may have expired
            settle(ended(claimed.pop(), "snoozed", floor=60))
        note("succeed", partial(succeed, *claimed))
        note("promote", lambda: [dispatch.promote()])
        note("relay", lambda: sql("SELECT jobs_relay(20)"))
        rounds += 1
    note("next round", lambda: sql("SELECT jobs_next_round(%s)", [["key:test.limited"]]))
    assert rounds > 5, "the jobs came in portions"
    assert found == {name: set() for name in found}


def test_functions_that_forbid_scans_are_not_compiled() -> None:
    forbidding = """
      SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
        AND EXISTS (SELECT 1 FROM unnest(proconfig) AS c WHERE c LIKE 'enable%%=off')"""
    assert len(sql(forbidding)) > 5
    assert sql(forbidding + " AND NOT 'jit=off' = ANY (proconfig)") == []
