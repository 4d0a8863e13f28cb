"""The same text, or the same hour, on an account: a warning wherever a post is made."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from publisher import plan_verbs, plans, repeats, services
from publisher.models import Account, Publication
from tests.api.conftest import Caller
from tests.publisher import factories

pytestmark = pytest.mark.django_db
ROME = ZoneInfo("Europe/Rome")
NOON = datetime(2031, 5, 1, 12, 0, tzinfo=ROME)
TEXT = "Acme meta_facebook has another post with this text, 2031-05-01 12:00 Europe/Rome"
HOUR = "Acme meta_facebook has another post in this hour, 2031-05-01 12:00 Europe/Rome"


@pytest.fixture
def caller(accounts: dict[str, Account]) -> Caller:
    return Caller(tenants=["brand:acme"])


def post(caller: Caller, text: str, at: datetime, channel: str = "meta_facebook") -> Any:
    body = {"channel": channel, "payload": {"caption": text}, "run_at": at.isoformat()}
    return caller("POST", "/publisher/jobs", body)


def test_a_post_is_warned_of_another_one_of_its_account(caller: Caller) -> None:
    assert post(caller, "Bread", NOON).data["warnings"] == []
    both = post(caller, "Bread", NOON + timedelta(minutes=59)).data["warnings"]
    assert both == [HOUR, TEXT]
    later = NOON + timedelta(days=1)
    assert post(caller, "Bread", later).data["warnings"] == [TEXT]
    assert post(caller, "Rolls", NOON + timedelta(minutes=1)).data["warnings"] == [HOUR]
    assert post(caller, "Cake", NOON + timedelta(hours=1)).data["warnings"] == []
    assert post(caller, "Bread", NOON, "google_business").data["warnings"] == []
    assert post(caller, "Bread", NOON + timedelta(days=32)).data["warnings"] == []


def test_a_post_that_was_cancelled_or_has_failed_is_none(
    caller: Caller, accounts: dict[str, Account]
) -> None:
    first = post(caller, "Bread", NOON).data["id"]
    services.cancel(Publication.objects.get(pk=first), by="ada", reason="a test")
    assert post(caller, "Bread", NOON).data["warnings"] == []
    Publication.objects.update(status="failed", reason="in_doubt")
    assert post(caller, "Bread", NOON).data["warnings"] == [HOUR, TEXT]


def test_bulk_and_known_keys(caller: Caller) -> None:
    one = {
        "channel": "meta_facebook", "payload": {"caption": "Bread"}, "run_at": NOON.isoformat()
    }  # fmt: skip
    named = {**one, "idempotency_key": "k"}
    items = caller("POST", "/publisher/jobs/bulk", {"jobs": [named, one, named]}).data["items"]
    assert [item["warnings"] for item in items] == [[], [HOUR, TEXT], []]
    again = caller("POST", "/publisher/jobs", named)
    assert again.status_code == 200 and "warnings" not in again.data


def test_slots_of_plans_are_compared_too(caller: Caller) -> None:
    def plan(text: str, *times: str) -> Any:
        slots = [{"channel": "meta_facebook", "at": at} for at in times]
        content = {"caption": text, "placeholders": {"what": "Bread"}}
        body = {"brand": "acme", "title": "A", "content": content, "slots": slots}
        return caller("POST", "/publisher/plans", body).data

    first = plan("Bread", "2031-05-01T12:00", "2031-05-03T12:00")
    texts = [[one.split(", ")[0][-15:] for one in s["warnings"]] for s in first["slots"]]
    assert texts == [[" with this text"], [" with this text"]]
    second = plan("{{what}}", "2031-05-01T12:30")
    assert [slot["warnings"] for slot in second["slots"]] == [[HOUR, TEXT]]
    assert post(caller, "Bread", NOON).data["warnings"] == [HOUR, TEXT]
    [moved] = caller(
        "POST", f"/publisher/slots/{second['slots'][0]['id']}/move", {"at": "2031-08-01T12:30"}
    ).data["slots"]
    assert moved["warnings"] == []


def test_the_preflight_warns_without_blocking(caller: Caller) -> None:
    post(caller, "Bread", NOON)
    asked = {"brand": "acme", "content": {"caption": "Bread"}, "channels": ["meta_facebook"]}

    def seen(**more: Any) -> list[tuple[str, str]]:
        answer = caller("POST", "/publisher/preflight", {**asked, **more})
        assert answer.status_code == 200 and not answer.data["blocked"]
        [found] = answer.data["channels"]
        return [(one["pointer"], one["message"]) for one in found["checks"]]

    assert seen(at="2031-05-01T12:30") == [("/at", HOUR), ("/content/caption", TEXT)]
    assert seen(at="2031-05-02T12:30") == [("/content/caption", TEXT)]
    assert caller("POST", "/publisher/preflight", {**asked, "at": "soon"}).status_code == 422


def test_what_has_appeared_is_not_warned_of(accounts: dict[str, Account]) -> None:
    account = accounts["meta_facebook"]
    services.enqueue(account, factories.post("meta_facebook", "Bread"), run_at=NOON)
    place = plans.Place("meta_facebook", "2031-05-01T12:10")
    plan = plan_verbs.create_with("acme", "A", {"caption": "Bread"}, [place], by="ada")
    [slot] = plan.slots.all()
    assert repeats.of_slot(slot, plans.draft_of(plan)) == [HOUR, TEXT]
    slot.publication = services.enqueue(account, factories.post("meta_facebook", "Rolls")).row
    slot.publication.remote_id = "1"
    assert slot.is_closed and repeats.of_slot(slot, plans.draft_of(plan)) == []
