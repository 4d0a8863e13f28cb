"""Requests in the logs and in the jobs that they enqueue, under sync and async servers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, AsyncRequestFactory, Client, RequestFactory
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import jobs
from jobs import logs
from jobs.middleware import RequestMiddleware
from tests.jobs.factories import row
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def through(view: Callable[[HttpRequest], Any], **headers: str) -> HttpResponse:
    """The answer of the view behind the middleware."""
    answer = RequestMiddleware(view)(RequestFactory().get("/", headers=headers))
    assert isinstance(answer, HttpResponse)
    return answer


def enqueuing(made: list[Any]) -> Callable[[HttpRequest], HttpResponse]:
    def view(request: HttpRequest) -> HttpResponse:
        made.extend([jobs.enqueue(Noop()).id, *jobs.enqueue_many([Noop()])])
        return HttpResponse()

    return view


def test_jobs_carry_the_id_and_the_trace_of_their_request() -> None:
    made: list[Any] = []
    headers = {"X-Request-ID": "req-7", "traceparent": PARENT, "tracestate": "a=1"}
    assert through(enqueuing(made), **headers)["X-Request-ID"] == "req-7"
    for job in made:
        assert row(job).correlation_id == "req-7"
        assert json.loads(row(job).trace_context) == {"traceparent": PARENT, "tracestate": "a=1"}
    assert dict(logs.bound()) == {}
    assert row(jobs.enqueue(Noop()).id).trace_context == ""


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a\nb", "é"])
def test_an_id_that_is_none_is_replaced(given: str) -> None:
    made: list[Any] = []
    number = through(enqueuing(made), **{"X-Request-ID": given})["X-Request-ID"]
    assert len(number) == 32 and number != given
    assert row(made[0]).correlation_id == number


@pytest.mark.parametrize(
    "parent", ["", "nonsense", PARENT.replace(TRACE, "0" * 32), "ff" + PARENT[2:]]
)
def test_a_trace_that_is_none_is_ignored(parent: str) -> None:
    made: list[Any] = []
    through(enqueuing(made), traceparent=parent)
    assert {row(job).trace_context for job in made} == {""}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", made)
    yield
    made.shutdown()


@pytest.mark.usefixtures("provider")
def test_spans_of_this_process_continue_the_trace() -> None:
    made: list[Any] = []
    through(enqueuing(made), traceparent=PARENT)
    told = json.loads(row(made[0]).trace_context)["traceparent"]
    assert told.split("-")[1] == TRACE and told != PARENT  # the span of the enqueue
    with trace.get_tracer("web").start_as_current_span("request") as span:
        through(enqueuing(made), traceparent=PARENT)
    assert f"{span.get_span_context().trace_id:032x}" in row(made[2]).trace_context


def test_lines_know_the_request_and_its_user(client: Client) -> None:
    user = User.objects.create_user("ann")
    seen: list[dict[str, Any]] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(dict(logs.bound()))
        vars(request)["_cached_user"] = user  # as the login does
        seen.append(dict(logs.bound()))
        return HttpResponse()

    through(view, **{"X-Request-ID": "r"})
    assert seen == [{"request_id": "r"}, {"request_id": "r", "user_id": str(user.pk)}]


def test_the_project_has_it(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "django.request")
    client.force_login(User.objects.create_superuser("root"))
    seen: list[dict[str, Any]] = []

    class Look(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(dict(logs.bound()))

    look = Look()
    logging.getLogger("django.request").addHandler(look)
    answer = client.get("/admin/nothing/", headers={"X-Request-ID": "req-8"})
    logging.getLogger("django.request").removeHandler(look)
    assert (answer.status_code, answer["X-Request-ID"]) == (404, "req-8")
    assert seen == [{"request_id": "req-8", "user_id": str(User.objects.get().pk)}]


def test_an_error_ends_what_was_bound() -> None:
    def view(request: HttpRequest) -> HttpResponse:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        through(view, traceparent=PARENT)
    assert dict(logs.bound()) == {} and row(jobs.enqueue(Noop()).id).trace_context == ""


@pytest.mark.django_db(transaction=True)
def test_async_views_are_told_of_the_same() -> None:
    made: list[Any] = []

    async def view(request: HttpRequest) -> HttpResponse:
        await sync_to_async(enqueuing(made))(request)
        return HttpResponse()

    middleware = RequestMiddleware(view)
    assert iscoroutinefunction(middleware)
    headers = {"X-Request-ID": "req-9", "traceparent": PARENT}

    async def ask() -> HttpResponse:
        found: Any = middleware(AsyncRequestFactory().get("/", headers=headers))
        answer: HttpResponse = await found
        assert dict(logs.bound()) == {}
        return answer

    assert async_to_sync(ask)()["X-Request-ID"] == "req-9"
    assert {row(job).correlation_id for job in made} == {"req-9"}
    assert TRACE in row(made[0]).trace_context


@pytest.mark.django_db(transaction=True)
def test_an_asgi_server_answers_with_the_id() -> None:
    answer = async_to_sync(AsyncClient().get)("/admin/login/", headers={"X-Request-ID": "req-1"})
    assert (answer.status_code, answer["X-Request-ID"]) == (200, "req-1")
