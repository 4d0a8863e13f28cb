"""Plans for programs: from a draft to three channels, bad input, and what others may not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from config.standins.publisher import Standin
from jobs.testing import freeze_clock, run_jobs
from publisher.models import Account, Member, Plan, Publication
from tests.api.conftest import Caller, call
from tests.publisher.test_plans import AT, CONTENT, THREE, relay

pytestmark = pytest.mark.django_db
PLANS = "/publisher/plans"


@pytest.fixture
def caller(accounts: dict[str, Account]) -> Caller:
    return Caller(tenants=["brand:acme"])


def body(**fields: Any) -> dict[str, Any]:
    slots = [{"channel": one, "at": AT} for one in THREE]
    return {"brand": "acme", "title": "Bread", "content": CONTENT, "slots": slots, **fields}


def test_a_plan_goes_from_draft_to_published(caller: Caller, standin: Standin) -> None:
    answer = caller("POST", PLANS, body())
    assert answer.status_code == 201, answer.content
    made = answer.data
    assert (made["status"], made["version"], made["content"]) == ("draft", 1, CONTENT)
    path = f"{PLANS}/{made['id']}"
    changed = caller("PATCH", path, {"content": {**CONTENT, "link": "https://acme.test/"}}).data
    assert changed["version"] == 2
    assert [one["number"] for one in caller("GET", f"{path}/versions").data["data"]] == [2, 1]
    assert caller("POST", f"{path}/status", {"status": "ready"}).data["status"] == "ready"
    stale = caller("POST", f"{path}/approvals", {"version": 1})
    assert (stale.status_code, stale.data["code"]) == (422, "fp_publisher_invalid_plan")
    answer = caller("POST", f"{path}/approvals", {"version": 2, "note": "fine"})
    assert answer.data["status"] == "approved", answer.content
    [decided] = caller("GET", f"{path}/approvals").data["data"]
    assert (decided["version"], decided["note"], decided["voided_at"]) == (2, "fine", None)
    said = caller("POST", f"{path}/comments", {"body": "Well done"})
    assert said.status_code == 201
    assert caller("GET", f"{path}/comments").data["data"] == [said.data]
    answer = caller("POST", f"{path}/schedule", {})
    assert answer.status_code == 200, answer.content
    assert {one["status"] for one in answer.data["slots"]} == {"pending"}
    moved = answer.data["slots"][0]["id"]
    answer = caller("POST", f"/publisher/slots/{moved}/move", {"at": "2031-05-01T09:00"})
    assert answer.status_code == 200, answer.content
    with freeze_clock(datetime(2031, 5, 1, 8, tzinfo=UTC)):
        run_jobs(["publisher"])
    relay()
    ended = caller("GET", path).data
    assert ended["status"] == "published"
    assert {one["status"] for one in ended["slots"]} == {"completed"}
    assert Publication.objects.filter(reason="cancelled").count() == 1
    [listed] = caller("GET", f"{PLANS}?status=published").data["data"]
    assert listed["id"] == made["id"]


@pytest.mark.parametrize(
    ("changes", "pointers"),
    [
        ({"content": {"captoin": "x"}}, ["/content/captoin"]),
        ({"content": {"overrides": {"myspace": {}}}}, ["/content/overrides/myspace"]),
        ({"slots": [{"channel": "myspace", "at": AT}]}, ["/slots/0/channel"]),
        ({"slots": [{"channel": "tiktok", "at": "2001-01-01T10:00"}]}, ["/slots/0/at"]),
        ({"slots": [{"channel": "tiktok", "at": "soon"}]}, ["/slots/0/at"]),
        (
            {"slots": [{"channel": "tiktok", "at": AT, "zone": "Mars/Base"}], "content": {"x": 1}},
            ["/content/x", "/slots/0/zone"],
        ),
        (
            {"slots": [{"channel": "tiktok", "at": AT, "publish_until": "2031-01-01T00:00:00Z"}]},
            ["/slots/0/publish_until"],
        ),
        ({"slots": [{"channel": "tiktok", "at": AT}] * 2}, ["/slots"]),
        ({"surprise": 1}, ["/surprise"]),
    ],
)
def test_bad_input_is_named_and_nothing_is_stored(
    changes: dict[str, Any], pointers: list[str], caller: Caller
) -> None:
    answer = caller("POST", PLANS, body(**changes))
    assert (answer.status_code, answer.data["code"]) == (422, "fp_publisher_invalid_plan")
    assert [one["pointer"] for one in answer.data["errors"]] == pointers
    assert not Plan.objects.exists()


def test_a_plan_that_a_channel_would_refuse_is_blocked(caller: Caller) -> None:
    made = caller("POST", PLANS, body(content={"caption": "{{who}}"})).data
    answer = caller("POST", f"{PLANS}/{made['id']}/submit", {})
    assert (answer.status_code, answer.data["code"]) == (422, "fp_publisher_preflight_blocked")
    assert "/content/caption" in [one["pointer"] for one in answer.data["errors"]]


def test_a_wrong_step_is_refused(caller: Caller) -> None:
    made = caller("POST", PLANS, body()).data
    answer = caller("POST", f"{PLANS}/{made['id']}/status", {"status": "scheduled"})
    assert (answer.status_code, answer.data["code"]) == (422, "fp_publisher_invalid_plan")
    assert "it must be approved" in answer.data["detail"]


def test_an_editors_session_cannot_approve(caller: Caller, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "SCOPE": ["publisher.access.scope"]}
    made = caller("POST", PLANS, body()).data
    caller("POST", f"{PLANS}/{made['id']}/submit", {})
    user = User.objects.create_user("eve")
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="publisher"))
    client, path = Client(), f"{PLANS}/{made['id']}/approvals"
    client.force_login(user)
    assert call(client, "POST", path, {}).status_code == 404
    brand = Plan.objects.get().brand
    member = Member.objects.create(brand=brand, tenant=brand.tenant, user=user, role="editor")
    client.force_login(User.objects.get(pk=user.pk))
    assert call(client, "POST", path, {}).status_code == 403
    assert Plan.objects.get().status == "ready"
    member.role = "approver"
    member.save()
    assert call(client, "POST", path, {}).data["status"] == "approved"


def test_another_brands_plans_do_not_exist(caller: Caller) -> None:
    made = caller("POST", PLANS, body()).data
    stranger = Caller(name="stranger", tenants=["brand:other"])
    path = f"{PLANS}/{made['id']}"
    assert stranger("GET", PLANS).data["data"] == []
    for method, where, asked in (
        ("GET", path, None), ("PATCH", path, {"title": "x"}), ("GET", f"{path}/versions", None),
        ("GET", f"{path}/comments", None), ("POST", f"{path}/approvals", {}),
        ("POST", f"{path}/status", {"status": "ready"}), ("POST", f"{path}/schedule", {}),
        ("POST", f"/publisher/slots/{made['slots'][0]['id']}/remove", {}),
    ):  # fmt: skip
        assert stranger(method, where, asked).status_code == 404, (method, where)
    assert stranger("POST", PLANS, body()).status_code == 404
    assert Plan.objects.get().title == "Bread"
