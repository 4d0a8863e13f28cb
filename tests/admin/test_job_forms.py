"""Retrying and replaying one job from its page: with another payload, budget or time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

import jobs
from jobs.models import Audit, Job
from jobs.testing import freeze_clock, run_jobs
from tests.specimens.handlers import Echo, Fail

pytestmark = pytest.mark.django_db
NOON = datetime(2040, 1, 2, 12, tzinfo=UTC)


def a_dead_job() -> Job:
    made = jobs.enqueue(Fail(message="first"), max_attempts=1)
    run_jobs()
    return Job.objects.get(pk=made.id)


def post(client: Client, job: Job, act: str, **given: Any) -> Any:
    return client.post(f"/admin/jobs/job/{job.pk}/do/{act}/", {"reason": "mended", **given})


def new_job(job: Job) -> Job:
    return Job.objects.get(replay_of=job.pk)


@pytest.mark.parametrize(
    ("how", "text", "payload"),
    [
        ("same", "", {"message": "first"}),
        ("patch", '{"message": "second"}', {"message": "second"}),
        ("whole", '{"message": "third"}', {"message": "third"}),
        ("whole", "{}", {"message": "as told"}),
    ],
)
def test_a_replay_has_the_payload_that_was_edited(
    admin_client: Client, how: str, text: str, payload: dict[str, Any]
) -> None:
    job = a_dead_job()
    shown = admin_client.get(f"/admin/jobs/job/{job.pk}/do/replay/").content.decode()
    assert "&quot;message&quot;: &quot;first&quot;" in shown
    answer = post(admin_client, job, "replay", how=how, payload=text)
    new = new_job(job)
    assert (answer.status_code, answer["Location"]) == (302, f"/admin/jobs/job/{new.pk}/change/")
    assert (new.payload, Job.objects.get(pk=job.pk).payload) == (payload, {"message": "first"})
    assert str(new.pk) in admin_client.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()
    assert Audit.objects.get(action="job.replay").reason == "mended"


@pytest.mark.parametrize(
    ("how", "text", "words"),
    [
        ("whole", "{", "no JSON"),
        ("whole", "[1]", "Must be a JSON object"),
        ("whole", "", "Must be a JSON object"),
        ("patch", "", "Must be a JSON object"),
        ("whole", '{"message": 5}', "message"),
        ("patch", '{"message": 5}', "message"),
        ("whole", '{"nonsense": 1}', "nonsense"),
        ("sideways", "{}", "sideways"),
    ],
)
def test_a_wrong_payload_is_refused_and_nothing_is_made(
    admin_client: Client, how: str, text: str, words: str
) -> None:
    job = a_dead_job()
    answer = post(admin_client, job, "replay", how=how, payload=text)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert Job.objects.count() == 1


def test_who_sees_no_payload_changes_single_fields_only(client: Client) -> None:
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(
        content_type__app_label="jobs", codename__in=["view_job", "replay_job"]))  # fmt: skip
    client.force_login(user)
    job = a_dead_job()
    page = client.get(f"/admin/jobs/job/{job.pk}/do/replay/").content.decode()
    assert "first" not in page and "only single fields can be changed" in page
    answer = post(client, job, "replay", how="whole", payload='{"message": "x"}')
    assert answer.status_code == 422 and Job.objects.count() == 1
    assert post(client, job, "replay", how="patch", payload='{"message": "x"}').status_code == 302
    assert new_job(job).payload == {"message": "x"}


def test_what_has_succeeded_is_replayed_knowingly(admin_client: Client) -> None:
    made = jobs.enqueue(Echo(text="sent"))
    run_jobs()
    job = Job.objects.get(pk=made.id)
    assert post(admin_client, job, "replay", how="same").status_code == 422
    assert post(admin_client, job, "replay", how="same", same="on").status_code == 302
    assert new_job(job).payload == {"text": "sent"}


def test_a_retry_has_so_many_attempts_more(admin_client: Client) -> None:
    job = a_dead_job()
    assert post(admin_client, job, "retry", attempts=3).status_code == 302
    job.refresh_from_db()
    assert (job.state, job.failures, job.max_attempts) == ("pending", 1, 4)


def test_a_retry_has_its_whole_budget_again(admin_client: Client) -> None:
    job = a_dead_job()
    # The number stands in the form, and does not count where the budget is as it was.
    assert post(admin_client, job, "retry", attempts=7, reset="on").status_code == 302
    job.refresh_from_db()
    assert (job.state, job.failures, job.max_attempts) == ("pending", 0, 1)
    assert Audit.objects.get(action="job.retry").detail["reset"] is True


def test_a_retry_waits_for_its_time(admin_client: Client) -> None:
    with freeze_clock(NOON):
        job = a_dead_job()
        answer = post(admin_client, job, "retry", attempts=1, at="2040-01-02T15:30")
        assert answer.status_code == 302
        job.refresh_from_db()
        assert (job.state, job.wait) == ("pending", 1)
        assert job.run_at == datetime(2040, 1, 2, 15, 30, tzinfo=UTC)
        page = admin_client.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()
        assert "2040-01-02 15:30:00 UTC" in page


def test_a_retry_without_any_attempt_is_refused(admin_client: Client) -> None:
    job = a_dead_job()
    for given in ({"attempts": 0}, {"attempts": "many"}, {"attempts": 1, "at": "soon"}):
        assert post(admin_client, job, "retry", **given).status_code == 422
    job.refresh_from_db()
    assert job.state == "failed"
