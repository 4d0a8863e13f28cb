"""django-rq's own numbers work beside jobs that wait."""

from __future__ import annotations

import pytest
from django_rq.utils import get_statistics

import jobs
from jobs.engine import rq
from tests.specimens.handlers import Noop


@pytest.mark.django_db(transaction=True)
def test_its_statistics_leave_what_waits_alone() -> None:
    made = jobs.enqueue(Noop())
    rq.push("default", [made.id])
    try:
        assert {one["name"] for one in get_statistics()["queues"]} >= {"default"}
        assert made.id in rq.listed("default")
    finally:
        rq.client().delete(rq.queue_key("default"))
