"""Amazon SES: real requests to a server that answers like it, and what its errors mean."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from anymail.exceptions import AnymailAPIError
from moto.server import ThreadedMotoServer

import jobs
from emailgw import services
from emailgw.clients import esp
from emailgw.errors import Down, MaybeSent, NotSent
from emailgw.models import Company, EmailLog, OutboxEmail
from jobs.testing import freeze_clock, run_jobs
from tests.emailgw.factories import request

pytestmark = pytest.mark.django_db
KEYS = {
    "region_name": "us-east-1",
    "aws_access_key_id": "test",
    "aws_secret_access_key": "test",
}


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def ses(moto: str, settings: Any) -> Iterator[Any]:
    """SES, where acme.test is verified; the gateway sends to it."""
    client = boto3.client("sesv2", endpoint_url=moto, **KEYS)
    client.create_email_identity(EmailIdentity="acme.test")
    configure(settings, moto)
    yield client
    client.close()


def configure(settings: Any, url: str) -> None:
    options = {"client_params": {**KEYS, "endpoint_url": url}}
    backend = "anymail.backends.amazon_ses.EmailBackend"
    settings.EMAILGW = {
        "PROVIDERS": {"ses": {"BACKEND": backend, "OPTIONS": options}}, "SEND_TIMEOUT": 2,
    }  # fmt: skip


def accept(company: Company) -> OutboxEmail:
    made = services.accept(company, request(cc=["bo@x.test"], tags=["t"]), by="test")
    return OutboxEmail.objects.get(pk=made.outbox_id)


def test_a_letter_goes_to_ses_with_its_mark(company: Company, ses: Any, monkeypatch: Any) -> None:
    sent: list[dict[str, Any]] = []
    send = esp._send_once

    def spy(backend: Any) -> None:
        send(backend)
        assert backend.client_params["config"].retries == {"total_max_attempts": 1}
        real = backend.post_to_esp

        def post_to_esp(payload: Any, message: Any) -> Any:
            answer = real(payload, message)
            sent.append(payload.params)
            return answer

        backend.post_to_esp = post_to_esp

    monkeypatch.setattr(esp, "_send_once", spy)
    row = accept(company)
    assert run_jobs().succeeded == 1
    row.refresh_from_db()
    log = EmailLog.objects.get(outbox=row)
    assert (row.status, log.provider) == ("SENT", "ses")
    assert log.provider_message_id
    [params] = sent
    assert params["Destination"] == {
        "ToAddresses": ["ana@customers.test"], "CcAddresses": ["bo@x.test"],
    }  # fmt: skip
    assert {"Name": "outbox_id", "Value": str(row.pk)} in params["EmailTags"]
    assert f"<{row.pk}@acme.test>".encode() in params["Content"]["Raw"]["Data"]


def test_an_identity_that_is_not_verified_is_final(
    company: Company, moto: str, settings: Any
) -> None:
    configure(settings, moto)
    Company.objects.update(default_from="x@other.test", from_domains=["other.test"])
    row = accept(company)
    assert run_jobs().failed == 1
    row.refresh_from_db()
    assert (row.status, row.error_code) == ("FAILED", "SES_MESSAGE_REJECTED")


def test_a_service_that_is_not_there_has_nothing(company: Company, settings: Any) -> None:
    configure(settings, "http://127.0.0.1:9")
    row = accept(company)
    assert run_jobs().waiting == 1
    row.refresh_from_db()
    assert (row.status, row.error_code) == ("RETRY_SCHEDULED", "NETWORK_ERROR")


def error(code: str, status: int = 400, text: str = "no") -> Any:
    response = {
        "Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status},
    }  # fmt: skip
    return AnymailAPIError("x", response=response)


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (error("MessageRejected"), NotSent, "SES_MESSAGE_REJECTED"),
        (error("MailFromDomainNotVerifiedException"), NotSent,
         "SES_MAIL_FROM_DOMAIN_NOT_VERIFIED"),
        (error("NotFoundException"), NotSent, "SES_CONFIGURATION_SET_DOES_NOT_EXIST"),
        (error("SendingPausedException"), NotSent, "SES_ACCOUNT_SENDING_PAUSED"),
        (error("TooManyRequestsException", 429), NotSent, "SES_THROTTLING"),
        (error("Throttling", 400, "Maximum sending rate exceeded."), NotSent,
         "SES_MAX_SEND_RATE_EXCEEDED"),
        (error("Throttling", 400, "Daily message quota exceeded."), NotSent,
         "SES_DAILY_QUOTA_EXCEEDED"),
        (error("LimitExceededException"), NotSent, "SES_DAILY_QUOTA_EXCEEDED"),
        (error("ServiceUnavailable", 503), Down, "SES_SERVICE_UNAVAILABLE"),
        (error("Whatever", 503), Down, "SES_SERVICE_UNAVAILABLE"),
        (error("Whatever", 418), NotSent, "SES_MESSAGE_REJECTED"),
        (error("InternalFailure", 500), MaybeSent, "UNKNOWN_ERROR"),
    ],
)  # fmt: skip
def test_what_an_answer_of_ses_means(answer: Any, kind: type[Exception], code: str) -> None:
    found = esp.judged(answer)
    assert (type(found), found.code) == (kind, code)


def test_a_quota_closes_the_provider_for_ten_minutes_and_uses_no_attempt(
    company: Company, ses: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [error("Throttling", 400, "Daily message quota exceeded.")]
    real = esp.hand_over

    def hand_over(backend: Any, letter: Any) -> str:
        if answers:
            raise esp.judged(answers.pop())
        return real(backend, letter)

    monkeypatch.setattr(esp, "hand_over", hand_over)
    with freeze_clock() as clock:
        row = accept(company)
        run_jobs()
        row.refresh_from_db()
        assert (row.status, row.error_code) == ("RETRY_SCHEDULED", "SES_DAILY_QUOTA_EXCEEDED")
        other = accept(company)
        clock.tick(599)
        assert len(run_jobs()) == 0
        clock.tick(2)
        run_jobs()
        clock.tick(1)
        run_jobs()
    row.refresh_from_db()
    other.refresh_from_db()
    assert (row.status, other.status) == ("SENT", "SENT")
    assert jobs.Job.objects.get(pk=row.pk).failures == 0
