"""What people can do by the API is what is declared."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.api.inputs import member
from jobs.models import Job
from jobs.operate import verbs
from tests.api import operations
from tests.api.conftest import Caller
from tests.jobs import factories

NO_ACTS = {
    "job_enqueue", "job_enqueue_many", "batch_create", "batch_add", "batch_seal",
    "bulk_preview", "schedule_preview", "blackout_preview", "event_ticket",
}  # fmt: skip
"""Operations that write nothing, or what code does as well: they are no verbs of people."""


EMAIL = {"email_resend", "email_reveal", "email_company_create", "email_company_edit",
         "email_company_suspend", "email_company_admit"}  # fmt: skip
"""Operations of the gateway; an entry of its suppression list is added and lifted by its own id."""


def test_the_api_offers_every_verb() -> None:
    offered = {op.details["x-verb"] for op in operations.OF_JOBS if "x-verb" in op.details}
    assert offered == {verb.name for verb in verbs.of_app("jobs")}


def test_whatever_writes_is_a_verb_or_known_to_be_none() -> None:
    writing = {op.id for op in operations.OF_JOBS if op.method != "GET"}
    acting = {op.id for op in operations.OF_JOBS if "x-verb" in op.details}
    assert acting == writing - NO_ACTS


MADE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/api-keys", {"name": "new", "permissions": ["view_job"], "reason": "a test"}),
    ("/blackouts", {"scope": "tenant:a", "start": "01:00", "end": "02:00", "reason": "a test"}),
    (
        "/schedules",
        {"name": "nightly", "kind": "test.noop", "cron": "0 4 * * *", "reason": "a test"},
    ),
    ("/views", {"name": "new"}),
    ("/webhooks", {"url": "https://a.example.com/", "tenant": "*", "reason": "a test"}),
)


@pytest.mark.django_db
@pytest.mark.parametrize(("path", "body"), MADE)
def test_what_is_made_says_where_it_is(root: Caller, path: str, body: dict[str, Any]) -> None:
    made = root("POST", path, body)
    assert made.status_code == 201, made.data
    found = root("GET", made["Location"].removeprefix("/api/v1"))
    assert found.status_code == 200
    assert {found.data[name] for name in ("id", "name") if name in found.data} & {
        made.data.get("id"), made.data.get("name")
    }  # fmt: skip


@pytest.mark.django_db
def test_a_queue_is_a_scope(root: Caller) -> None:
    until = "2099-01-01T00:00:00Z"
    why = {"reason": "a test"}
    paused = root("POST", "/queues/default/pause", {**why, "until": until, "running": "stop"})
    assert (paused.status_code, paused.data["scope"]) == (200, "queue:default")
    assert root("POST", "/queues/default/resume", why).data == {"resumed": True}
    limited = root("POST", "/queues/default/limit", {**why, "at_once": 3})
    assert (limited.data["scope"], limited.data["at_once"]) == ("queue:default", 3)
    override = {**why, "at_once": 1}
    missing = root("POST", "/queues/default/override", override)
    assert (missing.status_code, missing.data["errors"][0]["pointer"]) == (422, "/until")
    held = root("POST", "/queues/default/override", {**override, "until": until})
    assert held.data["override_until"] is not None
    assert root("POST", "/queues/default/override/end", why).status_code == 204
    [limit] = [one for one in root("GET", "/limits").data if one["scope"] == "queue:default"]
    assert limit["at_once"] == 3


def test_every_body_is_that_of_the_declaration() -> None:
    """Also those of the email gateway, which spells its members in camel case."""
    for op in operations.ALL:
        verb = verbs.find(str(op.details.get("x-verb")))
        if verb is None or not (verb.app == "jobs" or op.id in EMAIL):
            continue
        schema = op.details["requestBody"]["content"]["application/json"]["schema"]
        members = set(operations.SCHEMA["components"]["schemas"][
            schema["$ref"].rpartition("/")[2]
        ]["properties"])  # fmt: skip
        parts = [part for one in verb.every_parameter for part in one.parts if not one.is_rest]
        declared = {member(part, verb.app == "emailgw") for part in parts}
        declared |= {"options"} if any(one.is_rest for one in verb.every_parameter) else set()
        target = set() if verb.is_new else {member(parts[0], verb.app == "emailgw")}
        assert declared - target <= members <= declared, op.id


@pytest.mark.django_db
def test_a_length_of_time_is_in_milliseconds_within_the_bounds_of_its_declaration(
    root: Caller,
) -> None:
    body = {"name": "tidy", "kind": "test.noop", "reason": "a test"}
    refused = root("POST", "/schedules", {**body, "interval_ms": 4999})
    assert refused.data["errors"][0]["pointer"] == "/interval_ms"
    made = root("POST", "/schedules", {**body, "interval_ms": 60_000})
    assert (made.status_code, made.data["interval_ms"]) == (201, 60_000)
    refused = root("POST", "/schedules", {**body, "cron": "* * * * *", "interval_ms": 60_000})
    assert refused.status_code == 422
    for wrong in (999, 2_592_000_001):
        refused = root("POST", "/breakers/open", {"name": "x", "reason": "y", "duration_ms": wrong})
        assert refused.data["errors"][0]["pointer"] == "/duration_ms"


@pytest.mark.django_db
def test_a_payload_is_one_of_its_kind(root: Caller) -> None:
    body = {"name": "echo", "kind": "test.echo", "cron": "0 4 * * *", "reason": "a test"}
    for payload, wrong in (({"text": "a", "nope": 1}, "nope"), ({"text": 5}, "text")):
        refused = root("POST", "/schedules", {**body, "payload": payload})
        assert refused.data["errors"][0]["pointer"] == f"/payload/{wrong}"
    assert root("POST", "/schedules", {**body, "payload": {"text": "a"}}).status_code == 201
    path, tag = "/schedules/echo", root("GET", "/schedules/echo")["ETag"]
    refused = root("PATCH", path, {"payload": {"text": 5}, "reason": "x"}, If_Match=tag)
    assert refused.data["errors"][0]["pointer"] == "/payload/text"
    changed = root("PATCH", path, {"payload": {"text": "b"}, "reason": "x"}, If_Match=tag)
    assert (changed.status_code, changed.data["payload"]) == (200, {"text": "b"})


@pytest.mark.django_db
def test_a_replay_enters_no_queue_out_of_reach(root: Caller) -> None:
    job_id = factories.a_job("running", queue="mail")
    factories.move(job_id, "succeeded")
    one = Caller(queues=["mail"], permissions=["view_job", "replay_job"])
    refused = one("POST", f"/jobs/{job_id}/replay", {"queue": "other"})
    assert (refused.status_code, refused.data["errors"][0]["pointer"]) == (422, "/queue")
    made = root("POST", f"/jobs/{job_id}/replay", {"queue": "other", "priority": 7})
    assert made.status_code == 201
    found = Job.objects.get(pk=made.data["id"])
    assert (found.queue, found.priority) == ("other", 7)
