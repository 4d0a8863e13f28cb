"""Answers that are kept do not stay for ever."""

from __future__ import annotations

import pytest

from jobs.engine import retention
from jobs.models import Answer
from tests.api.conftest import Caller
from tests.jobs import factories


@pytest.mark.django_db
def test_kept_answers_go_after_a_day() -> None:
    root = Caller()
    for key in ("old", "new"):
        root("POST", "/batches", {}, Idempotency_Key=key)
    factories.sql(
        "UPDATE jobs_api_answer SET created_at = created_at - interval '25 h' WHERE key = 'old'"
    )
    for _ in retention.sweep():
        pass
    assert list(Answer.objects.values_list("key", flat=True)) == ["new"]
