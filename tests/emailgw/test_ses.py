"""Amazon SES: real requests to a server that answers like it, and what its errors mean."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest
from anymail.exceptions import AnymailAPIError
from django.contrib.admin.utils import quote
from moto.server import ThreadedMotoServer

import jobs
from emailgw import services
from emailgw.clients import esp
from emailgw.errors import Down, Locked, MaybeSent, NotSent, SenderRefused
from emailgw.models import Company, EmailLog, OutboxEmail
from jobs.engine.admission import sync_limits
from jobs.models import Audit, Breaker
from jobs.operate import breakers, queues
from jobs.testing import emitted, freeze_clock, run_jobs
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
    send = esp._disable_retries

    def spy(backend: Any) -> None:
        send(backend)
        assert backend.client_params["config"].retries == {"total_max_attempts": 1}
        real = backend.post_to_esp

        def post_to_esp(payload: Any, message: Any) -> Any:
            answer = real(payload, message)
            sent.append(payload.params)
            return answer

        backend.post_to_esp = post_to_esp

    monkeypatch.setattr(esp, "_disable_retries", spy)
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
        (error("InvalidClientTokenId", 403), Locked, "SES_NOT_AUTHORIZED"),
        (error("SignatureDoesNotMatch", 403), Locked, "SES_NOT_AUTHORIZED"),
        (error("ExpiredTokenException", 400), Locked, "SES_NOT_AUTHORIZED"),
        (error("UnrecognizedClientException", 403), Locked, "SES_NOT_AUTHORIZED"),
        (error("RequestExpired", 400), Locked, "SES_NOT_AUTHORIZED"),
        (error("Whatever", 401), Locked, "SES_NOT_AUTHORIZED"),
        (error("AccessDeniedException", 403), SenderRefused, "SES_SENDER_REFUSED"),
        (error("Whatever", 403), SenderRefused, "SES_SENDER_REFUSED"),
    ],
)  # fmt: skip
def test_what_an_answer_of_ses_means(answer: Any, kind: type[Exception], code: str) -> None:
    found = esp.classify(answer)
    assert (type(found), found.code) == (kind, code)


class Answering:
    """An endpoint that answers every request alike."""

    def __init__(self) -> None:
        self.status, self.code, self.asked = 403, "AccessDeniedException", 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked += 1
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                said = (
                    {"message": "no"} if outer.status >= 400 else {"MessageId": f"m{outer.asked}"}
                )
                body = json.dumps(said).encode()
                self.send_response(outer.status)
                self.send_header("x-amzn-ErrorType", outer.code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture(scope="module")
def answering() -> Iterator[Answering]:
    server = Answering()
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("status", "name", "code"),
    [
        (403, "InvalidClientTokenId", "SES_NOT_AUTHORIZED"),
        (403, "SignatureDoesNotMatch", "SES_NOT_AUTHORIZED"),
        (400, "ExpiredTokenException", "SES_NOT_AUTHORIZED"),
        (403, "AccessDeniedException", "SES_SENDER_REFUSED"),
    ],
)
def test_mail_waits_until_ses_lets_the_gateway_in(
    company: Company, answering: Answering, settings: Any, status: int, name: str, code: str
) -> None:
    configure(settings, answering.url)
    answering.status, answering.code = status, name
    before = answering.asked
    rows = [accept(company) for _ in range(6)]
    with freeze_clock() as clock:
        for _ in range(4):
            run_jobs()
            clock.tick(3600)
        assert answering.asked - before == 4, "one probe in each round"
        found = OutboxEmail.objects.filter(pk__in=[row.pk for row in rows])
        assert set(found.values_list("status", flat=True)) == {"RETRY_SCHEDULED"}
        assert code in set(found.values_list("error_code", flat=True))
        assert {event.topic for event in emitted("email.*")} == {"email.retry_scheduled"}
        [circuit] = Breaker.objects.all()
        assert (circuit.state, code in circuit.last_error) == ("open", True)
        answering.status = 200
        breakers.reset(circuit.name, by="ann", reason="the key is right now")
        run_jobs()
    assert set(found.values_list("status", flat=True)) == {"SENT"}


def test_mail_waits_where_there_are_no_credentials(
    company: Company, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for params in ({"region_name": "us-east-1"}, {}):
        monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
        settings.EMAILGW = {
            "PROVIDERS": {
                "ses": {
                    "BACKEND": "anymail.backends.amazon_ses.EmailBackend",
                    "OPTIONS": {"client_params": params},
                }
            }
        }
        Breaker.objects.all().delete()
        row = accept(company)
        run_jobs()
        row.refresh_from_db()
        assert (row.status, row.error_code) == ("RETRY_SCHEDULED", "SES_NOT_AUTHORIZED")
        assert Breaker.objects.get(name="email:ses").state == "open"


def test_a_rate_per_second_holds_up_mail_for_a_second(
    company: Company, ses: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    throttled = error("TooManyRequestsException", 429, "Maximum sending rate exceeded.")
    answers, real = [throttled] * 3, esp.hand_over

    def hand_over(backend: Any, letter: Any) -> str:
        if answers:
            raise esp.classify(answers.pop())
        return real(backend, letter)

    monkeypatch.setattr(esp, "hand_over", hand_over)
    with freeze_clock() as clock:
        rows = [accept(company) for _ in range(3)]
        for _ in range(6):
            run_jobs()
            clock.tick(1.5)
    for row in rows:
        row.refresh_from_db()
        assert (row.status, jobs.Job.objects.get(pk=row.pk).failures) == ("SENT", 0)


def test_a_person_sees_that_a_provider_rests_and_ends_it(
    company: Company, ses: Any, monkeypatch: pytest.MonkeyPatch, admin_client: Any
) -> None:
    answers = [error("Throttling", 400, "Daily message quota exceeded.")]
    real = esp.hand_over

    def hand_over(backend: Any, letter: Any) -> str:
        if answers:
            raise esp.classify(answers.pop())
        return real(backend, letter)

    monkeypatch.setattr(esp, "hand_over", hand_over)
    sync_limits()
    row = accept(company)
    run_jobs()
    scope = "key:email:send|ses"
    listed = {one["scope"]: one for one in admin_client.get("/api/v1/limits").json()}
    assert listed[scope]["closed_until"] is not None
    assert listed["key:email:send"]["per_second"] == 87
    page = f"/admin/jobs/limiter/{quote(scope)}/"
    assert "/do/reopen/" in admin_client.get(f"{page}change/").content.decode()
    queues.reopen(scope, by="ann", reason="they have raised it")
    assert Audit.objects.get(action="limit.reopen").detail["released"] == 1
    with pytest.raises(jobs.errors.InvalidOption, match="nothing has closed"):
        queues.reopen(scope, by="ann", reason="again")
    assert run_jobs().succeeded == 1
    row.refresh_from_db()
    assert row.status == "SENT"


def test_a_quota_closes_the_provider_for_ten_minutes_and_uses_no_attempt(
    company: Company, ses: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [error("Throttling", 400, "Daily message quota exceeded.")]
    real = esp.hand_over

    def hand_over(backend: Any, letter: Any) -> str:
        if answers:
            raise esp.classify(answers.pop())
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
