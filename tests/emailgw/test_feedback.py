"""What Amazon tells: signed, once, and with what follows from it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from django.test import Client

import jobs
from emailgw import services
from emailgw.clients import sns
from emailgw.errors import Refused
from emailgw.models import Company, EmailEvent, EmailLog, OutboxEmail, Suppression
from emailgw.services import resend
from jobs.models import Effect
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.emailgw.factories import request
from tests.emailgw.sink import Sink

pytestmark = pytest.mark.django_db
TOPIC = "arn:aws:sns:us-east-1:123456789012:ses"
URL = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-1.pem"
Post = Callable[..., Any]


@pytest.fixture
def post(settings: Any, monkeypatch: pytest.MonkeyPatch, client: Client) -> Post:
    """Posts a message as SNS does, signed with a key that stands in for Amazon's."""
    settings.EMAILGW = {**settings.EMAILGW, "SNS_TOPICS": [TOPIC]}
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    monkeypatch.setattr(sns, "public_key", lambda url, moment: key.public_key())

    def send(event: Any, *, sign: bool = True, tamper: Any = None, **fields: Any) -> Any:
        message = {
            "Type": "Notification", "MessageId": str(uuid4()), "TopicArn": TOPIC,
            "Message": json.dumps(event), "Timestamp": datetime.now(UTC).isoformat(),
            "SignatureVersion": "2", "SigningCertURL": URL, **fields,
        }  # fmt: skip
        names = sns._SIGNED[message["Type"]]
        text = "".join(f"{n}\n{message[n]}\n" for n in names if n in message)
        signature = key.sign(text.encode(), PKCS1v15(), hashes.SHA256())
        message["Signature"] = base64.b64encode(signature if sign else b"x" * 256).decode()
        message.update(tamper or {})
        return client.post(
            "/webhooks/email/ses/events", json.dumps(message), content_type="text/plain",
            headers={
                "x-amz-sns-message-type": message["Type"],
                "x-amz-sns-message-id": message["MessageId"],
            },
        )  # fmt: skip

    return send


@pytest.fixture
def row(company: Company, sink: Sink) -> OutboxEmail:
    made = services.accept(company, request(cc=["bo@x.test"]), by="test")
    run_jobs()
    return OutboxEmail.objects.get(pk=made.outbox_id)


def event(row: OutboxEmail, kind: str, **detail: Any) -> dict[str, Any]:
    header = {"name": "X-Metadata", "value": json.dumps({"outbox_id": str(row.pk)})}
    mail = {"messageId": "ses-1", "destination": [row.to], "headers": [header]}
    return {"eventType": kind, "mail": mail, kind.lower(): detail}


def bounce(row: OutboxEmail, kind: str = "Permanent", to: str = "") -> dict[str, Any]:
    who = [{"emailAddress": to or row.to, "diagnosticCode": f"550 {row.to} unknown"}]
    return event(row, "Bounce", bounceType=kind, bounceSubType="General", bouncedRecipients=who)


def complaint(row: OutboxEmail) -> dict[str, Any]:
    who = [{"emailAddress": row.to}]
    return event(row, "Complaint", complaintFeedbackType="abuse", complainedRecipients=who)


@pytest.mark.parametrize(
    ("make", "reason", "lasts"),
    [
        (bounce, "HARD_BOUNCE", True),
        (lambda row: bounce(row, "Transient"), "SOFT_BOUNCE", False),
        (complaint, "SPAM_COMPLAINT", True),
    ],
)
def test_a_bad_address_is_not_written_to_again(
    row: OutboxEmail, post: Post, company: Company, make: Any, reason: str, lasts: bool
) -> None:
    assert post(make(row)).status_code == 200
    entry = Suppression.objects.get()
    assert (entry.reason, entry.expires_at is None, entry.company) == (reason, lasts, company)
    with pytest.raises(Refused, match="to: is on the suppression list"):
        services.accept(company, request(), by="test")
    told = EmailEvent.objects.get(type__in=["BOUNCED", "COMPLAINED"])
    assert row.to not in json.dumps(told.detail)


def test_the_same_event_twice_is_one(row: OutboxEmail, post: Post) -> None:
    same = {"MessageId": str(uuid4())}
    assert post(bounce(row), **same).status_code == post(bounce(row), **same).status_code == 200
    assert EmailEvent.objects.filter(type="BOUNCED").count() == 1


def test_nobody_suppresses_whom_we_never_wrote_to(row: OutboxEmail, post: Post) -> None:
    assert post(bounce(row, to="victim@x.test")).status_code == 200
    assert not Suppression.objects.exists()


def test_a_delivery_is_in_the_log(row: OutboxEmail, post: Post) -> None:
    post(event(row, "Delivery", recipients=[row.to], smtpResponse="250 ok"))
    assert EmailLog.objects.get(outbox=row).delivered_at is not None


