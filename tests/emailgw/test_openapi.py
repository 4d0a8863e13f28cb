"""What the API's document says of the gateway: its statuses, its codes, the contract."""

from __future__ import annotations

from typing import Any, get_args

from config.api import api
from emailgw import api as gateway
from emailgw.models import Status
from emailgw.requests import EmailRequest


def document() -> Any:
    return api.get_openapi_schema(path_prefix="/api/v1/")


def test_every_status_of_the_outbox_is_one_of_the_document() -> None:
    assert set(get_args(gateway.State)) == set(Status.values)
    [wanted] = [
        one for one in document()["paths"]["/api/v1/emails"]["get"]["parameters"]
        if one["name"] == "status"
    ]  # fmt: skip
    assert set(wanted["schema"]["anyOf"][0]["enum"]) == set(Status.values)


def test_every_operation_tells_the_envelope_and_its_codes() -> None:
    paths = {p: found for p, found in document()["paths"].items() if p.startswith("/api/v1/email")}
    assert len(paths) >= 8
    for path, methods in paths.items():
        for method, told in methods.items():
            problem = told["responses"]["4XX"]["content"]["application/problem+json"]["schema"]
            codes = problem["properties"]["error"]["properties"]["code"]["enum"]
            assert {"VALIDATION_ERROR", "RATE_LIMIT_EXCEEDED", "UNAUTHORIZED"} <= set(codes), (
                path, method,
            )  # fmt: skip


def test_every_operation_that_writes_tells_the_form_of_its_key() -> None:
    for path, methods in document()["paths"].items():
        if path.startswith("/api/v1/email") and "post" in methods:
            [told] = [p for p in methods["post"]["parameters"] if p["name"] == "Idempotency-Key"]
            assert told["schema"]["pattern"] == "^[A-Za-z0-9_-]{1,128}$", path


def test_the_contract_of_a_request_is_in_the_document() -> None:
    shown = document()["components"]["schemas"]["SendIn"]["properties"]["email"]
    assert set(shown["properties"]) == set(EmailRequest.model_fields)
    assert shown["properties"]["subject"]["maxLength"] == 150
    assert "cpfCnpj" in shown["properties"]["recipient"]["properties"]
    assert set(shown["required"]) == {"to", "subject", "html"}
