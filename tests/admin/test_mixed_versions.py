"""Jobs that this process does not know: of a kind, or a version, that another release has."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

import jobs
from jobs.models import Batch, DeadLetter, Job, Schedule
from jobs.operate import bulk, schedules
from jobs.testing import run_jobs
from tests.admin.screens import screens
from tests.browser.filling import fill
from tests.specimens.handlers import Echo, Fail, Noop

pytestmark = pytest.mark.django_db
GONE = "shop.of_tomorrow"
STATES = ("pending", "running", "succeeded", "failed", "cancelled", "expired")


@pytest.fixture
def ids(client: Client) -> dict[str, Any]:
    """Everything is there, and made by a release that this process has never seen."""
    found = fill()
    client.force_login(User.objects.get(username="root"))
    Job.objects.exclude(kind="jobs.bulk").update(
        kind=GONE, payload_version=99, queue="tomorrow", payload={"not": ["known", {"at": "all"}]}
    )
    DeadLetter.objects.update(kind=GONE, queue="tomorrow")
    Schedule.objects.update(kind=GONE, payload_version=99)
    Batch.objects.update(callbacks=[])
    return found


def test_every_screen_shows_jobs_of_a_kind_that_it_does_not_know(
    client: Client, ids: dict[str, Any]
) -> None:
    shown = set()
    for name, path in screens(ids).items():
        answer = client.get(f"/admin/jobs/{path}")
        assert answer.status_code == 200, name
        if GONE in answer.content.decode():
            shown.add(name)
    assert shown >= {
        "jobs", "jobs-failed", "job-failed", "job-running", "job-scheduled", "letters", "letter",
        "schedules", "schedule", "job-retry", "job-replay", "job-edit",
    }  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_job_of_an_unknown_kind_has_its_page_in_every_state(
    client: Client, ids: dict[str, Any], state: str
) -> None:
    job = Job.objects.filter(kind=GONE, state=state)[0]
    text = client.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()
    assert GONE in text and "&quot;known&quot;" in text
    if state == "pending":
        assert "no handler is registered for kind" in text.lower()


def test_what_cannot_be_done_with_it_says_so(client: Client, ids: dict[str, Any]) -> None:
    job = Job.objects.filter(kind=GONE, state="failed")[0]
    text = client.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()
    assert "No handler is registered for its kind." in text
    url = f"/admin/jobs/job/{job.pk}/do"
    assert client.post(f"{url}/replay/", {"reason": "x", "how": "same"}).status_code == 409
    # To run it again is right: the release that knows it may be there by then.
    assert client.post(f"{url}/retry/", {"reason": "x", "attempts": 1}).status_code == 302
    assert Job.objects.get(pk=job.pk).state == "pending"


def test_a_payload_of_a_later_version_is_shown_as_it_is(admin_client: Client) -> None:
    made = jobs.enqueue(Echo(text="later"))
    run_jobs()
    Job.objects.update(payload_version=99, payload={"text": {"rich": "later"}})
    url = f"/admin/jobs/job/{made.id}"
    assert "&quot;rich&quot;" in admin_client.get(f"{url}/change/").content.decode()
    assert admin_client.get(f"{url}/do/replay/").status_code == 200
    answer = admin_client.post(f"{url}/do/replay/", {"reason": "x", "how": "same", "same": "on"})
    assert answer.status_code in (302, 422)
    assert Job.objects.count() == (2 if answer.status_code == 302 else 1)


def test_a_bulk_operation_looks_at_unknown_kinds(admin_client: Client) -> None:
    jobs.enqueue(Fail(message="x"), max_attempts=1)
    run_jobs()
    Job.objects.update(kind=GONE)
    seen = bulk.preview("retry", query=f"kind:{GONE}", by="ada")
    assert seen.kinds == {GONE: 1}
    url = f"/admin/jobs/bulk/do/start/?action=retry&all=1&query=kind:{GONE}"
    assert "1 job will be changed" in admin_client.get(url).content.decode()


def test_a_schedule_of_an_unknown_kind_says_what_is_wrong(admin_client: Client) -> None:
    row = schedules.create("nightly", Noop(), interval=60, by="ada", reason="asked for")
    Schedule.objects.update(kind=GONE, error=f"UnknownKind: no handler for {GONE}")
    for path in ("schedule/", f"schedule/{row.pk}/change/", "overview/"):
        assert admin_client.get(f"/admin/jobs/{path}").status_code == 200
    assert GONE in admin_client.get("/admin/jobs/schedule/").content.decode()
