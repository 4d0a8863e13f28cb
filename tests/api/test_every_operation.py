"""What holds for every operation of the API, also for those that are added later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from ninja import Schema

from config.api import api
from jobs.principals import every_permission
from tests.api import operations, world
from tests.api.conftest import Caller, call
from tests.api.operations import Op
from tests.jobs import factories

pytestmark = pytest.mark.django_db


def ids(op: Op) -> str:
    return op.id


FOR_ALL = {"me", "event_list", "event_stream", "event_ticket"}
"""Whoever is known may ask these about himself and his own; tests/realtime says how far."""
OF_ONESELF = {op.id for op in operations.ALL if op.id.startswith("trading_")}
"""Users do these with their own data; tests/trading/test_api.py says how far."""
COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_the_committed_document_is_that_of_the_code() -> None:
    schema = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/v1/"), default=str))
    assert schema == json.loads(COMMITTED.read_text()), "run `python -m tests.api.document`"


def test_no_two_schemas_share_a_name() -> None:
    """The document keeps one schema of each name, whatever the operations mean by it."""
    apps = ("jobs.", "emailgw.", "operations.", "publisher.", "trading.")
    ours = [one for one in set(schemas(Schema)) if one.__module__.startswith(apps)]
    names = [one.__name__ for one in ours]
    assert sorted(names) == sorted(set(names))
    assert len(names) > 150


def schemas(of: type[Schema]) -> Iterator[type[Schema]]:
    for one in of.__subclasses__():
        yield one
        yield from schemas(one)


def test_operations_have_ids_of_their_own_and_known_permissions() -> None:
    names = [op.id for op in operations.ALL]
    assert len(names) == len(set(names)) > 110
    assert {op.needs for op in operations.ALL} <= every_permission() | {""}
    assert {
        op.id for op in operations.ALL if not op.needs
    } == operations.OPEN | FOR_ALL | OF_ONESELF


def test_nobody_is_let_in_by_an_operation_without_login() -> None:
    for bound in api._get_bound_routers():
        for view in bound.path_operations.values():
            for one in view.operations:
                is_open = one.operation_id in operations.OPEN
                assert bool(one.auth_callbacks) != is_open, one.operation_id


@pytest.mark.parametrize("op", operations.GUARDED, ids=ids)
def test_without_a_key_nothing_is_told(client: Client, op: Op) -> None:
    response = call(client, op.method, op.url({}), op.body(), **op.headers())
    assert response.status_code == 401
    assert response["Content-Type"] == "application/problem+json"
    assert response.data["code"] == "unauthenticated"
    assert response.data["request_id"] == response["X-Request-ID"]


@pytest.mark.parametrize("op", [op for op in operations.GUARDED if op.needs], ids=ids)
def test_without_its_permission_nothing_happens(op: Op) -> None:
    caller = Caller(permissions=every_permission() - {op.needs})
    theirs = world.made()
    before = world.fingerprint()
    response = caller(op.method, op.url(theirs), op.body(), **op.headers())
    assert (response.status_code, response.data["permission"]) == (403, op.needs)
    assert world.fingerprint() == before
    if op.method != "GET":
        [(outcome,)] = factories.sql(
            "SELECT outcome FROM jobs_audit WHERE request_id = %s", [response["X-Request-ID"]]
        )
        assert outcome == "denied"


OWN = {
    "bulk_preview", "bulk_start", "apikey_create", "job_enqueue", "job_enqueue_many",
    "schedule_preview",
}  # fmt: skip
"""Operations without a target of their own: what they do is the caller's."""
ELSEWHERE = {
    "event_ticket",
    "breaker_list",
    "meter_list",
    "queue_list",
    "limit_list",
    "me",
    "kind_get",
    "kind_list",
}


