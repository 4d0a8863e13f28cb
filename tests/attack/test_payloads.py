"""No job that a caller enqueues reaches rows of another tenant, whatever its kind."""

from __future__ import annotations

from typing import Any

import pytest

from jobs import registry
from jobs.models import Job
from tests.api.conftest import Caller
from tests.attack import requests
from tests.attack.test_scope import an_erp, planted  # noqa: F401 - a fixture
from tests.webhooks.conftest import on  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("on")]


def named(schema: Any, where: str = "") -> set[str]:
    """The members of a payload that could name a row: ids, by their type or their name."""
    found: set[str] = set()
    if isinstance(schema, dict):
        if schema.get("format") == "uuid" or where.lower().endswith(("_id", "id")):
            found.add(where)
        for name, inner in schema.get("properties", {}).items():
            found |= named(inner, name)
        for key, inner in schema.items():
            if key != "properties":
                found |= named(inner, where if key in ("items", "anyOf") else "")
    elif isinstance(schema, list):
        for inner in schema:
            found |= named(inner, where)
    return found - {""}


def kinds() -> list[registry.Handler]:
    """Every kind of the project; those of the tests themselves do nothing for a tenant."""
    return [one for one in registry.handlers() if not one.kind.startswith("test.")]


def test_whatever_names_a_row_in_its_payload_is_internal() -> None:
    open_ones = {
        one.kind: named(one.payload.model_json_schema()) for one in kinds() if not one.internal
    }

    assert {kind: names for kind, names in open_ones.items() if names} == {}
    assert {"jobs.bulk", "jobs.webhook", "email:send"} <= {
        one.kind for one in kinds() if named(one.payload.model_json_schema())
    }


def test_no_internal_kind_is_enqueued_with_the_ids_of_others() -> None:
    theirs = planted()
    acme = Caller(name="acme", tenants=["acme"])
    before = Job.objects.count()
    named = {
        **theirs, "delivery": theirs["delivery_id"], "outboxId": theirs["email_id"],
        "companyId": theirs["company"], "file_id": theirs["document_id"],
    }  # fmt: skip
    payloads: dict[str, Any] = {}
    for one in kinds():
        if one.internal:
            schema = one.payload.model_json_schema()
            made = requests.Operation(one.kind, "", "", {}, schema.get("$defs", {}))
            payloads[one.kind] = made._made("", schema, named)
    assert {"jobs.bulk", "jobs.webhook", "email:send"} < payloads.keys()

    for kind in payloads:
        for path, body in (
            ("/jobs", {"kind": kind, "payload": payloads[kind]}),
            ("/jobs/batch", {"jobs": [{"kind": kind, "payload": payloads[kind]}]}),
        ):
            answer = acme("POST", path, body)
            assert (answer.status_code, answer.data["code"]) in (
                (422, "invalid-option"),
                (404, "unknown-queue"),
            ), answer.data
    assert Job.objects.count() == before
