"""A step before the transaction of an operation, keys that are demanded, and rates of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import path
from ninja import NinjaAPI, Router, Status

import jobs
from jobs.api import In, Problem, auth, idempotency, operation, prepared
from jobs.engine import sql
from jobs.errors import InvalidOption
from jobs.models import Answer, Audit, Job
from tests.api.conftest import Caller, call
from tests.api.test_races import at_once
from tests.jobs import factories
from tests.jobs.conftest import no_redis  # noqa: F401 - a fixture
from tests.specimens.handlers import Noop

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]
committing = pytest.mark.django_db(transaction=True)


class World:
    """What stands outside: it is called by the step, and may be broken."""

    def __init__(self) -> None:
        self.calls, self.in_transaction = list[str](), list[bool]()
        self.error: Exception | None = None
        self.conflicts, self.refusal = 0, ""
        self.gate: threading.Event | None = None

    def call(self, what: str) -> str:
        self.calls.append(what)
        self.in_transaction.append(connection.in_atomic_block)
        if self.gate is not None:
            assert self.gate.wait(30)
        if self.error is not None:
            raise self.error
        return f"charge-{len(self.calls)}"


world = World()
router = Router(auth=auth.default())


class OrderIn(In):
    what: str


def charge(request: Any, body: OrderIn) -> str:
    return world.call(body.what)


@operation(
    router, "POST", "/orders", "order_create", needs="enqueue_job", answer={201: dict[str, str]},
    before=charge, needs_key=True,
)  # fmt: skip
def order(request: Any, body: OrderIn) -> Any:
    """Create an order."""
    jobs.enqueue(Noop(), correlation_id=prepared(request))
    if world.conflicts:
        world.conflicts -= 1
        factories.sql("DO $$BEGIN RAISE EXCEPTION 'in the way' USING ERRCODE = '40001'; END$$")
    if world.refusal:
        raise Problem(422, world.refusal, "is wrong")
    return Status(201, {"charge": prepared(request)})


@operation(
    router, "POST", "/quotes", "quote_create", needs="enqueue_job", answer={200: dict[str, str]},
    rate="3/d", before=lambda request: world.call("quote"),
)  # fmt: skip
def quote(request: Any) -> Any:
    """Ask for a quote."""
    return {"quote": prepared(request)}


@operation(
    router, "GET", "/rates", "rate_list", needs="view_job", answer=dict[str, str], rate="2/d"
)
def rates(request: Any) -> Any:
    """List rates."""
    return {}


api = NinjaAPI(urls_namespace="ahead")
api.add_router("", router)
urlpatterns = [path("api/v1/", api.urls)]
BODY = {"what": "a hat"}


@pytest.fixture(autouse=True)
def _a_new_world() -> Iterator[None]:
    world.__init__()  # type: ignore[misc]
    yield


def ask(root: Caller, where: str = "/orders", body: Any = BODY, **headers: str) -> Any:
    headers.setdefault("Authorization", f"Bearer {root.secret}")
    return call(Client(), "POST", where, body, **headers)


def code(response: Any) -> tuple[int, str]:
    return response.status_code, (response.data or {}).get("code", "")


@committing
def test_a_step_calls_others_while_no_transaction_is_open() -> None:
    response = ask(Caller(), Idempotency_Key="k")
    assert (response.status_code, response.data) == (201, {"charge": "charge-1"})
    assert (world.calls, world.in_transaction) == (["a hat"], [False])
    assert Job.objects.get().correlation_id == "charge-1"


def test_an_answer_that_is_kept_calls_nobody_again() -> None:
    root = Caller()
    first, again = (ask(root, Idempotency_Key="k") for _ in range(2))
    assert (again.status_code, again.content) == (201, first.content)
    assert again["Idempotent-Replayed"] == "true"
    assert len(world.calls) == Job.objects.count() == Answer.objects.count() == 1
    assert code(ask(root, body={"what": "a coat"}, Idempotency_Key="k")) == (
        422, "idempotency-key-reused",
    )  # fmt: skip


@committing
def test_a_conflict_repeats_the_operation_and_not_the_step() -> None:
    world.conflicts = 2
    assert ask(Caller(), Idempotency_Key="k").status_code == 201
    assert len(world.calls) == Job.objects.count() == 1


@pytest.mark.parametrize("has_key", [True, False])
def test_a_step_that_fails_leaves_nothing(has_key: bool) -> None:
    root, key = Caller(), {"Idempotency_Key": "k"} if has_key else {}
    where, body = ("/orders", BODY) if has_key else ("/quotes", None)
    world.error = Problem(502, "bank-down", "the bank does not answer")
    assert code(ask(root, where, body, **key)) == (502, "bank-down")
    world.error = ValueError("a secret")
    response = ask(root, where, body, **key)
    assert code(response) == (500, "internal") and b"secret" not in response.content
    assert not Job.objects.exists() and not Answer.objects.exists()
    world.error = None
    assert ask(root, where, body, **key).status_code in (200, 201)


@committing
def test_an_operation_that_fails_frees_the_key() -> None:
    root, world.refusal = Caller(), "wrong"
    assert code(ask(root, Idempotency_Key="k")) == (422, "wrong")
    assert not Job.objects.exists() and not Answer.objects.exists()
    world.refusal = ""
    assert ask(root, Idempotency_Key="k").data == {"charge": "charge-2"}


@pytest.mark.parametrize(
    ("headers", "body", "wanted"),
    [
        ({"Authorization": "Bearer wrong"}, BODY, (401, "unauthenticated")),
        ({}, BODY, (428, "idempotency-key-missing")),
        ({"Idempotency_Key": "k k"}, BODY, (400, "idempotency-key-invalid")),
        ({"Idempotency_Key": "k"}, {"what": 5}, (422, "invalid")),
        ({"Idempotency_Key": "k"}, {"waht": "x"}, (422, "invalid")),
        ({"Idempotency_Key": "k"}, b"{", (400, "invalid-json")),
    ],
)
def test_a_request_that_is_refused_has_no_step(
    headers: dict[str, str], body: Any, wanted: tuple[int, str]
) -> None:
    assert code(ask(Caller(), body=body, **headers)) == wanted
    assert world.calls == [] and not Answer.objects.exists()


def test_a_denied_request_has_no_step_and_is_in_the_audit() -> None:
    weak = Caller(permissions=["view_job"])
    assert code(ask(weak, Idempotency_Key="k")) == (403, "denied")
    assert world.calls == []
    assert Audit.objects.filter(action="order_create", outcome="denied").count() == 1


@committing
def test_twins_at_once_make_one_call() -> None:
    root = Caller()
    for n in range(4):
        answers = at_once(5, lambda _, key=f"t{n}": ask(root, Idempotency_Key=key))  # type: ignore[misc]
        codes = [code(one) for one in answers]
        assert set(codes) <= {(201, ""), (409, "idempotency-key-in-use")} and (201, "") in codes
        assert len(world.calls) == Job.objects.count() == n + 1


@committing
def test_a_key_is_taken_while_the_step_runs() -> None:
    root, world.gate = Caller(), threading.Event()
    first: list[Any] = []

    def run() -> None:
        first.append(ask(root, Idempotency_Key="k"))
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while not world.calls:
            thread.join(0.01)
        other = ask(root, Idempotency_Key="k")
        assert code(other) == (409, "idempotency-key-in-use") and other["Retry-After"] == "1"
        assert [one.status for one in Answer.objects.all()] == [idempotency.UNDER_WAY]
    finally:
        world.gate.set()
        thread.join(30)
    assert first[0].status_code == 201
    assert ask(root, Idempotency_Key="k")["Idempotent-Replayed"] == "true"
    assert len(world.calls) == 1


def test_the_claim_of_a_process_that_died_can_be_taken_over() -> None:
    root = Caller()
    assert ask(root, Idempotency_Key="k").status_code == 201
    factories.sql("UPDATE jobs_api_answer SET status = 0")
    assert code(ask(root, Idempotency_Key="k"))[0] == 409
    factories.sql(
        "UPDATE jobs_api_answer SET created_at = created_at - make_interval(secs => %s)",
        [idempotency.CLAIM + 1],
    )
    assert ask(root, Idempotency_Key="k").data == {"charge": "charge-2"}


def test_a_claim_that_was_lost_meanwhile_commits_nothing() -> None:
    """It has taken longer than a claim, and another process has taken the key over."""
    original = world.call

    def slow(what: str) -> str:
        factories.sql("UPDATE jobs_api_answer SET id = id + 1000")
        return original(what)

    world.call = slow  # type: ignore[method-assign]
    try:
        assert code(ask(Caller(), Idempotency_Key="k")) == (409, "idempotency-key-in-use")
    finally:
        del world.call
    assert not Job.objects.exists()
    assert [one.status for one in Answer.objects.all()] == [idempotency.UNDER_WAY]


def test_an_operation_has_a_rate_of_its_own(no_redis: None) -> None:  # noqa: F811
    root, other = Caller(), Caller()
    said = [ask(root, "/quotes", None) for _ in range(4)]
    assert [one.status_code for one in said] == [200, 200, 200, 429]
    assert len(world.calls) == 3
    assert said[0]["RateLimit-Policy"] == '"quote_create";q=3;w=86400'
    assert said[0]["RateLimit"].startswith('"quote_create";r=2;')
    assert 0 < int(said[-1]["Retry-After"]) <= 86400
    assert said[-1].data["code"] == "throttled"
    assert ask(other, "/quotes", None).status_code == 200
    reading = partial(call, Client(), "GET", "/rates", Authorization=f"Bearer {root.secret}")
    assert [reading().status_code for _ in range(3)] == [200, 200, 429]


def test_a_request_that_fails_is_not_counted_unless_its_step_has_run(
    no_redis: None,  # noqa: F811
) -> None:
    root = Caller()
    reading = partial(call, Client(), "GET", Authorization=f"Bearer {root.secret}")
    said = [reading(path) for path in ("/rates?x=1", "/rates?x=1", "/rates", "/rates?x=1")]
    assert [one.status_code for one in said] == [422, 422, 200, 422]
    assert [one["RateLimit"].split(";")[1] for one in said] == ["r=2", "r=2", "r=1", "r=1"]
    assert [reading("/rates").status_code for _ in range(3)] == [200, 429, 429]

    world.error = Problem(502, "away", "cannot be reached")
    assert [ask(root, "/quotes?x=1", None).status_code for _ in range(4)] == [422] * 4
    assert [ask(root, "/quotes", None).status_code for _ in range(4)] == [502, 502, 502, 429]


def test_the_rates_of_all_operations_hold_as_well(settings: Any, no_redis: None) -> None:  # noqa: F811
    settings.JOBS = {**settings.JOBS, "API_RATES": {"write": "2/d"}}
    root = Caller()
    said = [ask(root, "/quotes", None) for _ in range(3)]
    assert [one.status_code for one in said] == [200, 200, 429]
    assert said[0]["RateLimit-Policy"] == '"write";q=2;w=86400'


@committing
def test_a_request_that_is_repeated_counts_once(settings: Any, no_redis: None) -> None:  # noqa: F811
    settings.JOBS = {**settings.JOBS, "API_RATES": {"write": "100/d"}}
    world.conflicts = 2
    root = Caller()
    first = ask(root, Idempotency_Key="k")
    second = ask(root, Idempotency_Key="k2")
    left = [int(one["RateLimit"].split("r=")[1].split(";")[0]) for one in (first, second)]
    assert left[0] - left[1] == 1


def test_the_document_says_it() -> None:
    paths = api.get_openapi_schema(path_prefix="/")["paths"]
    made = paths["/orders"]["post"]
    [key] = [one for one in made["parameters"] if one["name"] == "Idempotency-Key"]
    assert key["required"] is True and "428" in made["responses"]
    asked = paths["/quotes"]["post"]
    [key] = [one for one in asked["parameters"] if one["name"] == "Idempotency-Key"]
    assert key["required"] is False and "428" not in asked["responses"]
    assert asked["x-rate"] == "3/d"
    assert "Retry-After" in asked["responses"]["429"]["headers"]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("GET", {"needs_key": True}),
        ("POST", {"rate": "often"}),
        ("POST", {"is_open": True, "rate": "1/s"}),
    ],
)
def test_what_makes_no_sense_is_refused(method: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(options))):
        operation(router, method, "/x", "x", needs="", **options)


@committing
def test_a_step_is_never_inside_a_transaction(settings: Any) -> None:
    from django.db import transaction

    with transaction.atomic():
        assert sql.in_transaction()
        assert code(ask(Caller(), Idempotency_Key="k")) == (500, "internal")
    assert world.calls == []


def test_members_in_lists_are_not_stored_and_are_made_anew() -> None:
    told = {"id": 1, "files": [{"url": "signed", "name": "a"}, {"name": "b"}], "token": "x"}
    for name in ("files.url", "token", "absent", "id.deeper"):
        idempotency._hide(told, name.split("."))
    assert told == {"id": 1, "files": [{"url": None, "name": "a"}, {"name": "b"}], "token": None}
    kept = HttpResponse(json.dumps(told), content_type="application/json")
    again = idempotency.renewed(kept, lambda data: data["files"][0].update(url="signed again"))
    assert json.loads(again.content)["files"][0] == {"url": "signed again", "name": "a"}
