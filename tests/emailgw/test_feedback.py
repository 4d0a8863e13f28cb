"""What Amazon tells: signed, once, and with what follows from it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
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
from jobs.testing import freeze_clock, run_jobs
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
    monkeypatch.setattr(sns, "public_key", lambda url: key.public_key())

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
        {"SignatureVersion": "3"},
        {"Timestamp": "2020-01-01T00:00:00Z"},
        {"Timestamp": "soon"},
    ],
)
def test_what_is_forged_is_refused(row: OutboxEmail, post: Post, how: dict[str, Any]) -> None:
    assert post(bounce(row), **how).status_code == 400
    assert not EmailEvent.objects.filter(type="BOUNCED").exists()
    assert not Suppression.objects.exists()


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
