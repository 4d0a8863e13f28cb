"""Requests made up from the OpenAPI document itself, with the keys of two tenants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from config.api import api
from config.wsgi import application
from tests.api.conftest import Caller

pytestmark = pytest.mark.django_db
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.fixture(autouse=True)
def one_connection() -> Iterator[None]:
    """The end of a request does not end the transaction around the test."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


schema = schemathesis.openapi.from_dict(api.get_openapi_schema(path_prefix="/api/v1/"))
schema.app = application
ending = schema.exclude(operation_id="event_stream")  # it has no end: tests/realtime


HOW: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.explicit, Phase.generate],
}


def is_answered_as_documented(case: Any) -> None:
    for options in ({"tenants": ["acme"]}, {"tenants": ["other"]}):
        caller = Caller(**options)
        case.headers["Authorization"] = f"Bearer {caller.secret}"
        response = case.call()
        case.validate_response(response, checks=CHECKS)


@pytest.mark.slow
@ending.parametrize()
@settings(max_examples=4, derandomize=True, **HOW)
def test_whatever_is_asked_is_answered_as_documented(case: Any, db: None) -> None:
    is_answered_as_documented(case)


@pytest.mark.soak
@ending.parametrize()
@settings(max_examples=50, **HOW)
def test_much_more_is_answered_as_documented(case: Any, db: None) -> None:
    is_answered_as_documented(case)