@pytest.mark.parametrize(
    "how",
    [
        {"sign": False},
        {"tamper": {"Message": "{}"}},
        {"tamper": {"TopicArn": TOPIC + "x"}},
        {"TopicArn": TOPIC + "x"},
        {"SigningCertURL": "https://sns.us-east-1.amazonaws.com.evil.test/a.pem"},
        {"SigningCertURL": "https://evil.test/sns.us-east-1.amazonaws.com/a.pem"},
        {"SigningCertURL": "https://x@sns.us-east-1.amazonaws.com/a.pem"},
        {"SigningCertURL": "https://sns.us-east-1.amazonaws.com:444/a.pem"},
        {"SigningCertURL": "http://sns.us-east-1.amazonaws.com/a.pem"},
        {"SigningCertURL": "https://sns.us-east-1.amazonaws.com/a.pem?x=.html"},
        {"SigningCertURL": "https://sns.us-east-1.amazonaws.com/?Action=Echo&z=.pem"},
        {"SigningCertURL": "https://sns.us-east-1.amazonaws.com/x/SimpleNotificationService-1.pem"},
        {"SigningCertURL": URL + "?x=.pem"},
        {"SignatureVersion": "3"},
        {"Timestamp": "2020-01-01T00:00:00Z"},
        {"Timestamp": "soon"},
    ],
)
def test_what_is_forged_is_refused(row: OutboxEmail, post: Post, how: dict[str, Any]) -> None:
    assert post(bounce(row), **how).status_code == 400
    assert not EmailEvent.objects.filter(type="BOUNCED").exists()
    assert not Suppression.objects.exists()


def a_certificate(name: str, *, days: int) -> x509.Certificate:
    key, now = rsa.generate_private_key(public_exponent=65537, key_size=2048), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder(subject, subject, key.public_key(), 1)
    made = made.not_valid_before(now - timedelta(days=10)).not_valid_after(
        now + timedelta(days=days)
    )
    return made.sign(key, hashes.SHA256())


def test_a_certificate_is_of_sns_and_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    def accepted(name: str, days: int) -> bool:
        monkeypatch.setattr(sns, "certificate", lambda url: a_certificate(name, days=days))
        try:
            return bool(sns.public_key(URL, datetime.now(UTC)))
        except sns.Forged:
            return False

    assert accepted("sns.amazonaws.com", 1)
    assert not accepted("sns.amazonaws.com", -1)
    assert not accepted("sns.amazonaws.com.evil.test", 1)


@pytest.mark.parametrize("body", ["", "[]", "{", '"x"', "null"])
def test_what_is_no_message_is_refused(client: Client, db: None, body: str) -> None:
    answer = client.post("/webhooks/email/ses/events", body, content_type="text/plain")
    assert answer.status_code == 400


def test_a_subscription_is_confirmed_with_amazon_only(row: OutboxEmail, post: Post) -> None:
    url = "https://sns.evil.test/confirm"
    answer = post({}, Type="SubscriptionConfirmation", Token="t", SubscribeURL=url)
    assert answer.status_code == 400


def test_an_event_ends_a_doubt(company: Company, sink: Sink, post: Post) -> None:
    sink.script = lambda step, address, times: "take and hang up" if step == "END" else None
    with freeze_clock() as clock:
        made = services.accept(company, request(), by="test")
        run_jobs()
        clock.tick(2)
        run_jobs()
        row = OutboxEmail.objects.get(pk=made.outbox_id)
        assert row.in_doubt
        post(event(row, "Delivery", recipients=[row.to]), Timestamp=clock_text())
        run_jobs()
    row.refresh_from_db()
    assert (row.status, row.in_doubt, len(sink.taken)) == ("SENT", False, 1)
    assert EmailLog.objects.get(outbox=row).provider_message_id == "ses-1"
    assert jobs.Job.objects.get(pk=row.pk).state == "succeeded"
    with pytest.raises(Refused):
        resend(row.pk, by="ana", reason="again")


def clock_text() -> str:
    return datetime.now(UTC).isoformat()


@pytest.fixture
def doubt(company: Company, sink: Sink) -> Iterator[OutboxEmail]:
    """An email of which nobody knows whether it was sent."""
    sink.script = lambda step, address, times: "take and hang up" if step == "END" else None
    with freeze_clock() as clock:
        made = services.accept(company, request(cc=["bo@x.test"]), by="test")
        run_jobs()
        clock.tick(2)
        run_jobs()
        row = OutboxEmail.objects.get(pk=made.outbox_id)
        assert row.in_doubt
        yield row


def settled(row: OutboxEmail) -> tuple[str, bool, str]:
    run_jobs()
    row.refresh_from_db()
    return row.status, row.in_doubt, Effect.objects.get(job_id=row.pk).state


