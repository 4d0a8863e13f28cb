"""A paced bulk operation on the real clock: even, and stopped within a second."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs.models import BulkItem
from jobs.operate import bulk, bulkrun
from jobs.operate.bulk import Care
from tests.jobs.factories import a_claim, ended, settle

PER_MINUTE = 600


@pytest.fixture
def letters(transactional_db: None, request: pytest.FixtureRequest) -> list[int]:
    for _ in range(request.param):
        settle(ended(a_claim(), "unrecoverable"))
    return list(jobs.types.DeadLetter.objects.values_list("id", flat=True))


def carry(bulk_id: UUID, until: Any) -> None:
    """Steps, as the platform's job makes them, until something is true or all is over."""
    while not until() and (wait := bulkrun.step(bulk_id)) is not None:
        time.sleep(max(wait, 0.5) if wait else 0)


@pytest.mark.slow
@pytest.mark.parametrize("letters", [100], indirect=True)
def test_dead_letters_are_replayed_at_their_pace(letters: list[int]) -> None:
    care = Care(per_minute=PER_MINUTE)
    made = bulk.start("replay_letter", ids=letters, by="ann", reason="back", care=care)
    carry(made.id, lambda: False)
    times = list(BulkItem.objects.order_by("decided_at").values_list("decided_at", flat=True))
    took = (times[-1] - times[0]).total_seconds()  # type: ignore[operator]
    assert len(times) == 100
    assert 0.5 * PER_MINUTE < 99 / took * 60 < 1.05 * PER_MINUTE


@pytest.mark.slow
@pytest.mark.parametrize("letters", [60], indirect=True)
def test_an_abort_holds_within_a_second(letters: list[int]) -> None:
    care = Care(per_minute=PER_MINUTE)
    made = bulk.start("replay_letter", ids=letters, by="ann", reason="back", care=care)
    carry(made.id, lambda: bulk.find(made.id, by="ann").done >= 15)
    before = bulk.find(made.id, by="ann").done
    bulk.abort(made.id, by="ann", reason="not yet")
    carry(made.id, lambda: False)
    found = bulk.find(made.id, by="ann")
    assert found.state == "aborted" and found.done <= before + PER_MINUTE // 60
    assert jobs.types.DeadLetter.objects.filter(state="open").count() == 60 - found.done