@pytest.mark.parametrize(
    "op",
    [
        op
        for op in operations.OF_JOBS
        if ("{" in op.path or op.method != "GET")
        and op.id not in OWN | ELSEWHERE | {"batch_create"}
    ],
    ids=ids,
)
def test_what_others_have_does_not_exist(acme: Caller, op: Op) -> None:
    theirs = world.made()
    before = world.fingerprint()
    response = acme(op.method, op.url(theirs), op.body(), **op.headers())
    assert response.status_code == 404, response.data
    assert world.fingerprint() == before


NO_QUEUE = ("batch_", "outbox_", "view_")
"""Batches and views are their tenant's; of events, only the core's are of a queue: test_reach."""


@pytest.mark.parametrize(
    "op",
    [
        op
        for op in operations.OF_JOBS
        if ("{" in op.path or op.method != "GET")
        and op.id not in OWN | ELSEWHERE
        and not op.id.startswith(NO_QUEUE)
    ],
    ids=ids,
)
def test_what_is_of_another_queue_does_not_exist(op: Op) -> None:
    caller = Caller(queues=["elsewhere"])
    theirs = world.made()
    before = world.fingerprint()
    response = caller(op.method, op.url(theirs), op.body(), **op.headers())
    assert response.status_code == 404, response.data
    assert world.fingerprint() == before


@pytest.mark.parametrize(
    "op",
    [
        op
        for op in operations.OF_JOBS
        if op.method == "GET" and "{" not in op.path and op.id != "event_stream"
    ],
    ids=ids,
)
def test_lists_tell_nothing_of_others(acme: Caller, op: Op) -> None:
    theirs = world.made()
    response = acme("GET", op.url(theirs))
    if op.id in ("stats_throughput", "stats_kinds"):
        assert response.status_code == 403
        return
    assert response.status_code == 200
    data = response.data
    if isinstance(data, dict) and "data" in data:
        data = data["data"]
    if isinstance(data, list) and op.id not in ("kind_list", "apikey_list"):
        assert data == []
    assert "other" not in response.content.decode()


def theirs_in(name: str, theirs: dict[str, Any]) -> dict[str, Any]:
    """Bodies and queries that name what belongs to others."""
    noop = {"kind": "test.noop"}
    letter = {"action": "discard_letter", "ids": [theirs["letter"]], "reason": "a test"}
    jobs_of = {"action": "cancel", "ids": [str(theirs["pending"])], "reason": "a test"}
    return {
        "tenant": ("/jobs", {**noop, "tenant": "other"}),
        "no tenant": ("/jobs", {**noop, "tenant": ""}),
        "batch": ("/jobs", {**noop, "batch": str(theirs["batch_id"])}),
        "parent": ("/jobs", {**noop, "after": [str(theirs["pending"])]}),
        "one of many": ("/jobs/batch", {"jobs": [noop, {**noop, "tenant": "other"}]}),
        "batch's tenant": ("/batches", {"tenant": "other"}),
        "bulk of jobs": ("/bulk-operations", jobs_of),
        "bulk of letters": ("/bulk-operations", letter),
    }[name]  # type: ignore[return-value]


@pytest.mark.parametrize(
    "name",
    [
        "tenant", "no tenant", "batch", "parent", "one of many", "batch's tenant", "bulk of jobs",
        "bulk of letters",
    ],
)  # fmt: skip
def test_bodies_cannot_name_what_others_have(acme: Caller, name: str) -> None:
    theirs = world.made()
    before = world.fingerprint()
    path, body = theirs_in(name, theirs)
    response = acme("POST", path, body)
    assert response.status_code == 404, response.data
    assert world.fingerprint() == before


def test_filters_find_nothing_of_others(acme: Caller) -> None:
    theirs = world.made()
    for query in ("tenant:other", f"id:{theirs['pending']}", f"batch:{theirs['batch_id']}"):
        response = acme("GET", f"/jobs?query={query}")
        assert (response.status_code, response.data["data"]) == (200, [])
    assert UUID(str(theirs["pending"]))
