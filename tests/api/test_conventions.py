"""What every answer has: ids, pages, tags, limits, keys; and the same inside of a host's API."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client, RequestFactory
from ninja import NinjaAPI

import jobs
from jobs.api import build_router, requests
from jobs.errors import ConfigError, Denied, InvalidOption, UnknownTarget
from jobs.models import ApiKey, Job
from jobs.operate import apikeys
from jobs.principals import Principal, Scope
from tests.api.conftest import Caller, call
from tests.jobs import factories
from tests.redis import forget_counts
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


def test_every_answer_bears_the_id_of_its_request(root: Caller) -> None:
    for path in ("/me", "/jobs/none", "/no/such/thing", "/health/live"):
        assert root("GET", path, X_Request_ID="mine-1")["X-Request-ID"] == "mine-1"
    response = root("GET", "/me", X_Request_ID="a\tb<script>")
    assert re.fullmatch("[0-9a-f]{32}", response["X-Request-ID"])
    response = root("PUT", "/me", X_Request_ID="mine-2")
    assert (response.status_code, response["X-Request-ID"]) == (405, "mine-2")
    assert response.data["code"] == "method-not-allowed"


def test_what_is_not_there_is_told_only_to_who_is_known(root: Caller, client: Client) -> None:
    assert call(client, "GET", "/no/such/thing").status_code == 401
    response = root("GET", "/no/such/thing")
    assert (response.status_code, response.data["code"]) == (404, "not-found")


def test_pages_lead_through_everything_and_back(root: Caller) -> None:
    for _ in range(7):
        jobs.batch("b")
    factories.sql("UPDATE jobs_batch SET created_at = '2026-01-01'")
    seen, path, pages = [], "/batches?limit=3", []
    while path:
        page = root("GET", path).data
        pages.append([row["id"] for row in page["data"]])
        seen += pages[-1]
        following = page["page"]["next"]
        path = f"/batches?limit=3&cursor={following}" if following else ""
    assert len(seen) == len(set(seen)) == 7
    assert seen == sorted(seen, reverse=True)
    back = root("GET", f"/batches?limit=3&cursor={page['page']['prev']}").data
    assert [row["id"] for row in back["data"]] == pages[-2]


def test_jobs_are_paged_by_their_query(root: Caller) -> None:
    ids = [str(jobs.enqueue(Noop()).id) for _ in range(5)]
    first = root("GET", "/jobs?limit=2&query=state:pending").data
    cursor = first["page"]["next"]
    second = root("GET", f"/jobs?limit=2&query=state:pending&cursor={cursor}").data
    assert [r["id"] for r in first["data"] + second["data"]] == ids[:0:-1]
    response = root("GET", f"/jobs?limit=2&query=state:failed&cursor={cursor}")
    assert (response.status_code, response.data["code"]) == (400, "cursor-of-another-list")


def test_a_cursor_that_was_changed_is_refused(root: Caller) -> None:
    for _ in range(3):
        jobs.batch("b")
    cursor = root("GET", "/batches?limit=1").data["page"]["next"]
    for place in range(0, len(cursor), 7):
        other = "A" if cursor[place] != "A" else "B"
        changed = cursor[:place] + other + cursor[place + 1 :]
        response = root("GET", f"/batches?limit=1&cursor={changed}")
        assert (response.status_code, response.data["code"]) == (400, "invalid-cursor")
    assert root("GET", f"/dead-letters?limit=1&cursor={cursor}").status_code == 400


def test_a_wrong_query_is_told_with_its_position(root: Caller) -> None:
    response = root("GET", "/jobs?query=state:pending nosuch:1")
    assert response.status_code == 400
    assert response.data["position"] >= 14


def test_what_was_seen_is_not_told_again(root: Caller) -> None:
    job = factories.a_job("failed")
    first = root("GET", f"/jobs/{job}")
    assert root("GET", f"/jobs/{job}", If_None_Match=first["ETag"]).status_code == 304
    root("POST", f"/jobs/{job}/retry", {"reason": "again"})
    again = root("GET", f"/jobs/{job}", If_None_Match=first["ETag"])
    assert (again.status_code, again.data["state"]) == (200, "pending")


def test_only_what_was_seen_is_changed(root: Caller) -> None:
    body = {"scope": "queue:default", "start": "01:00", "end": "02:00", "reason": "night"}
    made = root("POST", "/blackouts", body).data
    path, patch = f"/blackouts/{made['id']}", {"enabled": False, "reason": "not now"}
    tag = root("GET", path)["ETag"]
    assert root("PATCH", path, patch).status_code == 428
    assert root("PATCH", path, patch, If_Match='"other"').status_code == 412
    assert root("PATCH", path, patch, If_Match=tag).data["enabled"] is False
    assert root("PATCH", path, patch, If_Match=tag).status_code == 412


def test_rotating_forwarded_addresses_does_not_help(acme: Caller, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "API_RATES": {"read": "3/d", "refused": "2/d"}}
    told = [acme("GET", "/me", X_Forwarded_For=f"10.0.0.{n}").status_code for n in range(5)]
    assert told == [200, 200, 200, 429, 429]
    response = acme("GET", "/me")
    assert int(response["Retry-After"]) > 0
    stranger = Client()
    told = [
        call(stranger, "GET", "/me", X_Forwarded_For=f"10.0.1.{n}").status_code for n in range(4)
    ]
    assert told == [401, 401, 429, 429]
    forget_counts()
    response = acme("GET", "/me")
    assert response["RateLimit"].startswith('"read";r=2;t=')


def test_the_address_is_what_the_trusted_proxies_say(settings: Any) -> None:
    request = RequestFactory().get(
        "/", REMOTE_ADDR="10.9.9.9", headers={"X-Forwarded-For": "1.1.1.1, 2.2.2.2, 3.3.3.3"}
    )
    for proxies, address in ((0, "10.9.9.9"), (1, "3.3.3.3"), (2, "2.2.2.2"), (4, "10.9.9.9")):
        settings.JOBS = {**settings.JOBS, "API_PROXIES": proxies}
        assert requests.address(request) == address


def test_a_job_joins_the_trace_of_its_caller(root: Caller) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    made = root("POST", "/jobs", {"kind": "test.noop"}, traceparent=parent)
    assert parent in factories.row(made.data["id"]).trace_context
    made = root("POST", "/jobs", {"kind": "test.noop"}, traceparent="00-zz-1-01")
    assert factories.row(made.data["id"]).trace_context == ""


def test_a_unique_job_is_there_once(root: Caller) -> None:
    body = {"kind": "test.noop", "unique": {"key": "k"}}
    first, again = root("POST", "/jobs", body), root("POST", "/jobs", body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.data["deduplicated"] and again.data["id"] == first.data["id"]


def test_a_state_that_forbids_it_says_what_is_allowed(root: Caller) -> None:
    job = factories.a_job("succeeded")
    response = root("POST", f"/jobs/{job}/retry", {"reason": "again"})
    assert response.status_code == 409
    assert response.data["current_state"] == "succeeded"
    assert response.data["allowed_actions"] == ["replay"]
    outcome = factories.sql("SELECT outcome FROM jobs_audit WHERE action = 'job.retry'")
    assert outcome == [("refused",)]


def test_payloads_are_told_only_to_who_may_see_them(root: Caller) -> None:
    job = jobs.enqueue(Noop(data="hello")).id
    assert root("GET", f"/jobs/{job}").data["payload"] is None
    assert root("GET", f"/jobs/{job}?include=payload").data["payload"] == {"data": "hello"}
    blind = Caller(permissions=["view_job"])
    assert blind("GET", f"/jobs/{job}").status_code == 200
    assert blind("GET", f"/jobs/{job}?include=payload").status_code == 403
    assert blind("GET", "/jobs?include=payload").status_code == 403
    assert blind("GET", "/jobs?query=payload.data:hello").status_code == 403


# ---- keys


def test_a_key_is_kept_as_a_hash_and_told_once(root: Caller) -> None:
    body = {"name": "new", "permissions": ["view_job"], "reason": "a test"}
    made = root("POST", "/api-keys", body, Idempotency_Key="once")
    again = root("POST", "/api-keys", body, Idempotency_Key="once")
    assert made.data["secret"].startswith("jd_live_") and again.data["secret"] is None
    secret = made.data["secret"].rpartition("_")[2]
    for table in ("jobs_apikey", "jobs_api_answer", "jobs_audit"):
        assert secret not in str(factories.sql(f"SELECT t::text FROM {table} t"))  # noqa: S608


def test_a_key_is_good_as_long_and_from_where_it_may(db: None, set_clock: Any) -> None:
    told = apikeys.create(
        "k", ["view_job"], addresses=["10.0.0.0/8"], by="tests", reason="a test",
        expires_at=datetime.now(UTC) + timedelta(hours=2),
    )  # fmt: skip

    def good(text: str = told.text, address: str = "10.1.2.3") -> bool:
        return apikeys.principal(text, address=address) is not None

    assert good() and not good(address="11.1.2.3") and not good(address="unknown")
    assert not good(told.text[:-1] + ("a" if told.text[-1] != "a" else "b"))
    assert not good(told.text + "a") and not good("") and not good("jd_live_\x00_")
    rotated = apikeys.rotate(told.key.pk, by="tests", reason="a test", overlap=timedelta(hours=1))
    assert good() and good(rotated.text)
    set_clock(datetime.now(UTC) + timedelta(minutes=61))
    assert not good() and good(rotated.text)
    set_clock(datetime.now(UTC) + timedelta(hours=3))
    assert not good(rotated.text)
    set_clock(None)
    apikeys.revoke(told.key.pk, by="tests", reason="a test")
    assert not good(rotated.text)


def test_nobody_gives_more_than_he_has(db: None) -> None:
    who = Principal("p", "api", frozenset({"manage_apikey", "view_job"}), Scope(frozenset({"a"})))
    ok = apikeys.create("k", ["view_job"], tenants=["a"], by=who, reason="a test").key
    with pytest.raises(Denied):
        apikeys.create("k", ["retry_job"], tenants=["a"], by=who, reason="a test")
    own = apikeys.create("k", ["view_job"], by=who, reason="a test").key
    assert own.tenants == ["a"]
    for tenants in (["b"], ["a", "b"]):
        with pytest.raises(InvalidOption):
            apikeys.create("k", ["view_job"], tenants=tenants, by=who, reason="a test")
    theirs = apikeys.create("k", ["view_job"], tenants=["b"], by="tests", reason="a test").key
    for verb in (apikeys.rotate, apikeys.revoke):
        with pytest.raises(UnknownTarget):
            verb(theirs.pk, by=who, reason="a test")
    assert set(apikeys.visible(who)) == {ok, own}
    assert ApiKey.objects.count() == 3


# ---- sessions, and a host's own login


def user(*permissions: str) -> User:
    made = User.objects.create_user("ana", password="x")
    for name in permissions:
        made.user_permissions.add(
            Permission.objects.get(codename=name, content_type__app_label="jobs")
        )
    return made


def test_a_session_needs_the_csrf_token_to_write() -> None:
    ana = user("view_job", "enqueue_job")
    client = Client(enforce_csrf_checks=True)
    client.force_login(ana)
    assert call(client, "GET", "/jobs").status_code == 200
    response = call(client, "POST", "/jobs", {"kind": "test.noop"})
    assert (response.status_code, response.data["code"]) == (403, "csrf")
    assert not Job.objects.exists()
    client.cookies["csrftoken"] = token = "a" * 32
    made = call(client, "POST", "/jobs", {"kind": "test.noop"}, X_CSRFToken=token)
    assert made.status_code == 201
    assert factories.row(made.data["id"]).tenant == f"user:{ana.pk}"


class Login:
    """A host's own login, which finds a principal."""

    def __call__(self, request: Any) -> Any:
        name = request.headers.get("X-Host-User")
        return Principal(name, "api") if name else None


