"""What goes along with a job, and what holds it."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from jobs.engine import retention
from jobs.ids import uuid7
from jobs.models import Attempt, Batch, DeadLetter, Dependency, Effect, Job
from tests.jobs.factories import (
    a_job,
    claim_again,
    ended,
    settle,
    sql,
)
from tests.jobs.retention.sweeping import DAY, START, SetClock, an_open_letter, left, sweep
from tests.specimens.handlers import Fail

pytestmark = pytest.mark.django_db


def test_what_hangs_on_a_job_goes_with_it(clock: SetClock) -> None:
    claim = claim_again(a_job("queued", Fail(), max_attempts=1))
    settle(ended(claim))
    DeadLetter.objects.update(state="discarded", closed_at=START)
    Effect.objects.create(job_id=claim.id, key="k", state="done", token=uuid7(), attempt=1)
    child = a_job("cancelled")
    Dependency.objects.create(parent_id=claim.id, child_id=child, done=True)
    clock(START + 91 * DAY)
    assert sweep() == {
        "jobs": 2, "attempts": 1, "deadletters": 1, "effects": 1, "dependencies": 1,
        "causes": 1, "causes seen": 1,
    }  # fmt: skip
    for model in (Job, Attempt, DeadLetter, Effect, Dependency):
        assert not model._default_manager.exists()


def a_doubt(mine: UUID) -> None:
    Effect.objects.create(job_id=mine, key="k", state="in_doubt", token=uuid7(), attempt=1)


def an_intent(mine: UUID) -> None:
    Effect.objects.create(job_id=mine, key="k", state="intent", token=uuid7(), attempt=1)


def an_open_batch(mine: UUID) -> None:
    batch = Batch.objects.create()
    sql("UPDATE jobs_job SET batch_id = %s WHERE id = %s", [batch.pk, mine])


def a_sealed_batch(mine: UUID) -> None:
    batch = Batch.objects.create(state="sealed", total=2, sealed_at=START)
    sql("UPDATE jobs_job SET batch_id = %s WHERE id = %s", [batch.pk, mine])


def a_blocked_child(mine: UUID) -> None:
    Dependency.objects.create(parent_id=mine, child_id=a_job("blocked"), policy="wait")


def a_running_child(mine: UUID) -> None:
    Dependency.objects.create(parent_id=mine, child_id=a_job("running"), done=True)


def release(mine: UUID) -> None:
    sql("UPDATE jobs_deadletter SET state = 'discarded', closed_at = jobs_clock()")
    sql("UPDATE jobs_effect SET state = 'done'")
    sql("UPDATE jobs_batch SET state = 'done', total = 1, sealed_at = jobs_clock()")
    sql("DELETE FROM jobs_dependency")


HOLDS = [
    an_open_letter,
    a_doubt,
    an_intent,
    an_open_batch,
    a_sealed_batch,
    a_blocked_child,
    a_running_child,
]


@pytest.mark.parametrize("hold", HOLDS)
def test_a_job_that_is_still_needed_stays(hold: Callable[[UUID], None], clock: SetClock) -> None:
    mine, other = a_job("failed"), a_job("failed")
    hold(mine)
    clock(START + 1000 * DAY)
    assert sweep(dry_run=True)["jobs"] == 1
    assert sweep()["jobs"] == 1
    assert mine in left() and other not in left()
    release(mine)
    assert sweep()["jobs"] == 1
    assert mine not in left()


def test_held_jobs_at_the_head_do_not_hide_the_rest(
    clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PAGE", 3)
    held = {a_job("failed") for _ in range(7)}
    for mine in held:
        an_open_letter(mine)
    for _ in range(7):
        a_job("failed")
    clock(START + 100 * DAY)
    assert sweep(chunk=2)["jobs"] == 7
    assert left() == held
