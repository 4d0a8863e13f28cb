"""What a caller is told, and what it may send: no more than is its own, and nothing unchecked."""

from __future__ import annotations

from typing import Any

import pytest

import jobs
from jobs.models import Job, Schedule
from jobs.operate import batches
from tests.api.conftest import Caller
from tests.jobs import factories
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "text/plain"])
def test_a_body_is_checked_whatever_it_calls_itself(root: Caller, kind: str) -> None:
    headers = {"Authorization": f"Bearer {root.secret}"}

    answer = root.client.generic(
        "POST", "/api/v1/batches", b'{"name": "a", "name": "b"}', content_type=kind, headers=headers
    )

    assert answer.status_code == 422 and b"repeated-key" in answer.content


@pytest.mark.parametrize(
    ("unique", "code", "pointer"),
    [
        ({"key": "a\x07b"}, "invalid-option", "/unique"),
        ({"key": "k", "on_conflict": "replace"}, "invalid", "/unique/on_conflict"),
    ],
    ids=["control character", "no replacing"],
)
def test_a_unique_key_that_cannot_be_is_the_callers_fault(
    root: Caller, unique: Any, code: str, pointer: str
) -> None:
    answer = root("POST", "/jobs", {"kind": "test.noop", "unique": unique})

    assert (answer.status_code, answer.data["code"]) == (422, code)
    assert answer.data["errors"][0]["pointer"] == pointer


def test_an_explanation_names_no_job_out_of_sight(root: Caller, acme: Caller) -> None:
    hidden = jobs.enqueue(Noop(), tenant="other").id
    waiting = jobs.enqueue(Noop(), tenant="acme", after=[hidden]).id

    mine = acme("GET", f"/jobs/{waiting}/explain").data["reasons"][0]
    whole = root("GET", f"/jobs/{waiting}/explain").data["reasons"][0]

    assert mine["text"] == "waits for 1 unfinished parent: …" and mine["ids"] == []
    assert str(hidden) in whole["text"] and whole["ids"] == [str(hidden)]


OWN = {"kind": "jobs.bulk", "payload": {"bulk_id": "01890000-0000-7000-8000-000000000000"}}


@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch", "/batches/{id}/jobs", "/schedules"])
def test_the_platforms_own_jobs_are_not_made_over_the_api(root: Caller, path: str) -> None:
    batch = root("POST", "/batches", {}).data["id"]
    body: Any = OWN if path == "/jobs" else {"jobs": [{"kind": "test.noop"}, OWN]}
    if path == "/schedules":
        body = {**OWN, "name": "own", "cron": "0 3 * * *", "reason": "a test"}

    answer = root("POST", path.format(id=batch), body)

    assert (answer.status_code, answer.data["code"]) == (422, "invalid-option")
    assert "is an internal kind" in answer.data["detail"]
    assert not Job.objects.exists() and not Schedule.objects.exists()


def test_each_job_of_many_is_refused_for_itself_where_it_is_the_platforms(root: Caller) -> None:
    answer = root("POST", "/jobs/batch?partial=true", {"jobs": [{"kind": "test.noop"}, OWN]})

    assert [one["status"] for one in answer.data["results"]] == [201, 422]
    assert Job.objects.get().kind == "test.noop"


def test_keys_of_tenants_are_their_own(root: Caller, acme: Caller) -> None:
    keys = {"kind": "test.limited", "payload": {}, "exclusive": "ledger", "limit_key": "bank"}
    both = Caller(name="both", tenants=["acme", "a/b%"])

    made = [
        acme("POST", "/jobs", keys),
        root("POST", "/jobs", {**keys, "tenant": "acme"}),
        both("POST", "/jobs", {**keys, "tenant": "a/b%"}),
    ]

    assert [one.status_code for one in made] == [201, 201, 201]
    found = [Job.objects.get(pk=one.data["id"]) for one in made]
    assert [job.exclusive_key for job in found] == ["acme/ledger", "ledger", "a%2Fb%25/ledger"]
    assert [job.limit_key for job in found] == ["acme/bank", "bank", "a%2Fb%25/bank"]


NUMBERS = ("total", "succeeded", "failed", "cancelled", "expired")