HOST = NinjaAPI(urls_namespace="host", docs_url=None, openapi_url="")
HOST.add_router(
    "/desk", build_router(auth=Login(), scope=Scope(frozenset({"acme"})), include={"jobs", "me"})
)


@HOST.get("/own", auth=None)
def own(request: Any, number: int) -> int:
    return number


def test_inside_of_a_hosts_api_it_is_the_same(settings: Any) -> None:
    from django.urls import path

    settings.ROOT_URLCONF = type("Urls", (), {"urlpatterns": [path("api/v1/", HOST.urls)]})
    client, mine = Client(), {"X_Host_User": "ana"}
    theirs = jobs.enqueue(Noop(), tenant="other").id
    response = call(client, "GET", "/desk/jobs")
    assert (response.status_code, response.data["code"]) == (401, "unauthenticated")
    assert call(client, "GET", "/desk/me", **mine).data["tenants"] == ["acme"]
    response = call(client, "GET", f"/desk/jobs/{theirs}", **mine)
    assert (response.status_code, response.data["code"]) == (404, "unknown-job")
    response = call(client, "POST", "/desk/jobs", {"kind": 5}, **mine)
    assert response["Content-Type"] == "application/problem+json"
    assert response.data["errors"][0]["pointer"] == "/kind"
    assert call(client, "GET", "/desk/queues", **mine).status_code == 404
    # The host's own operations are as they were.
    response = call(client, "GET", "/own?number=x")
    assert "detail" in response.data and "code" not in response.data


def test_an_unknown_section_is_named(db: None) -> None:
    with pytest.raises(ConfigError, match="did you mean 'queues'"):
        build_router(include={"queue"})
