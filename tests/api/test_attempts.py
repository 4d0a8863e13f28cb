"""Attempts in answers: what is shown of them, and nothing else is read."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import jobs
from jobs.models import Attempt
from tests.api.conftest import Caller
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


def test_a_list_reads_the_last_attempts_of_all_jobs_at_once(acme: Caller) -> None:
    made = [jobs.enqueue(Noop(), tenant="acme").id for _ in range(3)]
    Attempt.objects.bulk_create(
        Attempt(
            job_id=job, number=number, outcome="failed", message=f"{number}", worker="w1",
            traceback="x" * 1000, lines="y" * 1000, ended_at=timezone.now(),
        )
        for job in made
        for number in range(1, 13)
    )  # fmt: skip
    acme("GET", "/jobs")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        found = acme("GET", "/jobs?include=attempts").data["data"]
    assert [[one["number"] for one in job["attempts"]] for job in found] == [[8, 9, 10, 11, 12]] * 3
    [read] = [one["sql"] for one in queries if '"jobs_attempt"' in one["sql"]]
    assert "traceback" not in read and "lines" not in read
    [one] = [acme("GET", f"/jobs/{made[0]}?include=attempts").data]
    assert len(one["attempts"]) == 12 and "traceback" not in one["attempts"][0]
