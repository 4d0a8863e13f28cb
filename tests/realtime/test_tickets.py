"""Keys and tickets: what else opens a stream, once, and no more than whoever asked may see."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory, override_settings

from jobs.engine import rq
from jobs.operate import apikeys
from jobs.principals import EVERYTHING, Principal, Scope
from jobs.realtime import access, answers, refusals, tickets
from jobs.testing import freeze_clock

pytestmark = pytest.mark.django_db
ACME = Scope(tenants=frozenset({"acme"}))


def a_key(*permissions: str, **how: Any) -> apikeys.Told:
    return apikeys.create("site", permissions or ("view_job",), by="test", reason="test", **how)


def asked(query: str = "", again: bool = False, **headers: str) -> Principal | None:
    made = RequestFactory().get(f"/{query}", headers=headers)
    made.META["jobs.again"] = again
    return access.principal_of(made)


def shown(ticket: str, again: bool = False) -> Principal | None:
    return asked(f"?ticket={ticket}", again)


@pytest.mark.parametrize(
    "headers",
    [lambda key: {"Authorization": f"Bearer {key}"}, lambda key: {"X-API-Key": key}],
)
def test_a_key_is_known_with_its_scope(headers: Any) -> None:
    made = a_key(tenants=["acme"])
    who = asked(**headers(made.text))
    assert who is not None and who.scope == ACME and not who.is_staff
    assert asked(**headers(made.text[:-1] + "!")) is None
    apikeys.revoke(made.key.pk, by="test", reason="test")
    assert asked(**headers(made.text)) is None


def test_a_key_that_may_only_enqueue_sees_no_events(client: Client) -> None:
    made = a_key("enqueue_job")
    with pytest.raises(refusals.Refused, match="view_job"):
        asked(Authorization=f"Bearer {made.text}")
    answer = client.get("/api/v1/events", headers={"Authorization": f"Bearer {made.text}"})
    assert answer.status_code == 403 and "view_job" in answer.json()["detail"]


def only_acme(user: Any) -> Scope:
    return ACME


def test_the_project_says_what_a_session_sees(client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    made = RequestFactory().get("/")
    made.COOKIES.update({name: morsel.value for name, morsel in client.cookies.items()})
    with override_settings(JOBS={"SCOPE": f"{__name__}.only_acme"}):
        who = access.principal_of(made)
    assert who is not None and who.scope == ACME and who.name == "root"


# ---- tickets


def test_a_ticket_is_good_once_and_its_holder_may_stay() -> None:
    user = User.objects.create(username="ann")
    who = Principal("ann", "api", user_id=str(user.pk))
    ticket = tickets.issue(who)
    found = shown(ticket)
    assert found is not None
    assert found.scope == Scope(tenants=frozenset({f"user:{user.pk}"}))
    assert shown(ticket) is None
    again = shown(ticket, again=True)
    assert again is not None and again.scope == found.scope
    User.objects.update(is_active=False)
    assert shown(ticket, again=True) is None


def test_a_ticket_is_good_for_a_minute() -> None:
    with freeze_clock() as clock:
        late, soon = (tickets.issue(Principal("k", scope=ACME)) for _ in range(2))
        clock.tick(timedelta(seconds=59))
        assert shown(soon) is not None
        clock.tick(timedelta(seconds=2))
        assert shown(late) is None
        assert shown(soon, again=True) is not None


def test_a_ticket_of_a_key_ends_with_the_key() -> None:
    made = a_key(tenants=["acme"])
    who = asked(Authorization=f"Bearer {made.text}")
    assert who is not None
    ticket = tickets.issue(who)
    assert (found := shown(ticket)) is not None and found.scope == ACME
    apikeys.revoke(made.key.pk, by="test", reason="test")
    assert shown(ticket, again=True) is None


@pytest.mark.parametrize("change", [lambda t: t[:-1] + "_", lambda t: "x" + t, lambda t: "nothing"])
def test_a_ticket_that_was_changed_is_none(change: Any) -> None:
    ticket = tickets.issue(Principal("k", scope=ACME))
    assert shown(change(ticket)) is None and shown(change(ticket), again=True) is None
    with override_settings(SECRET_KEY="another"):
        assert shown(ticket) is None


def test_a_narrowed_ticket_shows_less_and_never_more() -> None:
    staff = Principal("sue", scope=EVERYTHING, is_staff=True)
    found = shown(tickets.issue(staff, ["acme"]))
    assert found is not None and found.scope == ACME and not found.is_staff
    found = shown(tickets.issue(Principal("k", scope=ACME), ["acme", "other"]))
    assert found is not None and found.scope == ACME
    found = shown(tickets.issue(Principal("k", scope=ACME), ["other"]))
    assert found is not None and not found.scope.covers(tenant="other")


def test_without_redis_a_ticket_is_good_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ticket = tickets.issue(Principal("k", scope=ACME))

    def away(key: str, seconds: int) -> bool:
        raise rq.Unavailable[0]("away")

    monkeypatch.setattr(rq, "is_first", away)
    with pytest.raises(tickets.Away) as error:
        shown(ticket)
    assert answers.answer(error.value).status == 503


def test_tickets_are_asked_for_over_http(client: Client) -> None:
    url, key = "/api/v1/events/ticket", {"Authorization": f"Bearer {a_key().text}"}
    assert client.post(url).status_code == 401
    assert client.get(url, headers=key).status_code == 405
    answer = client.post(
        url, json.dumps({"tenants": ["acme"]}), content_type="application/json", headers=key
    )
    assert (answer.status_code, answer.json()["seconds"]) == (201, 60)
    assert answer["Cache-Control"] == "no-store"
    page = client.get(f"/api/v1/events?ticket={answer.json()['ticket']}")
    assert page.status_code == 200
    assert client.get(f"/api/v1/events?ticket={answer.json()['ticket']}").status_code == 401
    options: Any = {"content_type": "application/json"}
    again = client.post(url, headers=key, **options).json()["ticket"]
    assert client.post(f"{url}?ticket={again}", **options).status_code == 401
    assert client.post(f"{url}?ticket={again}", headers=key, **options).status_code == 422
    assert client.get(f"/api/v1/events?ticket={again}").status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ("[", 400, None),
        ("[1]", 422, "/"),
        ('{"tenant": []}', 422, "/tenant"),
        ('{"tenants": "acme"}', 422, "/tenants"),
        ('{"tenants": [1]}', 422, "/tenants/0"),
        ('{"tenants": ["a\\u0000"]}', 422, "/tenants/0"),
        ('{"tenants": ["a b\\t"]}', 422, "/tenants"),
    ],
)
def test_a_wrong_body_is_named(client: Client, body: str, status: int, pointer: str | None) -> None:
    key = {"Authorization": f"Bearer {a_key().text}"}
    answer = client.post(
        "/api/v1/events/ticket", body, content_type="application/json", headers=key
    )
    found = [one["pointer"] for one in answer.json().get("errors", [])]
    assert (answer.status_code, found) == (status, [pointer] if pointer else [])


def test_too_many_tenants_are_refused(client: Client) -> None:
    names = [f"tenant-{number * 7919}" for number in range(2000)]
    answer = client.post(
        "/api/v1/events/ticket", json.dumps({"tenants": names}), content_type="application/json",
        headers={"Authorization": f"Bearer {a_key().text}"},
    )  # fmt: skip
    assert answer.status_code == 422 and "too many" in answer.json()["detail"]
