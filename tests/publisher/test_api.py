"""The publisher for programs: posts, tests of a time, replays, the settings, and bad input."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import jobs
from config.standins.publisher import Standin
from jobs.testing import freeze_clock, run_jobs
from publisher import services
from publisher.models import Account, Brand, Publication
from tests.api.conftest import Caller
from tests.publisher import factories

pytestmark = pytest.mark.django_db
JOBS = "/publisher/jobs"


@pytest.fixture
def caller(accounts: dict[str, Account]) -> Caller:
    return Caller(tenants=["brand:acme"])


def body(channel: str = "meta_facebook", **fields: Any) -> dict[str, Any]:
    post = factories.post("meta_facebook" if channel not in factories.PLACES else channel)
    return {"channel": channel, "payload": post.model_dump(exclude_defaults=True), **fields}


def test_a_post_is_accepted_once_by_its_key(caller: Caller, standin: Standin) -> None:
    answer = caller("POST", JOBS, body(idempotency_key="spring-1"))
    assert answer.status_code == 201, answer.content
    assert (answer.data["status"], answer.data["attempts"]) == ("pending", 0)
    again = caller("POST", JOBS, body(idempotency_key="spring-1"))
    assert (again.status_code, again.data["id"]) == (200, answer.data["id"])
    run_jobs(["publisher"])
    known = caller("POST", JOBS, body(idempotency_key="spring-1"))
    assert (known.status_code, known.data["status"]) == (200, "completed")
    assert known.data["remote_id"] and len(standin.posts["page"]) == 1
    [listed] = caller("GET", f"{JOBS}?status=completed&search=spring-1").data["data"]
    assert listed == known.data == caller("GET", f"{JOBS}/{listed['id']}").data


def test_without_a_key_every_request_is_a_post(caller: Caller) -> None:
    ids = {caller("POST", JOBS, body()).data["id"] for _ in range(2)}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("changes", "status", "code", "pointer"),
    [
        ({"channel": "myspace"}, 400, "fp_publisher_invalid_channel", "/channel"),
        ({"run_at": "2030-01-01T10:00:00"}, 400, "fp_publisher_invalid_job", "/run_at"),
        ({"surprise": 1}, 400, "fp_publisher_invalid_job", "/surprise"),
        ({"payload": {"captoin": "x"}}, 400, "fp_publisher_invalid_job", "/payload/captoin"),
        ({"brand": "other"}, 422, "fp_publisher_invalid_plan", "/account"),
        (
            {"payload": {"caption": "Hello {{name}}"}}, 422, "fp_publisher_preflight_blocked",
            "/payload/caption",
        ),
        (
            {"payload": {"caption": "x" * 63_207}}, 422, "fp_publisher_preflight_blocked",
            "/payload/caption",
        ),
        (
            {"payload": {"caption": "x", "media": [{"url": "http://127.1/a.jpg"}]}}, 422,
            "fp_publisher_preflight_blocked", "/payload/media/0/url",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_named_and_nothing_is_stored(
    changes: dict[str, Any], status: int, code: str, pointer: str, caller: Caller
) -> None:
    answer = caller("POST", JOBS, {**body(), **changes})
    assert (answer.status_code, answer.data["code"]) == (status, code), answer.content
    assert pointer in [one["pointer"] for one in answer.data["errors"]]
    assert not Publication.objects.exists() and not jobs.Job.objects.exists()


def test_all_problems_are_named_at_once(caller: Caller) -> None:
    payload = {"caption": "x" * 2300 + "{{who}}", "link": "https://acme.test/"}
    answer = caller("POST", JOBS, {"channel": "meta_instagram", "payload": payload})
    pointers = [one["pointer"] for one in answer.data["errors"]]
    assert sorted(pointers) == [
        "/payload/caption", "/payload/caption", "/payload/link", "/payload/media",
    ]  # fmt: skip


@pytest.mark.parametrize("is_bulk", [False, True])
def test_problems_of_body_account_and_preflight_are_named_together(
    is_bulk: bool, caller: Caller
) -> None:
    wrong = body(
        "meta_instagram", run_at="2030-01-01T10:00:00", publish_until="soon", brand="other",
        idempotency_key="k" * 192, surprise=1,
    )  # fmt: skip
    wrong["payload"]["caption"] = "Hello {{who}}"
    if is_bulk:
        answer = caller("POST", f"{JOBS}/bulk", {"jobs": [wrong, body()]})
        assert answer.status_code == 200, answer.content
        refused, accepted = answer.data["items"]
        assert accepted["created"] and Publication.objects.count() == 1
    else:
        answer = caller("POST", JOBS, wrong)
        assert answer.status_code == 400, answer.content
        refused = answer.data
        assert not Publication.objects.exists()
    assert refused["code"] == "fp_publisher_invalid_job"
    assert {one["pointer"]: one["code"] for one in refused["errors"]} == {
        "/run_at": "fp_publisher_invalid_job", "/publish_until": "fp_publisher_invalid_job",
        "/idempotency_key": "fp_publisher_invalid_job", "/surprise": "fp_publisher_invalid_job",
        "/account": "fp_publisher_invalid_plan",
        "/payload/caption": "fp_publisher_preflight_blocked",
    }  # fmt: skip


def test_an_unknown_channel_is_named_with_the_rest_of_the_body(caller: Caller) -> None:
    for channel in ("myspace", "", 7, None):
        answer = caller("POST", JOBS, {"channel": channel, "payload": {"captoin": "x"}})
        assert (answer.status_code, answer.data["code"]) == (400, "fp_publisher_invalid_channel")
        pointers = {one["pointer"] for one in answer.data["errors"]}
        assert pointers == {"/channel", "/payload/captoin"}


def test_the_test_of_a_time_names_all_problems_at_once(caller: Caller) -> None:
    wrong = {"channel": "myspace", "run_at": "2030-01-01T10:00:00", "surprise": 1}
    answer = caller("POST", f"{JOBS}/test", wrong)
    assert (answer.status_code, answer.data["code"]) == (400, "fp_publisher_invalid_channel")
    assert {one["pointer"] for one in answer.data["errors"]} == {
        "/channel", "/run_at", "/surprise",
    }  # fmt: skip
    answer = caller("POST", f"{JOBS}/test", {**wrong, "channel": "tiktok", "brand": "other"})
    assert (answer.status_code, answer.data["code"]) == (400, "fp_publisher_invalid_job")
    assert {one["pointer"]: one["code"] for one in answer.data["errors"]} == {
        "/run_at": "fp_publisher_invalid_job", "/surprise": "fp_publisher_invalid_job",
        "/account": "fp_publisher_invalid_plan",
    }  # fmt: skip


def test_a_preview_calls_nobody_and_takes_no_key(caller: Caller, standin: Standin) -> None:
    asked = body(idempotency_key="spring-1")
    asked["payload"]["preview"] = True
    answer = caller("POST", JOBS, asked)
    assert (answer.status_code, answer.data["preview"]) == (200, True)
    assert answer.data["normalized"]["message"] == "Fresh bread from seven"
    assert not Publication.objects.exists() and not standin.calls
    assert caller("POST", JOBS, body(idempotency_key="spring-1")).status_code == 201


def test_a_time_is_tested_and_nothing_is_stored(caller: Caller) -> None:
    moment = datetime(2031, 3, 3, 10, 0, 30, tzinfo=UTC)
    asked = {"channel": "Meta Facebook", "run_at": moment.isoformat()}
    free = caller("POST", f"{JOBS}/test", asked).data
    assert (free["runnable"], free["in_blackout"], free["has_collision"]) == (True, False, False)
    assert datetime.fromisoformat(free["next_possible"]) == moment
    assert not Publication.objects.exists() and not jobs.Job.objects.exists()

    caller("POST", JOBS, body(run_at=moment.isoformat()))
    taken = caller("POST", f"{JOBS}/test", asked).data
    assert (taken["runnable"], taken["has_collision"]) == (False, True)
    assert datetime.fromisoformat(taken["next_possible"]) == moment.replace(second=0) + timedelta(
        minutes=1
    )


def test_a_window_closes_a_channel(brand: Brand, accounts: dict[str, Account]) -> None:
    caller = Caller()
    window = {
        "channel": "meta_facebook", "start": "22:00", "end": "06:00", "timezone": "Europe/Rome",
        "days": [5],
    }  # fmt: skip
    answer = caller("POST", "/publisher/settings", {"queue.blackout_windows": [window]})
    assert answer.status_code == 200, answer.content
    assert answer.data == {"queue.blackout_windows": [window]}
    assert caller("GET", "/publisher/settings").data == answer.data
    saturday = {"channel": "meta_facebook", "run_at": "2031-03-08T02:00:00+01:00"}
    found = caller("POST", f"{JOBS}/test", saturday).data
    assert (found["runnable"], found["in_blackout"]) == (False, True)
    assert datetime.fromisoformat(found["next_possible"]).hour == 5  # 06:00 in Rome
    friday = {"channel": "meta_facebook", "run_at": "2031-03-07T02:00:00+01:00"}
    assert caller("POST", f"{JOBS}/test", friday).data["runnable"]
    other = {"channel": "google_business", "run_at": "2031-03-08T02:00:00+01:00"}
    assert caller("POST", f"{JOBS}/test", other).data["runnable"]


def test_bad_windows_are_refused_and_the_old_ones_stay(accounts: dict[str, Account]) -> None:
    caller = Caller()
    good = {"start": "01:00", "end": "02:00"}
    caller("POST", "/publisher/settings", {"queue.blackout_windows": [good]})
    bad = {"start": "01:00", "end": "02:00", "timezone": "Mars/Base", "days": [7]}
    answer = caller("POST", "/publisher/settings", {"queue.blackout_windows": [bad]})
    assert answer.status_code == 422
    assert [one["pointer"] for one in answer.data["errors"]] == [
        "/queue.blackout_windows/0/timezone", "/queue.blackout_windows/0/days/0",
    ]  # fmt: skip
    [kept] = caller("GET", "/publisher/settings").data["queue.blackout_windows"]
    assert (kept["start"], kept["timezone"]) == ("01:00", "UTC")


def test_only_what_has_failed_is_replayed(caller: Caller) -> None:
    made = caller("POST", JOBS, body(idempotency_key="k")).data
    answer = caller("POST", f"{JOBS}/{made['id']}/replay", {"reason": "again"})
    assert (answer.status_code, answer.data["code"]) == (422, "fp_publisher_replay_failed")
    row = Publication.objects.get()
    jobs.cancel(row.pk, by="tests", reason="wrong text")
    run_jobs(["publisher"])
    row.refresh_from_db()
    assert (row.status, row.reason) == ("failed", "cancelled")
    answer = caller("POST", f"{JOBS}/{made['id']}/replay", {"reason": "again"})
    assert (answer.status_code, answer.data["status"]) == (200, "pending"), answer.content
    assert (answer.data["attempts"], answer.data["idempotency_key"]) == (0, "k")


def test_who_may_schedule_may_move_and_nothing_else(caller: Caller) -> None:
    planner = Caller(
        name="planner", permissions=["publisher.add_publication"], tenants=["brand:acme"]
    )
    made = caller("POST", JOBS, body(run_at="2031-01-01T10:00:00Z")).data["id"]
    path = f"/publisher/publications/{made}"
    assert planner("POST", f"{path}/cancel", {"reason": "x"}).status_code == 403
    answer = planner("POST", f"{path}/move", {"at": "2031-01-02T10:00:00Z"})
    assert answer.status_code == 200, answer.content
    assert planner("POST", f"{path}/move", {"at": "2001-01-02T10:00:00Z"}).status_code == 422
    times = {row.scheduled_at.day: row.reason for row in Publication.objects.all()}
    assert times == {1: "cancelled", 2: ""}


def test_several_posts_are_judged_each_by_itself(caller: Caller) -> None:
    asked = {"jobs": [body(), {**body(), "channel": "myspace"}, body("google_business")]}
    items = caller("POST", f"{JOBS}/bulk", asked).data["items"]
    assert [(one["created"], one["code"]) for one in items] == [
        (True, ""), (False, "fp_publisher_invalid_channel"), (True, ""),
    ]  # fmt: skip
    assert Publication.objects.count() == 2


def test_another_brand_does_not_exist(caller: Caller, standin: Standin) -> None:
    other = services.create_brand("other", "Other")
    factories.accounts(other, standin.url)
    stranger = Caller(name="stranger", tenants=["brand:other"])
    made = caller("POST", JOBS, body()).data["id"]
    assert stranger("GET", f"{JOBS}/{made}").status_code == 404
    assert stranger("GET", JOBS).data["data"] == []
    assert stranger("POST", f"{JOBS}/{made}/replay", {"reason": "x"}).status_code == 404
    answer = stranger("POST", JOBS, body(brand="acme"))
    assert (answer.status_code, answer.data["code"]) == (422, "fp_publisher_invalid_plan")
    for verb in ("cancel", "replay"):
        path = f"/publisher/publications/{made}/{verb}"
        assert stranger("POST", path, {"reason": "x"}).status_code == 404


def test_the_operations_have_the_address_of_the_seed_too(caller: Caller, client: Any) -> None:
    assert client.get("/fp-publisher/v1/jobs").status_code == 401
    made = caller("POST", JOBS, body()).data["id"]
    headers = {"Authorization": f"Bearer {caller.secret}"}
    for path in ("jobs", f"jobs/{made}"):
        answer = client.get(f"/fp-publisher/v1/{path}", headers=headers)
        assert answer.status_code == 200 and made in answer.content.decode()
    assert client.get("/fp-publisher/v1/workers", headers=headers).status_code == 404


def test_posts_in_a_blackout_delay_no_other_channel(
    accounts: dict[str, Account], standin: Standin
) -> None:
    Caller()(
        "POST", "/publisher/settings",
        {"queue.blackout_windows": [{"channel": "meta_facebook", "start": "00:00",
                                     "end": "00:00"}]},
    )  # fmt: skip
    for number in range(25):
        post = factories.post("meta_facebook", f"number {number}")
        services.enqueue(accounts["meta_facebook"], post)
    other = services.enqueue(accounts["wordpress_blog"], factories.post("wordpress_blog")).row
    with freeze_clock():
        run_jobs(["publisher"])
    assert Publication.objects.get(pk=other.pk).status == "completed"
    assert not standin.posts["page"]