@pytest.mark.parametrize("make", [bounce, complaint, lambda row: bounce(row, "Transient")])
def test_a_bounce_of_a_doubtful_email_says_that_it_was_sent(
    doubt: OutboxEmail, post: Post, make: Any
) -> None:
    """Its address is on the suppression list by then, which is no reason to call it unsent."""
    post(make(doubt), Timestamp=clock_text())
    assert settled(doubt) == ("SENT", False, "done")
    log = EmailLog.objects.get(outbox=doubt)
    assert (log.status, log.provider_message_id) == ("SENT", "ses-1")
    assert log.bounce_type or log.complaint_type
    assert "email.failed" in [event.topic for event in emitted("email.*")]
    assert jobs.Job.objects.get(pk=doubt.pk).state == "succeeded"


def suspend(row: OutboxEmail) -> None:
    Company.objects.update(is_suspended=True)


def suppress(row: OutboxEmail) -> None:
    services.add_suppression(row.company_id, row.to, by="test", reason="asked for it")


@pytest.mark.parametrize("obstacle", [suspend, suppress])
def test_a_doubtful_email_stays_so_whatever_is_in_its_way_now(
    doubt: OutboxEmail, obstacle: Any
) -> None:
    obstacle(doubt)
    resend(doubt.pk, by="ana", reason="what became of it?")
    assert settled(doubt) == ("SENT_ATTEMPT", True, "in_doubt")
    assert not EmailLog.objects.exists()


@pytest.mark.parametrize(
    ("obstacle", "code"),
    [(suspend, "COMPANY_SUSPENDED"), (suppress, "RECIPIENT_SUPPRESSED")],
)
def test_what_a_person_sends_again_is_validated_first(
    doubt: OutboxEmail, sink: Sink, obstacle: Any, code: str
) -> None:
    obstacle(doubt)
    resend(doubt.pk, by="ana", reason="it has not arrived", even_if_sent=True)
    assert settled(doubt) == ("FAILED", False, "failed")
    assert (doubt.error_code, len(sink.taken)) == (code, 1)


def without_headers(told: dict[str, Any], **mail: Any) -> dict[str, Any]:
    del told["mail"]["headers"]
    return {**told, "mail": {**told["mail"], "messageId": "unknown-to-us", **mail}}


@pytest.mark.parametrize("headers", ["none", "truncated"])
def test_an_event_without_our_header_finds_its_email_by_our_tag(
    row: OutboxEmail, post: Post, headers: str
) -> None:
    told = without_headers(bounce(row), tags={"ses:x": ["y"], "outbox_id": [str(row.pk)]})
    if headers == "truncated":
        told["mail"] |= {"headersTruncated": True, "headers": [{"name": "From", "value": "x"}]}
    post(told)
    assert EmailEvent.objects.get(type="BOUNCED").outbox == row
    assert Suppression.objects.get().reason == "HARD_BOUNCE"


@pytest.mark.parametrize("place", ["headers", "commonHeaders"])
def test_an_event_without_mark_or_tag_finds_its_email_by_its_message_id(
    row: OutboxEmail, post: Post, place: str
) -> None:
    ours = f"<{row.pk}@acme.test>"
    mail: Any = {"commonHeaders": {"messageId": ours}}
    if place == "headers":
        mail = {"headers": [{"name": "Message-ID", "value": ours}]}
    post(without_headers(bounce(row), **mail))
    assert EmailEvent.objects.get(type="BOUNCED").outbox == row


@pytest.mark.parametrize(
    "mail",
    [{"tags": {"outbox_id": "x"}}, {"tags": {"outbox_id": []}}, {"tags": ["outbox_id"]},
     {"tags": {"outbox_id": [None]}}, {"tags": None, "commonHeaders": None},
     {"commonHeaders": {"messageId": "<x@y.test>"}}, {"tags": {"outbox_id": [str(uuid4())]}}],
)  # fmt: skip
def test_an_event_of_somebody_elses_mail_is_nobodys(
    row: OutboxEmail, post: Post, mail: dict[str, Any]
) -> None:
    assert post(without_headers(bounce(row), **mail)).status_code == 200
    assert not EmailEvent.objects.filter(type="BOUNCED").exists()


@pytest.mark.parametrize(
    "message", ["plain words for ana@customers.test", "[]", '"x"', "7", "{", '{"mail": 7}',
                '{"eventType": "Bounce", "mail": {}}', '{"eventType": "Bounce", "bounce": 1}'],
)  # fmt: skip
def test_a_signed_message_that_is_no_event_is_refused_without_its_words(
    row: OutboxEmail, post: Post, caplog: pytest.LogCaptureFixture, message: str
) -> None:
    assert post({}, Message=message).status_code == 400
    assert "ana@customers" not in caplog.text


@pytest.mark.parametrize(
    "message",
    ["Successfully validated SNS topic for Amazon SES event publishing.",
     '{"notificationType": "AmazonSnsSubscriptionSucceeded", "message": "You have subscribed"}'],
)  # fmt: skip
def test_a_message_that_tests_the_topic_is_taken(row: Any, post: Post, message: str) -> None:
    assert post({}, Message=message).status_code == 200
