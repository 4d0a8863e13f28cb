"""What goes together in a few statements is what would have been done one by one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import jobs
from jobs import testing
from jobs.models import Batch, BulkItem
from jobs.operate import bulk, bulkacts, bulkrun
from tests.jobs.factories import row, sql, state
from tests.operate.test_bulk import WHO, dead, outcomes, run
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db

_JOBS = """
SELECT j.state, j.wait, j.rank IS NOT NULL, j.attempt, j.failures, j.crashes, j.releases,
  j.max_attempts, j.reason, j.expires_at, j.priority, j.tags, j.tenant, j.queue, j.flow,
  j.finished_at IS NULL, j.replay_of IS NULL, j.replayed_by IS NULL, j.lineage IS NULL,
  (SELECT jsonb_agg(h - 0) FROM jsonb_array_elements(j.history) h)
FROM jobs_job j WHERE j.kind <> 'jobs.bulk' ORDER BY j.id
"""
_LETTERS = """
SELECT state, closed_at IS NULL, (SELECT jsonb_agg(h - 0) FROM jsonb_array_elements(history) h)
FROM jobs_deadletter ORDER BY id
"""
_BATCHES = """
SELECT state, generation, total, succeeded, failed, cancelled, expired, finished_at IS NULL
FROM jobs_batch
"""


def everything() -> list[Any]:
    """All that the operation may have touched, but for ids and times."""
    return [sql(statement) for statement in (_JOBS, _LETTERS, _BATCHES)]


def a_batch_that_died() -> list[UUID]:
    """The members of a batch that is done, two of three failed."""
    with jobs.batch("import") as made:
        ids = [made.add(Noop(), priority=n, tags=["x"], tenant="").id for n in range(3)]
    with testing.fail_next(Noop, jobs.Unrecoverable("down"), times=2):
        testing.run_jobs()
    assert Batch.objects.get().state == "done"
    return [job_id for job_id in ids if state(job_id) == "failed"]


@pytest.mark.parametrize(
    ("action", "options"),
    [("retry", {}), ("retry", {"reset": True}), ("retry", {"attempts": 7}), ("replay", {})],
)
def test_together_is_as_one_by_one(
    action: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_by_one(*_: Any) -> dict[Any, Any]:
        return {}

    def found() -> list[Any]:
        failed = a_batch_that_died() + dead(2, tenant="acme", tags=["y"], priority=3)
        made = run(bulk.start(action, ids=failed, **WHO, **options))
        assert (made.done, made.state) == (4, "done")
        seen = everything()
        sql("SET CONSTRAINTS ALL IMMEDIATE")
        sql("TRUNCATE jobs_job, jobs_batch, jobs_bulk CASCADE")
        return seen

    together = found()
    calls = Mock(side_effect=getattr(bulkacts, action))
    monkeypatch.setattr(bulkacts, action, calls)
    monkeypatch.setattr(bulkacts, "_TOGETHER", {action: one_by_one})
    assert found() == together
    assert calls.call_count == 4


def test_a_batch_is_done_again_after_its_members_were_retried() -> None:
    made = run(bulk.start("retry", ids=a_batch_that_died(), **WHO))
    batch = Batch.objects.get()
    assert (made.done, batch.state, batch.failed, batch.generation) == (2, "sealed", 0, 2)
    testing.run_jobs()
    batch.refresh_from_db()
    assert (batch.state, batch.succeeded, batch.failed) == ("done", 3, 0)


@pytest.mark.parametrize("action", ["retry", "replay", "retry_letter", "discard_letter", "cancel"])
def test_more_jobs_need_no_more_statements(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def statements(count: int) -> int:
        if action == "cancel":
            ids: list[Any] = [jobs.enqueue(Noop()).id for _ in range(count)]
        else:
            ids = dead(count)
        if action.endswith("letter"):
            ids = list(
                jobs.types.DeadLetter.objects.filter(job__in=ids).values_list("id", flat=True)
            )
        made = bulk.start(action, ids=ids, **WHO)
        with CaptureQueriesContext(connection) as queries:
            bulkrun.step(made.id)
        assert run(made).done == count
        return len(queries)

    assert statements(12) == statements(2)


def test_of_two_with_one_unique_key_one_is_retried() -> None:
    first, second = (
        dead(1, unique=jobs.Unique("order-1", on_conflict="return"))[0] for _ in range(2)
    )
    plain = dead(1)[0]
    made = run(bulk.start("retry", ids=[first, second, plain], **WHO))
    found = {job_id: word for job_id, (word, _) in outcomes(made).items()}
    assert found == {first: "done", second: "skipped", plain: "done"}
    assert str(first) in outcomes(made)[second][1]


@pytest.mark.parametrize("action", ["retry", "replay"])
def test_beside_an_unfinished_replay_nothing_begins(action: str) -> None:
    [failed] = dead()
    jobs.replay(failed, by="ann")
    made = run(bulk.start(action, ids=[failed], **WHO))
    word, detail = outcomes(made)[failed]
    assert (word, detail) == ("skipped", "was replayed: its replay stands for it")


def test_a_key_for_a_while_goes_to_the_replay() -> None:
    unique = jobs.Unique("order-1", for_=timedelta(hours=1))
    [failed] = dead(1, unique=unique)
    run(bulk.start("replay", ids=[failed], **WHO))
    new = BulkItem.objects.get().result
    assert sql("SELECT job_id FROM jobs_key") == [(new,)]
    assert jobs.enqueue(Noop(), unique=unique).id == new


def an_effect(job_id: UUID, of: str) -> None:
    sql(
        "INSERT INTO jobs_effect (job_id, key, state, token, attempt, settled_at, outcome) VALUES "
        "(%s, 'send', %s, gen_random_uuid(), 1, CASE WHEN %s = 'done' THEN jobs_clock() END, "
        "CASE WHEN %s = 'done' THEN '7'::jsonb END)",
        [job_id, of, of, of],
    )


def test_what_has_happened_is_carried_over_and_a_doubt_stands_in_the_way() -> None:
    sent, doubtful, plain = dead(3)
    an_effect(sent, "done")
    an_effect(doubtful, "in_doubt")
    made = run(bulk.start("replay", ids=[sent, doubtful, plain], **WHO))
    found = outcomes(made)
    assert [found[job_id][0] for job_id in (sent, doubtful, plain)] == ["done", "skipped", "done"]
    assert "in doubt" in found[doubtful][1]
    new = row(sent).replayed_by
    assert sql("SELECT state, outcome FROM jobs_effect WHERE job_id = %s", [new]) == [("done", "7")]


def test_a_payload_that_is_no_longer_valid_fails_alone() -> None:
    good, bad = dead(2)
    sql("UPDATE jobs_job SET payload = '{\"nothing\": [1]}' WHERE id = %s", [bad])
    made = run(bulk.start("replay", ids=[good, bad], **WHO))
    assert {i: word for i, (word, _) in outcomes(made).items()} == {good: "done", bad: "failed"}


def test_one_that_was_decided_upon_meanwhile_is_passed_by() -> None:
    first, second = dead(2)
    letters = list(jobs.types.DeadLetter.objects.order_by("id").values_list("id", flat=True))
    made = bulk.start("retry_letter", ids=letters, **WHO)
    sql(
        "UPDATE jobs_deadletter SET state = 'discarded', closed_at = jobs_clock() WHERE id = %s",
        [letters[0]],
    )
    run(made)
    assert outcomes(made)[first] == ("skipped", "has no open dead letter")
    assert (state(first), state(second)) == ("failed", "pending")


def test_a_cause_keeps_its_count_and_has_nothing_open() -> None:
    from jobs.operate import causes

    dead(3)
    [cause] = causes.every(by="ann")
    made = causes.retry_all(cause.fingerprint, by="ann", reason="back")
    assert run(made).done == 3
    found = causes.find(cause.fingerprint, by="ann")
    assert (found.count, found.open) == (3, 0)
