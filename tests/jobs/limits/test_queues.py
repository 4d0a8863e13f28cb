"""Queues that an app declares have its limits, unless the project says other ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import jobs
from jobs import queues
from jobs.engine.admission import sync_limits
from jobs.engine.flow import Flow
from jobs.errors import HandlerError
from jobs.limits import Limit
from tests.jobs.factories import sql
from tests.jobs.limits.kinds import A, Declare, end, fed, limiters

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def publisher() -> Iterator[str]:
    yield jobs.queue("publisher", at_once=2)
    queues.forget("publisher")


def test_a_declared_queue_has_its_row() -> None:
    sync_limits()
    assert limiters() == {"queue:publisher": (2, None, 1.0, True)}


def test_the_project_overrides_it(settings: Any) -> None:
    settings.JOBS = {"QUEUES": {"publisher": Limit(rate="5/s"), "mail": Limit(at_once=1)}}
    sync_limits()
    assert limiters() == {
        "queue:publisher": (None, 5.0, 1.0, True),
        "queue:mail": (1, None, 1.0, True),
    }


def test_jobs_of_the_queue_keep_to_it(declare: Declare, publisher: str) -> None:
    declare(A, queue=publisher)
    sync_limits()
    ids = [jobs.enqueue(A()).id for _ in range(3)]
    assert {flow for (flow,) in sql("SELECT flow FROM jobs_job")} == {int(Flow.LIMITED)}
    assert len(fed(queue=publisher)) == 2 and fed(queue=publisher) == []
    end(ids[0])
    assert fed(queue=publisher) == [ids[2]]


def test_the_same_twice_is_the_same() -> None:
    assert jobs.queue("publisher", at_once=2) == "publisher"
    with pytest.raises(HandlerError, match="declared with other limits"):
        jobs.queue("publisher", at_once=3)


@pytest.mark.parametrize(
    ("name", "limits"), [("a b", {"at_once": 1}), ("q", {}), ("q", {"at_once": 0})]
)
def test_what_makes_no_sense_is_refused(name: str, limits: dict[str, Any]) -> None:
    with pytest.raises(HandlerError):
        jobs.queue(name, **limits)
