"""What the admin shows of others' rows, and of what the API hides: nothing."""

from __future__ import annotations

from datetime import time
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

import jobs
from jobs.models import Batch, Effect, Job
from jobs.operate import blackouts
from jobs.principals import Scope
from tests.admin.test_viewers import addresses
from tests.browser.filling import fill
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
SCOPES = {
    "rival": Scope(tenants=frozenset({"rival"})),
    "reports": Scope(queues=frozenset({"reports"})),
}


def scope_of(user: Any) -> Scope:
    return SCOPES.get(user.username, Scope())


@pytest.fixture
def log_in(client: Client, settings: Any) -> Any:
    settings.JOBS = {**settings.JOBS, "SCOPE": "tests.admin.test_scope.scope_of"}

    def log_in(name: str, *, without: str = "") -> Client:
        user, _ = User.objects.get_or_create(username=name, is_staff=True)
        rights = Permission.objects.filter(codename__startswith="view_").exclude(codename=without)
        user.user_permissions.set(rights)
        client.force_login(user)
        return client

    return log_in


def test_no_page_of_a_row_out_of_scope_is_found(log_in: Any) -> None:
    ids = fill()
    visitor = log_in("rival")
    rows = {
        ("job", ids["job"]), ("batch", ids["batch"]), ("deadletter", ids["letter"]),
        ("schedule", ids["schedule"]), ("outbox", ids["event"]),
    }  # fmt: skip
    places = {("jobs", model, quote(str(key))) for model, key in rows}
    asked = [url for url in addresses(ids) if tuple(url.split("/")[2:5]) in places]
    assert sum("/history/" in url for url in asked) == len(rows)
    assert [url for url in asked if visitor.get(url).status_code == 200] == []


def test_without_view_payload_a_call_and_a_note_are_not_shown(log_in: Any) -> None:
    job = jobs.enqueue(Noop())
    Job.objects.filter(pk=job.id).update(progress={"done": 3, "total": 9, "note": "secret-note"})
    call = Effect.objects.create(
        job_id=job.id, key="k", state="done", token=job.id, attempt=1,
        request={"to": "secret-call"}, outcome={"ok": "secret-answer"},
    )  # fmt: skip
    pages = [
        reverse("admin:jobs_job_change", args=[job.id]),
        reverse("admin:jobs_effect_change", args=[call.pk]),
    ]
    shown = "".join(log_in("ada").get(page).content.decode() for page in pages)
    assert all(word in shown for word in ("secret-note", "secret-call", "secret-answer"))
    hidden = "".join(
        log_in("ben", without="view_payload").get(page).content.decode() for page in pages
    )
    assert "secret-" not in hidden and "view_payload" in hidden


def test_windows_of_others_are_not_shown(log_in: Any) -> None:
    for scope in ("queue:reports", "queue:other", "tenant:rival", "tenant:acme", "kind:test.noop"):
        blackouts.create(scope, start=time(22), end=time(6), by="ada", reason=f"because {scope}")
    page = reverse("admin:jobs_blackout_changelist")
    seen = {name: log_in(name).get(page).content.decode() for name in SCOPES}
    assert "because tenant:rival" in seen["rival"] and "because queue:reports" in seen["reports"]
    assert seen["rival"].count("because ") == seen["reports"].count("because ") == 1


def test_a_batch_of_other_queues_shows_no_numbers(log_in: Any) -> None:
    with jobs.batch("weekly") as made:
        jobs.enqueue(Noop(), queue="reports", batch=made.id)
        for _ in range(76):
            jobs.enqueue(Noop(), queue="other", batch=made.id)
    Batch.objects.filter(pk=made.id).update(failed=73)
    pages = [
        reverse("admin:jobs_batch_changelist"),
        reverse("admin:jobs_batch_change", args=[made.id]),
        reverse("admin:jobs_overview_changelist"),
    ]
    whole = [log_in("ada").get(page).content.decode() for page in pages]
    assert ["73 of 77" in text for text in whole] == [True] * 3
    part = [log_in("reports").get(page).content.decode() for page in pages]
    assert ["not counted" in text for text in part] == [True] * 3
    assert not any("of 77" in text or ">73<" in text for text in part)
