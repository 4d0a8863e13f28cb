"""Who is counted as one, and what is taken back: addresses, principals, keys, whole requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.urls import path
from ninja import NinjaAPI, Router

import jobs
from jobs.api import Problem, auth, operation, requests
from jobs.models import ApiKey, Job
from tests.api.conftest import Caller, call
from tests.jobs import factories
from tests.specimens.handlers import Noop


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
    ],
)
def test_a_host_may_vary_what_is_its_own(one: str, other: str, same: bool) -> None:
    def counted(address: str) -> str:
        return requests.network(RequestFactory().get("/", REMOTE_ADDR=address))

    assert (counted(one) == counted(other)) is same


@pytest.mark.django_db
def test_a_key_of_idempotency_belongs_to_whoever_sent_it(root: Caller, acme: Caller) -> None:
    first = root("POST", "/jobs", {"kind": "test.noop"}, Idempotency_Key="k")
    other = acme("POST", "/jobs", {"kind": "test.noop"}, Idempotency_Key="k")
    again = root("POST", "/jobs", {"kind": "test.noop"}, Idempotency_Key="k")
    assert [one.status_code for one in (first, other, again)] == [201, 201, 201]
    assert other.data["id"] != first.data["id"] == again.data["id"]
    assert "Idempotent-Replayed" not in other and again["Idempotent-Replayed"] == "true"
    assert Job.objects.count() == 2


@pytest.mark.django_db
def test_of_two_who_have_seen_the_same_one_may_change_it(root: Caller) -> None:
    job = jobs.enqueue(Noop()).id
    tag = root("GET", f"/jobs/{job}")["ETag"]
    told = [root("PATCH", f"/jobs/{job}", {"priority": n}, If_Match=tag) for n in (1, 2)]
    assert [one.status_code for one in told] == [200, 412]
    assert Job.objects.get(pk=job).priority == 1


@pytest.mark.django_db
@pytest.mark.parametrize("forged", ["x", "", "a:b:c", "{tag}x", "e30:1abc:AAAA"])
def test_a_forged_cursor_is_none(root: Caller, forged: str) -> None:
    for _ in range(2):
        jobs.enqueue(Noop())
    real = root("GET", "/jobs?limit=1").data["page"]["next"]
    for listed in ("/jobs", "/audit", "/batches", "/dead-letters"):
        response: Any = root("GET", f"{listed}?limit=1&cursor={forged.replace('{tag}', real)}")
        assert response.status_code == 400 if forged else 200, response.data
    assert root("GET", f"/audit?limit=1&cursor={real}").status_code == 400


@pytest.mark.django_db
def test_who_may_less_than_a_key_does_not_touch_it(root: Caller) -> None:
    weak = Caller(permissions=["manage_apikey", "view_apikey"])
    before = ApiKey.objects.get(pk=root.key.pk).secret_hash
    for verb in ("rotate", "revoke"):
        response = weak("POST", f"/api-keys/{root.key.pk}/{verb}", {"reason": "a test"})
        assert response.status_code == 403, response.data
    after = ApiKey.objects.get(pk=root.key.pk)
    assert (after.secret_hash, after.revoked_at) == (before, None)


router = Router(auth=auth.default())


@operation(router, "POST", "/half", "half", needs="enqueue_job")
def half(request: Any) -> Any:
    """Something is written before it turns out to be wrong"""
    jobs.enqueue(Noop())
    raise Problem(422, "wrong", "is wrong")


tries: list[int] = []


@operation(router, "POST", "/unlucky", "unlucky", needs="enqueue_job", answer={200: dict[str, int]})
def unlucky(request: Any) -> Any:
    """Another transaction is in the way of the first two attempts"""
    tries.append(1)
    jobs.enqueue(Noop())
    if len(tries) < 3:
        factories.sql("DO $$BEGIN RAISE EXCEPTION 'in the way' USING ERRCODE = '40001'; END$$")
    return {"tries": len(tries)}


api = NinjaAPI(urls_namespace="half")
api.add_router("", router)
urlpatterns = [path("api/v1/", api.urls)]


@pytest.mark.django_db
@pytest.mark.urls(__name__)
def test_an_answer_that_is_a_problem_has_changed_nothing(root: Caller) -> None:
    headers = {"Authorization": f"Bearer {root.secret}", "Idempotency_Key": "k"}
    for _ in range(2):
        response = call(Client(), "POST", "/half", {}, **headers)
        assert (response.status_code, response.data["code"]) == (422, "wrong")
        assert Job.objects.count() == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.urls(__name__)
def test_what_another_transaction_was_in_the_way_of_is_done_again(root: Caller) -> None:
    tries.clear()
    response = call(Client(), "POST", "/unlucky", {}, Authorization=f"Bearer {root.secret}")
    assert (response.status_code, response.data) == (200, {"tries": 3})
    assert Job.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("hours", [None, 2])
def test_a_key_makes_none_that_outlives_it(hours: int | None) -> None:
    now = datetime.now(UTC)
    maker = Caller(expires_at=now + timedelta(hours=1))
    body: dict[str, Any] = {"name": "new", "permissions": ["view_job"], "reason": "a test"}
    if hours:
        body["expires_at"] = (now + timedelta(hours=hours)).isoformat()
    response = maker("POST", "/api-keys", body)
    assert response.status_code == 422
    assert response.data["errors"][0]["pointer"] == "/expires_at"
    body["expires_at"] = (now + timedelta(minutes=30)).isoformat()
    assert maker("POST", "/api-keys", body).status_code == 201
