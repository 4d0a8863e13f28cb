"""What single endpoints do beyond what holds for all of them."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, connections
from django.test import Client

import jobs
from jobs.api import guarding, waiting
from jobs.models import Answer, Job
from jobs.operate import batchacts, pauses, schedules, ways
from jobs.testing import freeze_clock
from tests.api.conftest import Caller, call
from tests.jobs import factories
from tests.specimens.handlers import Echo, Noop

pytestmark = pytest.mark.django_db
NOOP = {"kind": "test.noop"}
WHY: dict[str, Any] = {"reason": "a test"}


def dead() -> Any:
    claim = factories.a_claim(max_attempts=1)
    factories.settle(factories.ended(claim))
    return claim.id


def test_of_many_jobs_those_are_enqueued_that_can_be(root: Caller) -> None:
    taken = str(jobs.enqueue(Noop()).id)
    many = [NOOP, {"kind": "no.such"}, {**NOOP, "id": taken}, {**NOOP, "queue": "a b"}, NOOP]
    response = root("POST", "/jobs/batch?partial=true", {"jobs": many})
    assert response.status_code == 207
    found = response.data["results"]
    assert [one["status"] for one in found] == [201, 404, 409, 422, 201]
    assert (response.data["enqueued"], response.data["refused"]) == (2, 3)
    assert found[3]["errors"][0]["pointer"] == "/queue"
    assert Job.objects.count() == 3


def test_a_retry_may_begin_anew_and_later(root: Caller) -> None:
    job_id = dead()
    at = datetime(2099, 1, 1, tzinfo=UTC)
    response = root("POST", f"/jobs/{job_id}/retry", {"reset": True, "at": at.isoformat()})
    assert response.status_code == 200, response.data
    assert response.data["failures"] == 0
    assert datetime.fromisoformat(response.data["run_at"]) == at


def test_a_replay_may_change_members_and_stand_alone(root: Caller) -> None:
    job_id = dead()
    both = {"payload": {}, "payload_patch": {"data": "x"}}
    assert root("POST", f"/jobs/{job_id}/replay", both).status_code == 422
    body = {"payload_patch": {"no_such": 1}}
    assert root("POST", f"/jobs/{job_id}/replay", body).status_code == 422
    response = root("POST", f"/jobs/{job_id}/replay", {"same_lineage": False})
    assert response.status_code == 201
    assert Job.objects.get(pk=response.data["id"]).lineage is None


def test_a_result_is_waited_for_no_longer_than_asked(root: Caller) -> None:
    job_id = jobs.enqueue(Noop()).id
    began = time.monotonic()
    assert root("GET", f"/jobs/{job_id}/result?wait=0.3").status_code == 202
    assert 0.3 <= time.monotonic() - began < 20
    assert root("GET", f"/jobs/{job_id}/result?wait=31").status_code == 422
    done = dead()
    began = time.monotonic()
    assert root("GET", f"/jobs/{done}/result?wait=30").data["state"] == "failed"
    assert time.monotonic() - began < 20


def test_only_some_may_wait_at_the_same_time(root: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_waiting", threading.BoundedSemaphore(1))
    job_id = jobs.enqueue(Noop()).id
    with waiting._waiting:
        began = time.monotonic()
        assert root("GET", f"/jobs/{job_id}/result?wait=30").status_code == 202
        assert time.monotonic() - began < 20


@pytest.mark.django_db(transaction=True)
def test_a_result_is_told_as_soon_as_it_is_there(root: Caller) -> None:
    claim = factories.a_claim(max_attempts=1)
    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(root("GET", f"/jobs/{claim.id}/result?wait=30"))
        finally:
            connection.close()

    asking = threading.Thread(target=ask)
    began = time.monotonic()
    asking.start()
    factories.settle(factories.ended(claim))
    asking.join(20)
    assert time.monotonic() - began < 20
    assert (found[0].status_code, found[0].data["state"]) == (200, "failed")


def test_a_list_says_how_many_there_are(root: Caller) -> None:
    for _ in range(3):
        jobs.enqueue(Noop())
    assert root("GET", "/jobs?limit=1").data["count"] is None
    found = root("GET", "/jobs?limit=1&include=count&query=state:queued state:pending").data
    assert (len(found["data"]), found["count"]) == (1, {"value": 3, "capped": False})


def test_one_attempt_tells_its_trace(root: Caller) -> None:
    job_id = dead()
    [first] = root("GET", f"/jobs/{job_id}/attempts").data
    found = root("GET", f"/jobs/{job_id}/attempts/{first['number']}").data
    assert {"traceback", "lines"} <= set(found) and found["message"] == first["message"]
    assert root("GET", f"/jobs/{job_id}/attempts/77").status_code == 404


def test_a_large_batch_is_dealt_with_in_bulk(root: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batchacts, "FEW", 1)
    batch = jobs.batch("many")
    for _ in range(2):
        batch.add(Noop())
    response = root("POST", f"/batches/{batch.id}/cancel", {})
    assert response.status_code == 422  # what is done in bulk needs a reason
    response = root("POST", f"/batches/{batch.id}/cancel", WHY)
    assert (response.status_code, response.data["action"]) == (202, "cancel")
    assert root("GET", response["Location"].removeprefix("/api/v1")).status_code == 200
    few = Caller(permissions=["cancel_job", "view_job"])
    response = few("POST", f"/batches/{batch.id}/cancel", WHY)
    assert (response.status_code, response.data["permission"]) == (403, "run_bulk")


def test_a_small_batch_is_dealt_with_at_once(root: Caller) -> None:
    batch = jobs.batch("few")
    batch.add(Noop())
    response = root("POST", f"/batches/{batch.id}/cancel", {})
    assert (response.status_code, response.data) == (200, {"count": 1})


def test_what_dies_is_counted_and_grouped(root: Caller, acme: Caller) -> None:
    batch = jobs.batch("b")
    job_id = dead()
    factories.sql("UPDATE jobs_job SET batch_id = %s WHERE id = %s", [batch.id, job_id])
    found = root("GET", "/dead-letters/stats").data
    assert found["open"] == found["last_hour"] == found["last_day"] == {"value": 1, "capped": False}
    assert found["oldest_at"]
    assert acme("GET", "/dead-letters/stats").data["open"]["value"] == 0
    [group] = root("GET", f"/batches/{batch.id}/failures").data
    assert (group["count"], group["latest_job"]) == (1, str(job_id))


def test_a_schedule_is_changed_by_who_has_seen_it(root: Caller) -> None:
    schedules.create("tidy", Noop(), cron="0 3 * * *", by="tests", **WHY)
    tag = root("GET", "/schedules/tidy")["ETag"]
    body = {"cron": "0 4 * * *", **WHY}
    assert root("PATCH", "/schedules/tidy", body).status_code == 428
    response = root("PATCH", "/schedules/tidy", body, If_Match=tag)
    assert (response.status_code, response.data["cron"]) == (200, "0 4 * * *")
    assert root("PATCH", "/schedules/tidy", body, If_Match=tag).status_code == 412


def test_missed_slots_are_shown_and_made_up_for(root: Caller) -> None:
    with freeze_clock(datetime(2026, 1, 5, 12, tzinfo=UTC)):
        schedules.create("tidy", Noop(), cron="0 3 * * *", by="tests", **WHY)
        span = {"start": "2026-01-02T00:00:00Z", "end": "2026-01-04T00:00:00Z"}
        path = "/schedules/tidy/backfill"
        gaps = root("GET", f"{path}?start={span['start']}&end={span['end']}").data["slots"]
        assert len(gaps) == 2
        made = root("POST", path, {**span, **WHY})
        assert (made.status_code, len(made.data["job_ids"])) == (201, 2)
        rule = {"cron": "0 3 * * *", "count": 2, "time_zone": "Europe/Rome"}
        slots = root("POST", "/schedules/preview", rule).data["slots"]
        assert slots == ["2026-01-06T02:00:00Z", "2026-01-07T02:00:00Z"]
    assert root("POST", "/schedules/preview", {}).status_code == 422


def test_a_limit_is_set_overridden_and_removed(root: Caller) -> None:
    found = root("POST", "/queues/mail/limit", {"at_once": 3, **WHY})
    assert (found.status_code, found.data["at_once"]) == (200, 3)
    until = {"at_once": 9, "until": "2099-01-01T00:00:00Z", **WHY}
    assert root("POST", "/queues/mail/override", until).data["override_until"]
    assert root("POST", "/queues/mail/override/end", WHY).status_code == 204
    [limit] = root("GET", "/limits").data
    assert (limit["scope"], limit["at_once"]) == ("queue:mail", 3)
    assert root("POST", "/limits/remove", {"scope": "queue:mail", **WHY}).status_code == 204
    assert root("POST", "/limits", {"scope": "tenant:a", **WHY}).status_code == 422


def test_a_revealed_payload_is_not_kept_for_repeats(root: Caller) -> None:
    job_id = jobs.enqueue(Noop()).id
    path = f"/jobs/{job_id}/reveal-payload"
    first = root("POST", path, WHY, Idempotency_Key="k")
    assert first.status_code == 200 and first.data["payload"] is not None
    again = root("POST", path, WHY, Idempotency_Key="k")
    assert (again["Idempotent-Replayed"], again.data["payload"]) == ("true", None)


def test_numbers_are_told(root: Caller) -> None:
    dead()
    assert root("GET", "/stats/overview").data["tiles"]["dead"]["value"] == 1
    assert root("GET", "/stats/kinds/test.noop").data["outcomes"] == ["failed"]
    assert root("GET", "/stats/kinds/no.such").status_code == 404
    assert root("GET", "/stats/kinds").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/stats/overview",
        "/jobs?query=priority:77",
        "/jobs/{waiting}/explain",
        "/jobs?query=knd:x",
        "/queues/no.such",
        "/me",
    ],
)
def test_texts_are_english_whatever_language_is_asked_for(
    root: Caller, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "BUDGET", 0.0)  # so that a search has something to say
    monkeypatch.setattr(ways, "FIRST_WALK", 2)
    jobs.enqueue(Echo(text="x"))
    waiting, *_ = (jobs.enqueue(Noop(), delay=3600).id for _ in range(3))
    pauses.pause("queue:default", by="ada", reason="the disk is full")
    path = path.format(waiting=waiting)
    with freeze_clock():
        english = root("GET", path, Accept_Language="en").data
        italian = root("GET", path, Accept_Language="it").data
    for told in (english, italian):
        told.pop("request_id", None)
    assert italian == english
    assert english.get("notices") or "notices" not in english


def test_without_a_database_it_is_not_ready() -> None:
    found: dict[str, Any] = {}

    def ask() -> None:
        here = connections["default"]
        connections["default"] = type(here)({**here.settings_dict, "PORT": 1}, "default")
        try:
            for path in ("/health/ready", "/health/live", "/me"):
                found[path] = call(Client(), "GET", path, Authorization="Bearer jd_live_1_x")
        finally:
            connections["default"].close()

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join(30)
    assert found["/health/ready"].status_code == 503
    assert found["/health/ready"].data == {"status": "unavailable"}
    assert found["/health/live"].status_code == 200
    assert (found["/me"].status_code, found["/me"].data["code"]) == (503, "unavailable")


def test_a_flood_of_keys_is_kept_only_as_far_as_one_may_ask(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "API_RATES": {"write": "5/m"}}
    caller = Caller()
    codes = [
        caller("POST", "/batches", {}, Idempotency_Key=f"k{n}").status_code for n in range(9)
    ]  # fmt: skip
    assert codes.count(201) == 5 and set(codes) == {201, 429}
    assert Answer.objects.count() == 5


def test_a_read_that_takes_too_long_is_ended(root: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "READ_TIMEOUT", "100ms")
    other = connection.copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("LOCK TABLE jobs_batch IN ACCESS EXCLUSIVE MODE")
        response = root("GET", "/batches")
        assert (response.status_code, response.data["code"]) == (400, "too-expensive")
    finally:
        other.close()
    assert root("GET", "/batches").status_code == 200
