"""Nobody outside the project's code makes a job of an internal kind, or changes what one does."""

from __future__ import annotations

from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

import jobs
from jobs import registry
from jobs.errors import InvalidOption
from jobs.models import DeadLetter, Job, Schedule
from jobs.operate import batches, bulk, deadletters, schedules
from jobs.operate.edit import edit
from jobs.operate.replay import replay
from jobs.principals import Principal
from jobs.testing import run_jobs
from tests.api.conftest import Caller
from tests.specimens.handlers import Noop
from tests.specimens.internal import Internal

pytestmark = pytest.mark.django_db
SOMEBODY = Principal("ann", "api")
KINDS = ["test.internal", "test.inner"]


def a_dead_job() -> UUID:
    job_id = jobs.enqueue(Internal(account="mine"), priority=1).id
    run_jobs()
    return job_id


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch", "/batches/{id}/jobs", "/schedules"])
def test_no_request_makes_one(root: Caller, path: str, kind: str) -> None:
    one: Any = {"kind": kind, "payload": {"account": "theirs"}}
    body = one if path == "/jobs" else {"jobs": [{"kind": "test.noop"}, one]}
    if path == "/schedules":
        body = {**one, "name": "own", "cron": "0 3 * * *", "reason": "a test"}

    answer = root("POST", path.format(id=batches.batch("b").id), body)

    assert (answer.status_code, answer.data["code"]) == (422, "invalid-option")
    assert answer.data["errors"][0]["pointer"] == "/kind"
    assert "is an internal kind" in answer.data["detail"]
    assert not Job.objects.exists() and not Schedule.objects.exists()


def test_a_request_changes_none_and_replays_it_only_as_it_is(root: Caller) -> None:
    dead, waiting = a_dead_job(), jobs.enqueue(Internal()).id
    letter = DeadLetter.objects.get().pk
    why = {"reason": "a test"}

    def refused(method: str, path: str, **body: Any) -> bool:
        answer = root(method, path, {**why, **body}, If_Match="*")
        assert (answer.status_code, answer.data["code"]) == (422, "invalid-option"), answer.data
        return "is an internal kind" in answer.data["detail"]

    assert refused("PATCH", f"/jobs/{waiting}", priority=9)
    assert refused("PATCH", f"/jobs/{waiting}", queue="elsewhere")
    for change in ({"payload": {"account": "theirs"}}, {"payload_patch": {"account": "theirs"}}):
        assert refused("POST", f"/jobs/{dead}/replay", **change)
    assert refused("POST", f"/jobs/{dead}/replay", priority=9)
    assert refused("POST", f"/dead-letters/{letter}/replay", payload_patch={"account": "theirs"})
    assert Job.objects.count() == 2

    answer = root("POST", f"/jobs/{dead}/replay", why)
    assert answer.status_code == 201
    assert Job.objects.get(pk=answer.data["id"]).payload == {"account": "mine"}


def test_no_bulk_operation_edits_them() -> None:
    job_id = jobs.enqueue(Internal()).id

    seen = bulk.preview("edit", ids=[job_id], by=SOMEBODY, queue="elsewhere")

    assert (seen.eligible, seen.skipped) == (0, {"is of an internal kind": 1})
    assert bulk.preview("cancel", ids=[job_id], by=SOMEBODY).eligible == 1


def test_a_schedule_of_code_is_not_bent_to_other_ends() -> None:
    schedules.create("own", Internal(account="mine"), cron="0 3 * * *", by="code", reason="setup")

    for change in ({"payload": Internal(account="theirs")}, {"options": {"tenant": "theirs"}}):
        with pytest.raises(InvalidOption, match="internal kind"):
            schedules.edit("own", by=SOMEBODY, reason="a test", **change)

    assert schedules.find("own").payload == {"account": "mine"}
    made = schedules.run_now("own", by=SOMEBODY, reason="a test")
    assert Job.objects.get(pk=made).payload == {"account": "mine"}


