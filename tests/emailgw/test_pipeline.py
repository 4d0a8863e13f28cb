"""An email from its acceptance to the SMTP server, and everything that may come in between."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import jobs
from emailgw import pipeline, services, states
from emailgw.models import Company, EmailEvent, EmailLog, OutboxEmail, StoredHtml
from emailgw.requests import parse
from emailgw.services import resend
from emailgw.services.acceptance import job_data
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.emailgw.factories import request
from tests.emailgw.sink import Sink

pytestmark = pytest.mark.django_db


def accept(company: Company, **fields: Any) -> OutboxEmail:
    made = services.accept(company, request(**fields), by="test")
    return OutboxEmail.objects.get(pk=made.outbox_id)


def again(row: OutboxEmail) -> OutboxEmail:
    row.refresh_from_db()
    return row


def story(row: OutboxEmail) -> list[str]:
    return list(EmailEvent.objects.filter(outbox=row).order_by("id").values_list("type", flat=True))


def job(row: OutboxEmail) -> jobs.Job:
    return jobs.Job.objects.get(pk=row.pk)


def test_an_email_is_sent_to_whom_it_says(company: Company, sink: Sink) -> None:
    row = accept(
        company, cc=["bo@x.test"], bcc=["cy@x.test"], replyTo="help@acme.test",
        headers={"X-Custom-Order": "7"}, tags=["invoice"],
    )  # fmt: skip
    assert run_jobs().succeeded == 1
    [taken] = sink.taken
    assert taken.envelope == ("ana@customers.test", "bo@x.test", "cy@x.test")
    message: Any = taken.message
    assert message["Message-ID"] == f"<{row.pk}@acme.test>"
    assert (message["To"], message["Cc"], message["Bcc"]) == (
        "ana@customers.test", "bo@x.test", None,
    )  # fmt: skip
    assert (message["Reply-To"], message["X-Custom-Order"]) == ("help@acme.test", "7")
    text, html = message.get_payload()
    assert b"Pay now" in text.get_payload(decode=True)
    assert b"<b>now</b>" in html.get_payload(decode=True)
    assert again(row).status == "SENT"
    log = EmailLog.objects.get(outbox=row)
    assert (log.status, log.attempts, log.provider) == ("SENT", 1, "smtp")
    assert story(row) == ["CREATED", "RECEIVED", "VALIDATED", "SENT_ATTEMPT", "SENT"]
    result: Any = job(row).result
    assert (result["status"], result["attempt"]) == ("SENT", 1)
    assert [event.tenant for event in emitted("email.*")] == [str(company.pk)]


def test_what_was_sent_is_never_sent_again(company: Company, sink: Sink) -> None:
    row = accept(company)
    run_jobs()
    with pytest.raises(jobs.errors.NotAllowed):
        jobs.replay(row.pk, by="test", reason="again")
    jobs.Job.objects.filter(pk=row.pk).delete()
    data = job_data(row, parse(request()))
    jobs.enqueue(data, job_id=row.pk, tenant=str(company.pk))
    run_jobs()
    result: Any = job(row).result
    assert result["status"] == "ALREADY_SENT"
    assert result["sesMessageId"] == f"<{row.pk}@acme.test>"
    assert len(sink.taken) == 1


def test_a_send_asks_the_database_for_little(
    company: Company, sink: Sink, django_assert_max_num_queries: Any, monkeypatch: Any
) -> None:
    """What one costs decides how many leave in a second: see ``benchmarks``."""
    row, run = accept(company), pipeline.run
    seen: list[str] = []

    def counted(ctx: jobs.Context, data: Any) -> Any:
        with django_assert_max_num_queries(15) as queries:
            result = run(ctx, data)
        seen.extend(query["sql"] for query in queries)
        return result

    monkeypatch.setattr(pipeline, "run", counted)
    assert run_jobs().succeeded == 1
    assert story(row) == ["CREATED", "RECEIVED", "VALIDATED", "SENT_ATTEMPT", "SENT"]
    written = [sql for sql in seen if sql.startswith('UPDATE "emailgw_outbox"')]
    assert len(written) == 3, "taken, about to leave, sent"


@pytest.mark.parametrize("answer", ["421 busy", "450 later", "451 later", "452 full", "454 tls"])
def test_what_is_put_off_is_tried_again_by_the_delays_of_the_contract(
    company: Company, sink: Sink, answer: str, settings: Any
) -> None:
    settings.EMAILGW = {**settings.EMAILGW, "BREAKER_THRESHOLD": 100}
    sink.script = lambda step, address, times: answer if step == "RCPT" and times < 5 else None
    with freeze_clock() as clock:
        row = accept(company)
        for number, delay in enumerate((1, 5, 30, 120), start=1):
            run_jobs()
            assert (again(row).status, row.attempts) == ("RETRY_SCHEDULED", number)
            assert row.error_code == "SMTP_DEFERRED"
            clock.tick(timedelta(seconds=delay - 0.01))
            assert len(run_jobs()) == 0
            clock.tick(timedelta(seconds=0.3))
        assert run_jobs().succeeded == 1
    assert (again(row).status, row.attempts, len(sink.taken)) == ("SENT", 5, 1)


def test_after_five_attempts_it_is_given_up(company: Company, sink: Sink) -> None:
    sink.script = lambda step, address, times: "451 later" if step == "END" else None
    with freeze_clock() as clock:
        row = accept(company)
        for _ in range(7):
            run_jobs()
            clock.tick(200)
    assert (again(row).status, row.error_code, row.attempts) == ("FAILED", "SMTP_DEFERRED", 5)
    assert sink.asked("END", "ana@customers.test") == 5
    assert EmailLog.objects.get(outbox=row).status == "FAILED"
    assert jobs.types.DeadLetter.objects.get(job_id=row.pk).state == "open"


@pytest.mark.parametrize("step", ["RCPT", "DATA", "END"])
@pytest.mark.parametrize("answer", ["500 no", "504 no", "550 no such user", "554 spam"])
def test_what_is_refused_is_not_tried_again(
    company: Company, sink: Sink, step: str, answer: str
) -> None:
    sink.script = lambda at, address, times: answer if at == step else None
    row = accept(company)
    assert run_jobs().failed == 1
    assert (again(row).status, row.error_code) == ("FAILED", "SMTP_REJECTED")
    assert sink.taken == []


def test_a_refused_copy_is_told_and_the_rest_is_sent(company: Company, sink: Sink) -> None:
    sink.script = lambda step, address, times: "550 no" if address == "bo@x.test" else None
    row = accept(company, cc=["bo@x.test", "di@x.test"])
    assert run_jobs().succeeded == 1
    assert sink.taken[0].envelope == ("ana@customers.test", "di@x.test")
    assert again(row).error_reason == "the provider refused b***@x***.test"


def test_a_copy_that_is_put_off_holds_up_the_letter_so_that_nobody_gets_it_twice(
    company: Company, sink: Sink
) -> None:
    sink.script = lambda step, address, times: (
        "451 later" if address == "bo@x.test" and times == 1 else None
    )
    with freeze_clock() as clock:
        row = accept(company, cc=["bo@x.test"])
        run_jobs()
        assert (sink.taken, again(row).status) == ([], "RETRY_SCHEDULED")
        clock.tick(2)
        run_jobs()
    assert [t.envelope for t in sink.taken] == [("ana@customers.test", "bo@x.test")]


@pytest.mark.parametrize("step", ["MAIL", "RCPT", "DATA"])
def test_a_server_that_stalls_or_hangs_up_before_the_content_has_nothing(
    company: Company, sink: Sink, step: str
) -> None:
    sink.script = lambda at, address, times: "hang up" if at == step and times == 1 else None
    with freeze_clock() as clock:
        row = accept(company)
        run_jobs()
        assert again(row).status == "RETRY_SCHEDULED"
        clock.tick(2)
        run_jobs()
    assert (again(row).status, len(sink.taken)) == ("SENT", 1)


def test_a_doubt_that_was_not_sent_after_all_fails(company: Company, sink: Sink) -> None:
    sink.script = lambda step, address, times: "take and hang up" if step == "END" else None
    with freeze_clock() as clock:
        row = accept(company)
        run_jobs()
        clock.tick(2)
        run_jobs()
        assert again(row).in_doubt
        jobs.effects.resolve_doubt(
            row.pk, pipeline.EFFECT, "did_not_happen", by="ana", reason="not in their log"
        )
        assert (again(row).status, row.in_doubt, row.error_code) == ("FAILED", False, "NOT_SENT")
        run_jobs()
        assert (job(row).state, len(sink.taken)) == ("failed", 1)
        sink.script = lambda step, address, times: None
        resend(row.pk, by="ana", reason="send it after all")
        run_jobs()
    assert (again(row).status, len(sink.taken)) == ("SENT", 2)


def test_silence_after_the_content_is_a_doubt_and_is_parked(company: Company, sink: Sink) -> None:
    sink.script = lambda step, address, times: "take and hang up" if step == "END" else None
    with freeze_clock() as clock:
        row = accept(company)
        run_jobs()
        clock.tick(2)
        run_jobs()
        assert (again(row).status, row.in_doubt) == ("SENT_ATTEMPT", True)
        assert (job(row).state, job(row).reason) == ("failed", "in_doubt")
        assert story(row)[-2:] == ["NO_REPLY", "IN_DOUBT"]
        resend(row.pk, by="ana", reason="try")  # asks the probe, which knows nothing
        run_jobs()
        assert (again(row).in_doubt, len(sink.taken)) == (True, 1)
        sink.script = lambda step, address, times: None
        resend(row.pk, by="ana", reason="they have not got it", even_if_sent=True)
        run_jobs()
    assert (again(row).status, row.in_doubt, len(sink.taken)) == ("SENT", False, 2)


def test_a_company_may_prefer_twice_to_never(company: Company, sink: Sink) -> None:
    Company.objects.update(on_doubt="resend")
    sink.script = lambda step, a, times: "take and hang up" if (step, times) == ("END", 1) else None
    with freeze_clock() as clock:
        row = accept(company)
        run_jobs()
        clock.tick(2)
        run_jobs()
    assert (again(row).status, len(sink.taken)) == ("SENT", 2)


def test_nothing_is_sent_after_its_day(company: Company, sink: Sink) -> None:
    with freeze_clock() as clock:
        row = accept(company)
        clock.tick(timedelta(hours=24, seconds=1))
        run_jobs(["email:send"])
        assert job(row).state == "expired"
        assert (again(row).status, sink.taken) == ("EXPIRED", [])
        resend(row.pk, by="ana", reason="it matters")
        clock.tick(timedelta(hours=24, seconds=1))
        run_jobs(["email:send"])
        assert (again(row).status, sink.taken) == ("EXPIRED", [])
        resend(row.pk, by="ana", reason="it matters")
        run_jobs(["email:send"])
    assert (again(row).status, len(sink.taken)) == ("SENT", 1)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda r: OutboxEmail.objects.filter(pk=r.pk).delete(), None),
        (lambda r: setattr_saved(r.recipient, deleted_at=r.enqueued_at), "RECIPIENT_NOT_FOUND"),
        (lambda r: setattr_saved(r.recipient, email="eve@x.test"), "RECIPIENT_NOT_FOUND"),
        (lambda r: setattr_saved(r.html, body="<p>else</p>"), "INVALID_TEMPLATE"),
        (lambda r: setattr_saved(r, to="eve@x.test"), "INVALID_PAYLOAD"),
        (lambda r: setattr_saved(r, subject="other"), "INVALID_PAYLOAD"),
        (lambda r: setattr_saved(r.company, is_suspended=True), "COMPANY_SUSPENDED"),
        (lambda r: setattr_saved(r.company, from_domains=[]), "SES_MAIL_FROM_DOMAIN_NOT_VERIFIED"),
        (
            lambda r: services.add_suppression(r.company_id, r.to, by="ana", reason="asked"),
            "RECIPIENT_SUPPRESSED",
        ),
    ],
)
def test_the_four_validations_are_made_again_before_the_send(
    company: Company, sink: Sink, spoil: Any, code: str | None
) -> None:
    row = accept(company)
    if code is None:
        EmailEvent.objects.all().delete()
    spoil(row)
    assert run_jobs().failed == 1
    assert sink.taken == []
    if code:
        assert (again(row).status, row.error_code) == ("FAILED", code)


def setattr_saved(row: Any, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(row, name, value)
    row.save()


def test_content_is_stored_once_per_company(company: Company, sink: Sink) -> None:
    first, second = accept(company), accept(company, to="bo@x.test", recipient={})
    assert first.html_id == second.html_id
    assert StoredHtml.objects.count() == 1


def test_an_open_circuit_uses_no_attempt(company: Company, sink: Sink, settings: Any) -> None:
    settings.EMAILGW = {**settings.EMAILGW, "BREAKER_THRESHOLD": 1, "BREAKER_OPEN_FOR": 50}
    sink.script = lambda step, a, times: "421 busy" if (step, times) == ("MAIL", 1) else None
    with freeze_clock() as clock:
        row, other = accept(company), accept(company, to="bo@x.test", recipient={})
        run_jobs()
        assert {again(row).error_code, again(other).error_code} == {
            "SMTP_DEFERRED", "SES_CIRCUIT_OPEN",
        }  # fmt: skip
        for _ in range(4):
            clock.tick(60)
            run_jobs()
    assert (again(row).status, again(other).status) == ("SENT", "SENT")
    assert {job(row).failures, job(other).failures} == {0}


def test_the_ways_of_an_email_have_no_way_back_from_sent() -> None:
    assert states.outbox.ways("SENT") == ()
    assert "SENT" not in states.outbox.ways("ENQUEUED")
