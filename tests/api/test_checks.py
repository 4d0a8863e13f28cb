"""Set-ups of the API that are said to be risky, and answers that do not stay for ever."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from jobs.engine import retention
from jobs.models import Answer
from tests.api.conftest import Caller
from tests.jobs import factories


def test_a_cache_of_each_process_apart_is_a_warning(settings: Any) -> None:
    settings.DEBUG = False

    def found() -> set[str | None]:
        return {message.id for message in run_checks(tags=["jobs"], include_deployment_checks=True)}

    assert "jobs.W050" in found()
    shared = "django.core.cache.backends.db.DatabaseCache"
    with override_settings(CACHES={"default": {"BACKEND": shared, "LOCATION": "c"}}):
        assert "jobs.W050" not in found()


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
