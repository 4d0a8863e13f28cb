"""What an attacker would try, at every door: handing in, the worker, the letter, the provider."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

import jobs
from emailgw import (
    callbacks,
    clients,
    html,
    messages,
    retention,
    services,
    suppressions,
    validations,
)
from emailgw.clock import now
from emailgw.errors import Invalid, NotSent, Refused
from emailgw.models import (
    Company,
    EmailEvent,
    EmailLog,
    OutboxEmail,
    Recipient,
    StoredHtml,
    Suppression,
)
from emailgw.payloads import EmailSendJobData, RecipientRef
from emailgw.requests import parse
from emailgw.services.acceptance import job_data
from jobs.operate.edit import edit
from jobs.principals import Principal, Scope, every_permission
from jobs.testing import emitted, run_jobs
from tests.api.conftest import Caller
from tests.emailgw import factories
from tests.emailgw.factories import request
from tests.emailgw.sink import Sink
from tests.emailgw.test_contract import LINES, SMUGGLED

pytestmark = pytest.mark.django_db
# Below the door of the API white space is cut off and letters are made small.
EVIL = [address for address in SMUGGLED if address.strip() == address]


def accepted(company: Company, **fields: Any) -> tuple[OutboxEmail, EmailSendJobData]:
    made = services.accept(company, request(**fields), by="test")
    row = OutboxEmail.objects.select_related("company", "recipient", "html").get(pk=made.outbox_id)
    return row, job_data(row, parse(request(**fields)))


def forged(row: OutboxEmail, data: EmailSendJobData, **fields: Any) -> EmailSendJobData:
    """Job and row agree on something that no door would have let in."""
    columns = {"to": "to", "cc": "cc", "bcc": "bcc", "subject": "subject", "headers": "headers",
               "replyTo": "reply_to"}  # fmt: skip
    for name, value in fields.items():
        setattr(row, columns[name], value)
    if "to" in fields:
        row.recipient.email = fields["to"]
        known = {name: getattr(data.recipient, name) for name in RecipientRef.model_fields}
        fields["recipient"] = RecipientRef.model_construct(**{**known, "email": fields["to"]})
    known = {name: getattr(data, name) for name in type(data).model_fields}
    return EmailSendJobData.model_construct(**{**known, **fields})


def is_stopped(row: OutboxEmail, data: EmailSendJobData, body: str) -> None:
    """By the validations of the worker, by the letter, and by whoever would hand it over."""
    with pytest.raises(Invalid) as caught:
        validations.validate(data, row)
    assert caught.value.code == "INVALID_PAYLOAD"
    with pytest.raises((messages.UnsafeEmail, ValueError)):
        messages.compose(data, row, body)


@pytest.mark.parametrize("address", EVIL)
@pytest.mark.parametrize("field", ["to", "cc", "bcc"])
def test_a_smuggled_recipient_is_stopped_again_before_the_send(
    company: Company, sink: Sink, address: str, field: str
) -> None:
    row, data = accepted(company)
    data = forged(row, data, **{field: address if field == "to" else [address]})
    is_stopped(row, data, row.html.body)
    assert sink.asked("RCPT", address) == 0


@pytest.mark.parametrize("mark", LINES)
def test_a_broken_line_is_stopped_again_before_the_send(company: Company, mark: str) -> None:
    row, data = accepted(company)
    evil = f"a{mark}Bcc: evil@y.test"
    for fields in (
        {"subject": evil}, {"headers": {"X-Custom-A": evil}},
        {"headers": {f"X-Custom-A{mark}Bcc": "x"}}, {"replyTo": f"a{mark}@acme.test"},
    ):  # fmt: skip
        is_stopped(row, forged(row, data, **fields), row.html.body)
        row.refresh_from_db()


@pytest.mark.parametrize("name", ["Bcc", "To", "From", "Sender", "Return-Path", "Content-Type"])
def test_a_header_of_ours_is_stopped_again_before_the_send(company: Company, name: str) -> None:
    row, data = accepted(company)
    is_stopped(row, forged(row, data, headers={name: "evil@y.test"}), row.html.body)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda letter: letter.message.bcc.append("evil@y.test"),
        lambda letter: letter.message.to.append("evil@y.test"),
        lambda letter: letter.message.extra_headers.update({"Bcc": "evil@y.test"}),
        lambda letter: letter.message.extra_headers.update({"X-Custom-A": "a\nBcc: evil@y.test"}),
        lambda letter: setattr(letter.message, "subject", "a\u2028Bcc: evil@y.test"),
        lambda letter: setattr(letter.message, "from_email", "a@x.test, evil@y.test"),
    ],
)
def test_a_letter_that_changed_on_its_way_is_not_handed_over(
    company: Company, sink: Sink, spoil: Callable[[messages.OutgoingEmail], object]
) -> None:
    row, data = accepted(company)
    letter = messages.compose(data, row, row.html.body)
    spoil(letter)
    with pytest.raises(NotSent) as caught:
        clients.deliver("smtp", letter, begin=lambda: None)
    assert caught.value.code == "INVALID_EMAIL" and "evil" not in str(caught.value)
    assert sink.taken == [] and sink.asked("MAIL", "") == 0


@pytest.mark.parametrize("address", EVIL)
def test_no_smuggled_recipient_is_accepted(company: Company, address: str) -> None:
    for fields in ({"to": address}, {"cc": [address]}, {"bcc": [address]}, {"replyTo": address}):
        with pytest.raises(Refused):
            services.accept(company, request(recipient={}, **fields), by="test")
    assert not OutboxEmail.objects.exists() and not Recipient.objects.exists()


# ---- content


@pytest.fixture
def stranger(db: None) -> Company:
    return factories.company("Stranger")


@pytest.mark.parametrize("agreed", [False, True])
def test_content_of_another_company_is_not_sent(
    company: Company, stranger: Company, sink: Sink, agreed: bool
) -> None:
    row, data = accepted(company)
    body = "<p>secret of the stranger</p>"
    foreign = StoredHtml.objects.create(
        company=stranger, digest=html.digest(body, stranger.pk), body=body, size=len(body)
    )
    row.html = foreign
    if agreed:  # also where the job names it, and with its own digest
        row.html_digest = foreign.digest
        known = {name: getattr(data, name) for name in type(data).model_fields}
        data = EmailSendJobData.model_construct(**{**known, "htmlRef": foreign.pk})
    row.save()
    with pytest.raises(Invalid) as caught:
        validations.validate(data, row)
    assert caught.value.code == "INVALID_TEMPLATE"
    assert run_jobs().failed == 1
    row.refresh_from_db()
    assert (row.status, row.error_code, sink.taken) == ("FAILED", "INVALID_TEMPLATE", [])


def test_content_that_was_changed_with_its_own_digest_is_not_sent(
    company: Company, sink: Sink
) -> None:
    row, _ = accepted(company)
    evil = "<p>pay to somebody else</p>"
    StoredHtml.objects.filter(pk=row.html_id).update(digest=html.digest(evil, company.pk))
    content = StoredHtml.objects.get(pk=row.html_id)
    content.body = evil
    content.save(update_fields=["body"])
    assert run_jobs().failed == 1
    row.refresh_from_db()
    assert (row.error_code, sink.taken) == ("INVALID_TEMPLATE", [])


def test_an_email_of_another_company_is_not_found(
    company: Company, stranger: Company, sink: Sink
) -> None:
    row, data = accepted(company)
    known = {name: getattr(data, name) for name in type(data).model_fields}
    foreign = EmailSendJobData.model_construct(**{**known, "companyId": stranger.pk})
    jobs.cancel(row.pk, by="test")
    jobs.enqueue(foreign, tenant=str(stranger.pk))
    assert run_jobs(["email:send"]).failed == 1
    row.refresh_from_db()
    assert row.status == "FAILED" and row.error_code == "CANCELLED"
    assert sink.taken == []


# ---- two of everything


def at_once(function: Callable[[], Any], times: int = 4) -> list[Any]:
    """What each of so many threads answered or raised."""
    found: list[Any] = []
    gate = threading.Barrier(times)

    def run() -> None:
        gate.wait()
        try:
            found.append(function())
        except Exception as error:
            found.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == times
    return found


@pytest.mark.django_db(transaction=True)
def test_of_several_who_send_an_email_again_one_does(sink: Sink) -> None:
    sink.script = lambda step, address, times: "550 no" if step == "RCPT" else None
    row, _ = accepted(factories.company())
    run_jobs()
    sink.script = lambda step, address, times: None
    found = at_once(lambda: services.resend(row.pk, by="ana", reason="again"))
    assert found.count(None) == 1
    assert all(isinstance(e, Refused) and e.code == "CONFLICT" for e in found if e is not None)
    run_jobs()
    assert sink.count() == {str(row.pk): 1}
    assert EmailEvent.objects.filter(outbox=row, type="RESEND").count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_several_who_decide_about_a_doubt_one_does(sink: Sink) -> None:
    sink.script = lambda step, a, times: "take and hang up" if step == "END" else None
    row, _ = accepted(factories.company(on_doubt="park"))
    run_jobs()
    row.refresh_from_db()
    jobs.cancel(row.pk, by="test")
    run_jobs()
    row.refresh_from_db()
    assert row.in_doubt
    sink.script = lambda step, address, times: None
    found = at_once(
        lambda: services.resend(row.pk, by="ana", reason="not there", even_if_sent=True)
    )
    assert found.count(None) == 1
    run_jobs()
    assert sink.count() == {str(row.pk): 2}, "once before, and once by the decision"


@pytest.mark.django_db(transaction=True)
def test_of_the_same_recipient_and_content_there_is_one_row() -> None:
    company = factories.company()
    found = at_once(lambda: services.accept(company, request(), by="test").outbox_id)
    assert len(set(found)) == OutboxEmail.objects.count() == 4
    assert Recipient.objects.count() == StoredHtml.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_address_is_suppressed_once() -> None:
    company = factories.company()
    reason = Suppression.Reason.HARD_BOUNCE
    found = at_once(lambda: suppressions.suppress(company.pk, "a@x.test", reason, by="provider").pk)
    assert len(set(found)) == Suppression.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_end_that_is_told_by_several_is_taken_once() -> None:
    row, _ = accepted(factories.company())
    ended = jobs.types.Ended(
        row.pk, "email:send", str(row.company_id), jobs.JobState.EXPIRED, "", in_doubt=False
    )

    def close() -> None:
        from django.db import transaction

        with transaction.atomic():
            callbacks.close_email(ended)

    assert at_once(close) == [None] * 4
    row.refresh_from_db()
    assert row.status == "EXPIRED"
    assert EmailEvent.objects.filter(outbox=row, type="EXPIRED").count() == 1
    assert EmailLog.objects.filter(outbox=row).count() == 1


@pytest.mark.django_db(transaction=True)
def test_emails_are_cleared_away_by_several_while_the_same_content_is_handed_in(
    sink: Sink,
) -> None:
    company = factories.company()
    rows = [accepted(company, to=f"a{n}@x.test", recipient={})[0] for n in range(6)]
    run_jobs()
    jobs.Job.objects.all().delete()
    OutboxEmail.objects.update(processed_at=rows[0].enqueued_at - timedelta(days=91))
    numbers = iter(range(100))

    def either() -> Any:
        number = next(numbers)
        if number % 2:
            return services.accept(
                company, request(to=f"b{number}@x.test", recipient={}), by="test"
            ).outbox_id
        return sum(found.get("emails", 0) for found in retention.clear(False, 2))

    found = at_once(either, times=6)
    errors = [one for one in found if isinstance(one, Exception)]
    assert errors == []
    assert sum(one for one in found if isinstance(one, int)) == 6
    kept = OutboxEmail.objects.select_related("html")
    assert len(kept) == 3 and {row.html.body for row in kept} == {"<p>Pay <b>now</b></p>"}


PROGRESS = ("status", "run", "attempts", "handed_over", "in_doubt", "error_code", "processed_at")


@pytest.mark.parametrize("whose", ["another job of its company", "a job of another company"])
@pytest.mark.parametrize("status", ["waiting", "sent"])
def test_only_the_job_of_an_email_does_anything_to_it(
    company: Company, sink: Sink, whose: str, status: str
) -> None:
    row, data = accepted(company)
    if status == "sent":
        run_jobs()
    else:
        later = now() + timedelta(hours=1)
        edit(row.pk, by="test", reason="it waits", run_at=later)
    before = OutboxEmail.objects.filter(pk=row.pk).values(*PROGRESS).get()
    told = len(emitted("email.*"))
    is_own = whose == "another job of its company"
    tenant = str(company.pk if is_own else factories.company("Eve").pk)

    forged_id = jobs.enqueue(data, tenant=tenant).id
    assert run_jobs().failed == 1

    found = jobs.Job.objects.get(pk=forged_id)
    assert (found.state, found.reason, found.result) == ("failed", "unrecoverable", None)
    assert OutboxEmail.objects.filter(pk=row.pk).values(*PROGRESS).get() == before
    assert len(emitted("email.*")) == told
    assert len(sink.taken) == (1 if status == "sent" else 0)


def test_no_request_makes_a_job_that_sends(company: Company, sink: Sink) -> None:
    row, _ = accepted(company)
    key = Caller(tenants=[str(company.pk)])
    payload = {
        "outboxId": str(row.pk), "companyId": str(company.pk), "requestId": "r", "to": row.to,
        "subject": row.subject, "htmlRef": str(row.html_id), "enqueuedAt": now().isoformat(),
        "recipient": {"recipientId": str(row.recipient_id), "email": row.to},
    }  # fmt: skip
    answer = key("POST", "/jobs", {"kind": "email:send", "payload": payload})
    assert answer.status_code == 422 and "internal" in answer.data["detail"], answer.content
    assert jobs.Job.objects.count() == 1


def test_a_key_of_another_queue_has_no_part_in_the_gateway(company: Company, sink: Sink) -> None:
    row, _ = accepted(company)
    services.add_suppression(company.pk, "zoe@x.test", by="test", reason="a test")
    entry = Suppression.objects.get()
    for key in (
        Caller(name="reports", queues=["reports"]),
        Caller(name="both", queues=["reports"], tenants=[str(company.pk)]),
    ):
        at = str(company.pk)
        for path in ("/emails", "/email/suppressions"):
            assert key("GET", path).data["data"] == []
        for method, path, body in (
            ("GET", f"/emails/{row.pk}", None),
            ("GET", f"/email/batches/{row.pk}?company={at}", None),
            ("POST", "/emails/search", {"company": at, "cpfCnpj": factories.CPF}),
            ("POST", "/email/send", {"company": at, "email": request()}),
            ("POST", "/email/batches", {"company": at, "emails": [request()]}),
            ("POST", f"/emails/{row.pk}/resend", {"reason": "x"}),
            ("POST", "/email/suppressions", {"company": at, "email": "a@x.test", "reason": "x"}),
            ("POST", f"/email/suppressions/{entry.pk}/lift", {"reason": "x"}),
        ):
            answer = key(method, path, body) if body else key(method, path)
            assert answer.status_code == 404, (path, answer.content)
    who = principal("eve", queues={"reports"})
    for act in (
        lambda: services.resend(row.pk, by=who, reason="x"),
        lambda: services.reveal(row.pk, by=who, reason="x"),
        lambda: services.suspend(company.pk, by=who, reason="x"),
        lambda: services.add_suppression(None, "a@x.test", by=who, reason="x"),
        lambda: services.lift_suppression(company.pk, "zoe@x.test", by=who, reason="x"),
    ):
        with pytest.raises(Refused) as caught:
            act()
        assert caught.value.code == "NOT_FOUND"
    assert Suppression.objects.get() == entry and OutboxEmail.objects.count() == 1


def principal(name: str, queues: set[str]) -> Principal:
    return Principal(name, "api", every_permission(), Scope(queues=frozenset(queues)))
