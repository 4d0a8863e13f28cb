"""What people can do by the API is what is declared."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.operate import verbs
from tests.api import operations
from tests.api.conftest import Caller

NO_ACTS = {
    "job_enqueue", "job_enqueue_many", "batch_create", "batch_add", "batch_seal",
    "bulk_preview", "schedule_preview", "blackout_preview", "event_ticket",
}  # fmt: skip
"""Operations that write nothing, or what code does as well: they are no verbs of people."""


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
