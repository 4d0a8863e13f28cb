"""What companies are told: their own emails, signed, in order, and nobody in clear."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import jobs
from emailgw import events, feedback, services
from emailgw.errors import CATEGORIES
from emailgw.models import Company, OutboxEmail
from jobs.operate import webhooks as desk
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.emailgw import factories
from tests.emailgw.factories import request
from tests.emailgw.sink import Sink
from tests.http.servers import Server, answer
from tests.webhooks.conftest import Receiver, on, receiver

__all__ = ["on", "receiver"]  # fixtures
pytestmark = pytest.mark.django_db
WHO: dict[str, Any] = {"by": "test", "reason": "test"}
CODES = {
    "INVALID_RECIPIENT", "BOUNCE_PERMANENT", "BOUNCE_TEMPORARY", "COMPLAINT", "SES_THROTTLE",
    "SES_ERROR", "INVALID_CONTENT", "INTERNAL_ERROR",
}  # fmt: skip


def hook(company: Company, receiver: Receiver, **options: Any) -> desk.Made:
    return desk.create(receiver.url, tenant=str(company.pk), **WHO, **options)


def accept(company: Company, **fields: Any) -> OutboxEmail:
    made = services.accept(company, request(**fields), by="test")
    return OutboxEmail.objects.get(pk=made.outbox_id)


def work() -> None:
    """Emails are sent, what was told of them is relayed, and the webhooks' jobs have run."""
    run_jobs(["email:send"])
    emitted()
    run_jobs()


def by_topic(receiver: Receiver) -> list[tuple[str, int]]:
    return [(one["eventType"], one["sequenceNumber"]) for one in receiver.told]


def test_a_sent_email_is_told_signed_with_its_recipient_masked(
    receiver: Receiver, company: Company, sink: Sink
) -> None:
    made = hook(company, receiver)
    row = accept(company, externalId="INV-7", tags=["invoice"])
    work()
    told = receiver.verified(made.secret)
    assert (told["eventType"], told["sequenceNumber"]) == ("email.sent", 1)
    assert told["data"] == {
        "outboxId": str(row.pk), "requestId": row.request_id, "status": "SENT", "attempt": 1,
        "externalId": "INV-7", "tags": ["invoice"],
        "recipient": {"email": "a***@c***.test"},
    }  # fmt: skip
    for secret in (b"ana@", b"Souza", b"52998", b"529.982", b'invoice":', b"Pay"):
        assert secret not in receiver.bodies[0]


def test_every_move_that_concerns_a_company_is_told_in_order(
    receiver: Receiver, company: Company, sink: Sink
) -> None:
    made = hook(company, receiver, topics=["email.*"])
    sink.script = lambda step, a, times: (
        ("451 later" if times == 1 else "550 no") if step == "END" else None
    )
    with freeze_clock() as clock:
        row = accept(company)
        work()
        clock.tick(2)
        work()
        sink.script = lambda step, address, times: None
        services.resend(row.pk, by="ana", reason="the box is back")
        work()
        assert by_topic(receiver) == [
            ("email.retry_scheduled", 1), ("email.failed", 2), ("email.sent", 3),
        ]  # fmt: skip
        first, second, third = (one["data"] for one in receiver.told)
    assert (first["failureCode"], first["attempt"]) == ("BOUNCE_TEMPORARY", 1)
    assert (second["failureCode"], second["code"]) == ("BOUNCE_PERMANENT", "SMTP_REJECTED")
    assert "failureCode" not in third
    assert receiver.verified(made.secret, 2)["data"]["outboxId"] == str(row.pk)


def test_an_expired_and_a_cancelled_email_are_told(
    receiver: Receiver, company: Company, sink: Sink
) -> None:
    hook(company, receiver)
    with freeze_clock() as clock:
        services.accept(company, request(), by="test", delay=50_000, ttl=60_000)
        cancelled = accept(company, to="b@x.test", recipient={})
        jobs.cancel(cancelled.pk, by="ana")
        clock.tick(61)
        work()
    codes = {one["eventType"]: one["data"]["failureCode"] for one in receiver.told}
    assert codes == {"email.expired": "INTERNAL_ERROR", "email.failed": "INTERNAL_ERROR"}


@pytest.mark.parametrize(
    ("kind", "description", "code"),
    [
        ("bounced", "Permanent: General", "BOUNCE_PERMANENT"),
        ("bounced", "Transient: MailboxFull", "BOUNCE_TEMPORARY"),
        ("complained", "abuse", "COMPLAINT"),
    ],
)
def test_what_the_provider_tells_later_is_told_once(
    receiver: Receiver, company: Company, sink: Sink, kind: str, description: str, code: str
) -> None:
    hook(company, receiver, topics=["email.failed"])
    row = accept(company)
    run_jobs()
    event = SimpleNamespace(
        event_type=kind, event_id="e1", recipient=row.to, description=description, message_id="m",
        metadata={"outbox_id": str(row.pk)}, mta_response="550 ana@customers.test unknown",
    )  # fmt: skip
    for _ in range(2):
        feedback.record_event(None, event, "Amazon SES")
    work()
    [told] = receiver.told
    assert told["eventType"] == "email.failed"
    assert (told["data"]["failureCode"], told["data"]["status"]) == (code, "SENT")
    assert told["data"]["address"] == "a***@c***.test"
    assert "ana@" not in json.dumps(receiver.told)


@pytest.fixture
def other(on: Any) -> Iterator[Receiver]:
    server = Server()
    yield Receiver(server)
    server.close()


def test_companies_are_told_of_their_own_emails_only(
    receiver: Receiver, other: Receiver, company: Company, sink: Sink
) -> None:
    stranger = factories.company("Other")
    hook(company, receiver)
    hook(stranger, other)
    mine, theirs = accept(company), accept(stranger)
    work()
    assert [one["data"]["outboxId"] for one in receiver.told] == [str(mine.pk)]
    assert [one["data"]["outboxId"] for one in other.told] == [str(theirs.pk)]


def test_a_receiver_that_is_down_gets_it_later_by_the_list_of_delays(
    receiver: Receiver, company: Company, sink: Sink
) -> None:
    made = hook(company, receiver)
    receiver.say(answer(b"no", "500 Oops"))
    with freeze_clock() as clock:
        row = accept(company)
        work()
        for delay in (60, 300, 1800, 7200):
            clock.tick(timedelta(seconds=delay + 1))
            work()
        receiver.say(answer())
        clock.tick(timedelta(hours=24, seconds=1))
        work()
    ids = {one["eventId"] for one in receiver.told}
    assert (len(receiver.told), len(ids)) == (6, 1)
    assert receiver.server.headers(-1)["x-retry-count"] == "5"
    assert receiver.verified(made.secret)["data"]["outboxId"] == str(row.pk)


def test_codes_are_those_that_companies_know() -> None:
    assert {events.failure_code(code) for code in CATEGORIES} <= CODES
    assert events.failure_code("SES_TIMEOUT") == "SES_ERROR"
    assert events.failure_code("DNS_ERROR") == "INTERNAL_ERROR"
    assert set(events.FAILURE_CODES) <= set(CATEGORIES)
