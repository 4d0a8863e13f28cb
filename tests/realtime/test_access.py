"""Who may listen, what each is shown, and what is wrong with a question."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.core.checks import run_checks
from django.http import HttpRequest
from django.test import Client, RequestFactory

from jobs import checks
from jobs.errors import EventError
from jobs.events import Event
from jobs.principals import Principal, Scope
from jobs.realtime import access, refusals
from jobs.realtime.questions import View, question

ACME = Principal("ann", "api", frozenset(), Scope(tenants=frozenset({"acme"})), is_staff=False)
STAFF = Principal("sue", "admin")


def event(**changed: Any) -> Event:
    given: dict[str, Any] = {
        "topic": "a",
        "key": "",
        "tenant": "acme",
        "audience": "tenant",
        "payload": {},
    }
    given |= changed
    return Event(position=1, id=uuid4(), occurred_at=datetime(2026, 5, 1, tzinfo=UTC), **given)


@pytest.mark.parametrize(
    ("who", "asked", "changed", "shown"),
    [
        (ACME, {}, {}, True),
        (ACME, {}, {"audience": "staff"}, False),
        (ACME, {}, {"tenant": "other"}, False),
        (ACME, {}, {"tenant": ""}, False),
        (ACME, {"tenant": "other"}, {"tenant": "other"}, False),
        (ACME, {"tenant": "other,acme"}, {}, True),
        (STAFF, {}, {"audience": "staff", "tenant": ""}, True),
        (STAFF, {"tenant": "acme"}, {"tenant": "other"}, False),
        (STAFF, {"topics": "b.*, a"}, {}, True),
        (STAFF, {"topics": "b.*"}, {}, False),
        (STAFF, {"batch": str(uuid4())}, {}, False),
        (Principal("k", scope=Scope(queues=frozenset({"q"}))), {}, {}, True),
        (
            Principal("k", scope=Scope(queues=frozenset({"q"}))),
            {},
            {"topic": "jobs.job.failed", "payload": {"queue": "other"}},
            False,
        ),
    ],
)
def test_each_is_shown_what_is_his(
    who: Principal, asked: dict[str, str], changed: dict[str, Any], shown: bool
) -> None:
    assert question(asked, who).view.shows(event(**changed)) is shown


@pytest.mark.parametrize(
    ("topic", "payload", "shown"),
    [
        ("jobs.job.failed", {"queue": "q"}, True),
        ("jobs.job.deduplicated", {"job": "1"}, False),
        ("jobs.effect.in_doubt", {"job": "1"}, False),
        ("jobs.effect.in_doubt", {"job": "1", "queue": "q"}, True),
        ("jobs.batch.completed", {"batch": "1"}, True),
        ("jobs.scope.paused", {"scope": "queue:q"}, True),
        ("jobs.scope.paused", {"scope": "queue:other"}, False),
        ("jobs.scope.paused", {"scope": "kind:mail"}, False),
        ("jobs.circuit.opened", {"name": "smtp"}, False),
        ("order.paid", {"queue": "other"}, True),
    ],
)
def test_who_sees_a_queue_is_told_nothing_of_others(
    topic: str, payload: dict[str, Any], shown: bool
) -> None:
    who = Principal("k", scope=Scope(queues=frozenset({"q"})))
    assert question({}, who).view.shows(event(topic=topic, payload=payload)) is shown


def test_a_batch_is_its_own_events_and_those_of_its_jobs() -> None:
    batch = str(uuid4())
    view = question({"batch": batch.upper()}, STAFF).view
    assert view == View(is_staff=True, batch=batch)
    assert view.shows(event(key=f"batch:{batch}")) and view.shows(event(payload={"batch": batch}))


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"since": ""}, "since"),
        ({"since": "-1"}, "since"),
        ({"since": "٣"}, "since"),
        ({"since": "9" * 30}, "since"),
        ({"topics": ""}, "topics"),
        ({"tenant": "a\0b"}, "tenant"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"batch": "7"}, "batch"),
        ({"topic": "a"}, "topic"),
    ],
)
def test_a_wrong_option_is_named(asked: dict[str, str], name: str) -> None:
    with pytest.raises(EventError, match=f"^{name}: "):
        question(asked, STAFF)


def test_where_a_browser_left_off_goes_before_since() -> None:
    assert question({"since": "3"}, STAFF, "7").since == 7


@pytest.fixture
def by_header() -> Any:
    def known(request: HttpRequest) -> Principal | None:
        return ACME if request.headers.get("Authorization") == "Bearer k" else None

    access.AUTHENTICATORS.append(known)
    yield
    access.AUTHENTICATORS.remove(known)


@pytest.mark.usefixtures("by_header")
def test_others_may_say_who_asks() -> None:
    made = RequestFactory().get("/", headers={"Authorization": "Bearer k"})
    made.user = AnonymousUser()
    assert access.principal_of(made) is ACME
    scope = {"type": "websocket", "path": "/", "query_string": b"", "headers": []}
    assert access.principal_of(access.request_of(scope)) is None
    scope["headers"] = [(b"authorization", b"Bearer k")]
    assert access.principal_of(access.request_of(scope)) is ACME


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("origin", "opens"),
    [
        ("http://site.example", True),
        ("http://SITE.example", True),
        ("https://good.example", True),
        ("https://a.wild.example", True),
        ("http://good.example", False),
        ("http://site.example.evil.example", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_a_session_opens_sockets_from_pages_of_its_site(
    origin: str, opens: bool, settings: Any, client: Client
) -> None:
    settings.ALLOWED_HOSTS = ["site.example"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://good.example", "https://*.wild.example"]
    client.force_login(User.objects.create(username="ann"))
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    headers = [(b"host", b"site.example"), (b"cookie", f"sessionid={cookie}".encode())]
    headers += [(b"origin", origin.encode())] if origin else []
    request = access.request_of(
        {"type": "websocket", "path": "/", "query_string": b"", "headers": headers}
    )
    if opens:
        assert (found := access.principal_of(request)) and found.name == "ann"
    else:
        with pytest.raises(refusals.Refused):
            access.principal_of(request)


@pytest.mark.django_db
def test_a_page_of_events_and_no_stream_without_asgi(client: Client) -> None:
    client.force_login(User.objects.create(username="ann"))
    answer = client.get("/api/v1/events")
    assert (answer.status_code, answer.json()["data"]) == (200, [])
    answer = client.get("/api/v1/events/stream")
    assert (answer.status_code, answer["Content-Type"]) == (501, "application/problem+json")


@pytest.mark.parametrize("name", [None, "", "nowhere.application", "config.asgi.nothing"])
def test_a_server_without_an_application_is_a_warning(name: Any, settings: Any) -> None:
    assert checks.processes.sockets_are_served() == []
    settings.ASGI_APPLICATION = name
    assert [message.id for message in checks.processes.sockets_are_served()] == ["jobs.W051"]
    told = [run_checks(include_deployment_checks=deploy) for deploy in (False, True)]
    assert ["jobs.W051" in {message.id for message in one} for one in told] == [False, True]


def test_a_project_that_mounts_no_events_is_not_bothered(settings: Any) -> None:
    settings.ASGI_APPLICATION = None
    settings.ROOT_URLCONF = "tests.realtime.test_access"
    assert checks.processes.sockets_are_served() == []


urlpatterns: list[Any] = []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("is_staff", "may", "status"), [(True, False, 403), (True, True, 200), (False, False, 200)]
)
def test_staff_need_the_permission_to_see_jobs(
    client: Client, is_staff: bool, may: bool, status: int
) -> None:
    """Who may log in to the site's admin is not one who may see all tenants' events."""
    user = User.objects.create_user("eve", is_staff=is_staff)
    if may:
        user.user_permissions.add(Permission.objects.get(codename="view_job"))
    client.force_login(user)
    assert client.get("/api/v1/events").status_code == status
    ticket = client.post("/api/v1/events/ticket", "{}", content_type="application/json")
    assert ticket.status_code == (201 if status == 200 else 403)
