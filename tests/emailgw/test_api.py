"""The gateway for programs."""

from __future__ import annotations

from typing import Any

import pytest

from emailgw.models import Company, OutboxEmail
from jobs.testing import run_jobs
from tests.api.conftest import Caller
from tests.emailgw import factories
from tests.emailgw.sink import Sink

pytestmark = pytest.mark.django_db


@pytest.fixture
def caller(company: Company) -> Caller:
    return Caller(tenants=[str(company.pk)])


def test_an_email_is_handed_in_and_followed(caller: Caller, company: Company, sink: Sink) -> None:
    answer = caller("POST", "/email/send", {"email": factories.request()}, Idempotency_Key="k")
    assert answer.status_code == 202, answer.content
    again = caller("POST", "/email/send", {"email": factories.request()}, Idempotency_Key="k")
    assert again.data == answer.data and answer.data["jobId"] == answer.data["outboxId"]
    assert run_jobs().succeeded == 1
    row = OutboxEmail.objects.get()
    assert str(row.pk) == answer.data["outboxId"]
    [listed] = caller("GET", "/emails?status=SENT").data["data"]
    assert (listed["id"], listed["to"]) == (str(row.pk), "a***@c***.test")
    told = caller("GET", f"/emails/{row.pk}")
    assert told.data["events"][-1]["type"] == "SENT"
    assert "ana@" not in told.content.decode()


@pytest.mark.parametrize(
    ("email", "status", "code", "pointer"),
    [
        ({"to": "a@x.test, b@y.test"}, 422, "VALIDATION_ERROR", "/email/to"),
        ({"recipient": {"cpfCnpj": "1234"}}, 422, "VALIDATION_ERROR", "/email/recipient/cpfCnpj"),
        ({"subject": "a\nBcc: x@y.test"}, 422, "VALIDATION_ERROR", "/email/subject"),
    ],
)
def test_what_is_wrong_is_named_and_not_quoted(
    caller: Caller, email: dict[str, Any], status: int, code: str, pointer: str
) -> None:
    answer = caller("POST", "/email/send", {"email": factories.request(**email)})
    assert (answer.status_code, answer.data["error"]) == (status, code)
    assert answer.data["errors"][0]["pointer"] == pointer
    assert "1234" not in answer.content.decode() and "y.test" not in answer.content.decode()


def test_another_company_does_not_exist(caller: Caller, company: Company) -> None:
    other = factories.company("Other")
    asked = {"email": factories.request(), "company": str(other.pk)}
    assert caller("POST", "/email/send", asked).status_code == 404
    stranger = Caller(name="stranger", tenants=[str(other.pk)])
    made = caller("POST", "/email/send", {"email": factories.request()}).data["outboxId"]
    assert stranger("GET", f"/emails/{made}").status_code == 404
    assert stranger("GET", "/emails").data["data"] == []
    resend = stranger("POST", f"/emails/{made}/resend", {"reason": "x"})
    assert resend.status_code == 404


def test_a_limit_says_when(caller: Caller, company: Company) -> None:
    Company.objects.update(per_minute=1)
    caller("POST", "/email/send", {"email": factories.request()})
    answer = caller("POST", "/email/send", {"email": factories.request()})
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 61


def test_a_dead_letter_is_resent(caller: Caller, company: Company, sink: Sink) -> None:
    sink.script = lambda step, address, times: "550 no" if step == "RCPT" else None
    made = caller("POST", "/email/send", {"email": factories.request()}).data["outboxId"]
    run_jobs()
    assert caller("POST", f"/emails/{made}/resend", {"reason": ""}).status_code == 422
    sink.script = lambda step, address, times: None
    answer = caller("POST", f"/emails/{made}/resend", {"reason": "the box is back"})
    assert answer.status_code == 200, answer.content
    run_jobs()
    assert caller("GET", f"/emails/{made}").data["status"] == "SENT"