def test_names_of_schedules_are_the_tenants_own(root: Caller, acme: Caller) -> None:
    """Neither does a tenant learn which names there are, nor take those of others."""
    body = {"kind": "test.noop", "payload": {}, "interval_ms": 60_000, "reason": "r"}
    assert root("POST", "/schedules", {**body, "name": "payroll"}).status_code == 201
    for name in ("payroll", "acme:weekly"):
        made = acme("POST", "/schedules", {**body, "name": name, "tenant": "acme"})
        own = f"acme:{name.removeprefix('acme:')}"
        assert (made.status_code, made.data["name"]) == (201, own)
        assert acme("GET", made.headers["Location"].removeprefix("/api/v1")).data["name"] == own
    assert [one["name"] for one in acme("GET", "/schedules").data] == [
        "acme:payroll",
        "acme:weekly",
    ]


def test_numbers_of_a_batch_count_nothing_in_queues_out_of_sight(root: Caller) -> None:
    of_q = Caller(name="q", queues=["q"])
    made = {}
    for name, queues in (("mixed", ("q", "other")), ("whole", ("q", "q"))):
        batch = made[name] = batches.batch(name)
        for queue in queues:
            batch.add(Noop(), queue=queue)
        batch.seal()

    def told(caller: Caller, name: str) -> Any:
        return caller("GET", f"/batches/{made[name].id}").data

    hidden, seen = told(of_q, "mixed"), told(of_q, "whole")

    assert (hidden["name"], hidden["state"]) == ("mixed", "sealed")
    assert {hidden[name] for name in (*NUMBERS, "rate_per_second", "causes")} == {None}
    assert (seen["total"], seen["succeeded"], seen["causes"]) == (2, 0, {})
    assert told(root, "mixed")["total"] == 2
    rows = of_q("GET", "/batches").data["data"]
    assert {row[name] for row in rows for name in NUMBERS} == {None} and len(rows) == 2
    assert {row["total"] for row in root("GET", "/batches").data["data"]} == {2}


def test_events_of_other_queues_are_neither_shown_nor_touched(root: Caller) -> None:
    claim = factories.a_claim(tenant="acme", max_attempts=1)
    factories.settle(factories.ended(claim))  # it is told that a job of this queue has failed
    mine, other = Caller(queues=["default"]), Caller(queues=["elsewhere"])
    [told] = root("GET", "/outbox?state=pending").data["data"]
    assert told["topic"] == "jobs.job.failed"
    path = f"/outbox/{told['number']}"
    assert other("GET", "/outbox").data["data"] == []
    assert other("GET", path).status_code == 404
    assert other("POST", f"{path}/park", {"reason": "a test"}).status_code == 404
    assert mine("GET", path).status_code == 200
    assert mine("POST", f"{path}/park", {"reason": "a test"}).status_code == 200


def test_a_key_taken_and_a_doubt_say_of_which_queue() -> None:
    for _ in range(2):
        jobs.enqueue(Noop(), unique=jobs.Unique("k"))
    claim = factories.a_claim()
    factories.sql(
        "INSERT INTO jobs_effect (job_id, key, token, attempt, state) "
        "VALUES (%s, 'k', %s, 1, 'intent')",
        [claim.id, claim.token],
    )
    factories.sql("UPDATE jobs_effect SET state = 'in_doubt' WHERE job_id = %s", [claim.id])
    told = dict(factories.sql("SELECT topic, payload->>'queue' FROM jobs_outbox"))
    assert told == {"jobs.job.deduplicated": "default", "jobs.effect.in_doubt": "default"}


def test_events_for_the_staff_are_neither_shown_nor_touched(root: Caller, acme: Caller) -> None:
    jobs.emit("test.told", {}, tenant="acme", audience="staff")
    [told] = root("GET", "/outbox").data["data"]
    path = f"/outbox/{told['number']}"
    assert acme("GET", "/outbox").data["data"] == []
    assert acme("GET", path).status_code == 404
    assert acme("POST", f"{path}/park", {"reason": "a test"}).status_code == 404
    assert root("POST", f"{path}/park", {"reason": "a test"}).status_code == 200
