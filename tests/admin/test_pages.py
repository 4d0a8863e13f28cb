"""The read-only admin, as a browser gets it."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

import jobs
from jobs.admin import bounded
from jobs.engine import leases
from jobs.ids import uuid7
from jobs.models import DeadLetter, Job
from jobs.testing import freeze_clock, run_jobs
from tests.specimens.handlers import Echo, Fail, Noop

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(admin_client: Client) -> Client:
    return admin_client


def body(client: Client, url: str, status: int = 200) -> str:
    answer = client.get(url)
    assert answer.status_code == status
    return answer.content.decode()


def test_the_list_shows_jobs_and_filters_them(page: Client) -> None:
    jobs.enqueue(Noop(), tenant="acme")
    jobs.enqueue(Echo(text="private words"))
    run_jobs()
    jobs.enqueue(Noop(), queue="other", delay=60)
    everything = body(page, "/admin/jobs/job/")
    assert "acme" in everything and "test.echo" in everything
    assert "private words" not in everything
    assert body(page, "/admin/jobs/job/?state=pending").count("field-kind") == 1
    assert body(page, "/admin/jobs/job/?kind=test.noop").count("field-kind") == 2
    assert body(page, "/admin/jobs/job/?queue=default").count("field-kind") == 2


def test_an_id_finds_its_job(page: Client) -> None:
    job = jobs.enqueue(Noop())
    jobs.enqueue(Noop())
    assert body(page, f"/admin/jobs/job/?q={job.id}").count("field-kind") == 1
    assert body(page, f"/admin/jobs/job/?q={uuid4()}").count("field-kind") == 0
    assert body(page, "/admin/jobs/job/?q=nonsense").count("field-kind") == 0


def test_the_list_counts_nothing(page: Client) -> None:
    jobs.enqueue_many([Noop() for _ in range(120)])
    body(page, "/admin/jobs/job/")  # content types and sessions are cached from here on
    with CaptureQueriesContext(
        connection,
    ) as queries:
        first = body(page, "/admin/jobs/job/")
    asked = [query["sql"] for query in queries if "jobs_job" in query["sql"]]
    assert asked
    for statement in asked:
        assert "COUNT(" not in statement and "DISTINCT" not in statement
        assert "LIMIT" in statement
        assert '"payload"' not in statement
    assert "50+ jobs" in first
    assert body(page, "/admin/jobs/job/?p=3").count("field-kind") == 20
    assert "120 jobs" in body(page, "/admin/jobs/job/?p=3")


@pytest.mark.parametrize("wrong", ["0", "-1", "x", "99999999999", "²"])
def test_a_page_that_is_not_there_does_no_harm(page: Client, wrong: str) -> None:
    jobs.enqueue(Noop())
    assert page.get(f"/admin/jobs/job/?p={wrong}").status_code in (200, 302)


def test_pages_end_somewhere(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "LAST_PAGE", 2)
    jobs.enqueue_many([Noop() for _ in range(120)])
    assert "?p=3" not in body(page, "/admin/jobs/job/?p=2")


def test_a_job_tells_its_life(page: Client) -> None:
    job = jobs.enqueue(Fail(message="<b>bold</b>"), max_attempts=2)
    with freeze_clock() as clock:
        run_jobs()
        clock.tick(1)
        run_jobs()
    text = body(page, f"/admin/jobs/job/{job.id}/change/")
    assert "pending → queued" in text and "running → failed" in text
    assert text.count("<details>") == 2
    assert "Traceback" in text
    assert "<b>bold</b>" not in text and "&lt;b&gt;bold" in text


def test_a_job_without_moves_says_so(page: Client) -> None:
    job = jobs.enqueue(Noop(), delay=60)
    assert "It has not moved yet." in body(page, f"/admin/jobs/job/{job.id}/change/")


def test_dropped_moves_are_told(page: Client) -> None:
    job = jobs.enqueue(Noop(), delay=60)
    moves = [[1.5, "pending", "queued", "me", None]] * 9
    Job.objects.filter(id=job.id).update(history=moves, history_dropped=7)
    assert "7 moves dropped" in body(page, f"/admin/jobs/job/{job.id}/change/")


def test_dead_letters_point_at_their_jobs(page: Client) -> None:
    job = jobs.enqueue(Fail(message="personal data"), max_attempts=1)
    run_jobs()
    letter = DeadLetter.objects.get()
    listed = body(page, "/admin/jobs/deadletter/?state__exact=open")
    assert f"/admin/jobs/job/{job.id}/change/" in listed
    assert "personal data" not in listed
    assert "personal data" in body(page, f"/admin/jobs/deadletter/{letter.pk}/change/")
    assert body(page, f"/admin/jobs/deadletter/?q={job.id}").count("field-kind") == 1


def test_executors_are_listed(page: Client) -> None:
    leases.open_lease(uuid7(), "worker-of-mine", ["default"], 8)
    assert "worker-of-mine" in body(page, "/admin/jobs/lease/?dead_at__isempty=1")
    assert "worker-of-mine" not in body(page, "/admin/jobs/lease/?dead_at__isempty=0")


@pytest.mark.parametrize("model", ["job", "deadletter", "lease"])
def test_nothing_can_be_written(page: Client, model: str) -> None:
    body(page, f"/admin/jobs/{model}/add/", 403)
    job = jobs.enqueue(Noop())
    if model == "job":
        body(page, f"/admin/jobs/job/{job.id}/delete/", 403)
        assert (
            page.post(f"/admin/jobs/job/{job.id}/change/", {"state": "failed"}).status_code == 403
        )
        assert Job.objects.get().kind == "test.noop"
        assert 'name="_save"' not in body(page, f"/admin/jobs/job/{job.id}/change/")


def test_only_who_may_view_sees_anything(client: Client) -> None:
    user = User.objects.create_user("staff", is_staff=True)
    client.force_login(user)
    body(client, "/admin/jobs/job/", 403)
    user.user_permissions.add(Permission.objects.get(codename="view_job"))
    body(client, "/admin/jobs/job/")
    body(client, "/admin/jobs/deadletter/", 403)