def test_the_admin_offers_neither_schedule_nor_payload(admin_client: Client) -> None:
    dead = a_dead_job()
    waiting = jobs.enqueue(Internal()).id
    letter = DeadLetter.objects.get().pk
    why = {"reason": "a test"}

    form = admin_client.get("/admin/jobs/schedule/do/new/").content.decode()
    assert "test.noop" in form and "test.internal" not in form and "jobs.bulk" not in form
    new = {**why, "name": "own", "kind": "test.internal", "cron": "0 3 * * *", "missed": "skip"}
    answer = admin_client.post("/admin/jobs/schedule/do/new/", {**new, "overlap": "allow"})
    assert answer.status_code == 422 and not Schedule.objects.exists()

    for page, field in ((f"job/{dead}", "payload"), (f"deadletter/{letter}", "patch")):
        url = f"/admin/jobs/{page}/do/replay/"
        assert f'name="{field}"' not in admin_client.get(url).content.decode()
    sent = {"how": "whole", "payload": '{"account": "theirs"}'}
    admin_client.post(f"/admin/jobs/job/{dead}/do/replay/", {**why, **sent})
    assert Job.objects.get(replay_of=dead).payload == {"account": "mine"}
    edited = admin_client.post(f"/admin/jobs/job/{waiting}/do/edit/", {**why, "priority": 9})
    assert edited.status_code != 302 and Job.objects.get(pk=waiting).priority == 0


def test_the_command_line_makes_none() -> None:
    with pytest.raises(CommandError, match="internal kind"):
        call_command(
            "jobs", "schedules", "create", "own", "test.internal", "{}", "--cron", "0 3 * * *",
            "--reason", "a test", stdout=StringIO(),
        )  # fmt: skip
    assert not Schedule.objects.exists()


def test_they_are_not_among_the_kinds_that_can_be_enqueued(root: Caller) -> None:
    listed = {one["kind"] for one in root("GET", "/kinds").data}

    assert "test.noop" in listed
    assert listed == {one.kind for one in registry.handlers() if not one.internal}
    assert {"jobs.bulk", "jobs.webhook", "test.internal"} & listed == set()
    found = root("GET", "/kinds/test.internal").data
    assert (found["kind"], found["internal"]) == ("test.internal", True)


@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch"])
def test_no_job_of_another_kind_gets_their_keys(root: Caller, path: str) -> None:
    one: Any = {"kind": "test.noop", "exclusive": "specimen:7"}

    answer = root("POST", path, one if path == "/jobs" else {"jobs": [{"kind": "test.noop"}, one]})

    assert (answer.status_code, answer.data["code"]) == (422, "invalid-option")
    assert answer.data["errors"][0]["pointer"] == "/exclusive"
    assert "belongs to jobs of" in answer.data["detail"]
    assert not Job.objects.exists()


def test_no_schedule_of_another_kind_gets_their_keys() -> None:
    given: Any = {"exclusive": "specimen:7"}
    timing: Any = {"cron": "0 3 * * *", "reason": "a test"}
    words = r"belongs to jobs of 'test\.internal'"
    with pytest.raises(InvalidOption, match=words):
        schedules.create("own", Noop(), by=SOMEBODY, **timing, **given)
    schedules.create("own", Noop(), by="code", **timing, **given)
    with pytest.raises(InvalidOption, match=words):
        schedules.edit("own", options=given, by=SOMEBODY, reason="a test")
    assert schedules.find("own").options == given


def test_a_kind_and_the_code_use_its_keys() -> None:
    jobs.enqueue(Internal(), exclusive="specimen:7")
    jobs.enqueue(Noop(), exclusive="specimen:7")
    assert Job.objects.filter(exclusive_key="specimen:7").count() == 2


def test_code_does_with_them_what_it_likes() -> None:
    dead, waiting = a_dead_job(), jobs.enqueue(Internal()).id

    edit(waiting, by="code", priority=9)
    new = replay(dead, by="code", payload=Internal(account="other"))
    letter = Job.objects.get(pk=dead)
    assert Job.objects.get(pk=new).payload == {"account": "other"}
    assert Job.objects.get(pk=waiting).priority == 9 and letter.state == "failed"
    run_jobs()
    [open_letter] = DeadLetter.objects.filter(state="open", job_id=new)
    again = deadletters.replay_letter(open_letter.pk, by="code", payload_patch={"account": "third"})
    assert Job.objects.get(pk=again).payload == {"account": "third"}
