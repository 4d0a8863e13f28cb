"""Servers that answer wrongly: what was taken is not sent again, and one mail is not another's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

import jobs
from emailgw import services
from emailgw.models import Company, EmailEvent, EmailLog, OutboxEmail
from jobs.metrics import numbers
from jobs.models import Breaker, DeadLetter
from jobs.operate import breakers as operate
from jobs.operate.environment import findings
from jobs.operate.overview import overview
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.emailgw import factories
from tests.emailgw.factories import request
from tests.emailgw.rude import Rude, rude

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def listening() -> Iterator[Rude]:
    with rude() as server:
        yield server


@pytest.fixture
def server(listening: Rude, settings: Any) -> Rude:
    """A server that takes everything until a test says otherwise; the gateway sends to it."""
    listening.answers = lambda step, address: None
    listening.taken.clear()
    listening.asked.clear()
    settings.EMAILGW = factories.providers(listening.port)
    return listening


@pytest.fixture
def beta(company: Company) -> Company:
    """Another company, which sends from beta.test."""
    return factories.company("Beta", default_from="shop@beta.test", from_domains=["beta.test"])


def accept(company: Company, to: str = "ana@customers.test", **fields: Any) -> OutboxEmail:
    recipient: dict[str, Any] = {}
    made = services.accept(company, request(to=to, recipient=recipient, **fields), by="test")
    return OutboxEmail.objects.get(pk=made.outbox_id)


def again(row: OutboxEmail) -> OutboxEmail:
    row.refresh_from_db()
    return row


def until_settled(seconds: float = 200, rounds: int = 7) -> None:
    """Run what is due, again and again, for longer than five attempts take."""
    with freeze_clock() as clock:
        for _ in range(rounds):
            run_jobs()
            clock.tick(seconds)


def always(step: str, answer: bytes) -> Any:
    return lambda at, address: answer if at == step else None


# ---- the answer to the content


@pytest.mark.parametrize(
    "answer",
    [
        b"hello there\r\n", b"\r\n", b"* 250 OK\r\n", b"25", b"", b"250-", b"250-first\r\n",
        b"250-first\r\nhello\r\n", b"250-first\r\n550 second\r\n", b"2500 OK\r\n", b"999 what\r\n",
        b"354 go ahead\r\n", b"150 wait\r\n", b"\xff\xfe\r\n", b" 250 OK\r\n", b"+25 OK\r\n",
    ],
)  # fmt: skip
def test_an_answer_to_the_content_that_nobody_can_read_is_a_doubt(
    company: Company, server: Rude, answer: bytes
) -> None:
    server.answers = always("END", answer)
    row = accept(company)
    until_settled()
    assert server.taken == {f"<{row.pk}@acme.test>": 1}
    assert (again(row).status, row.in_doubt) == ("SENT_ATTEMPT", True)
    assert "email.failed" not in [event.topic for event in emitted("email.*")]


@pytest.mark.parametrize(
    "answer",
    [
        b"250 OK\r\n", b"252 ok\r\n", b"200 ok\r\n", b"250\r\n", b"250 OK", b"250", b"250 OK\n",
        b"250-a\r\n250 b\r\n", b"250 " + b"x" * 20_000 + b"\r\n",
    ],
)  # fmt: skip
def test_every_yes_to_the_content_means_sent(company: Company, server: Rude, answer: bytes) -> None:
    server.answers = always("END", answer)
    row = accept(company)
    until_settled()
    assert server.taken == {f"<{row.pk}@acme.test>": 1}
    assert (again(row).status, row.in_doubt) == ("SENT", False)
    assert EmailLog.objects.get(outbox=row).attempts == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [(b"550 no\r\n", "SMTP_REJECTED"), (b"554-no\r\n554 no\r\n", "SMTP_REJECTED"),
     (b"451 later\r\n", "SMTP_DEFERRED")],
)  # fmt: skip
def test_every_no_to_the_content_means_not_sent(
    company: Company, server: Rude, answer: bytes, code: str
) -> None:
    server.answers = always("END", answer)
    row = accept(company)
    until_settled()
    assert (again(row).status, row.in_doubt, row.error_code) == ("FAILED", False, code)


@pytest.mark.parametrize("step", ["EHLO", "MAIL", "RCPT"])
def test_every_yes_before_the_content_is_one(company: Company, server: Rude, step: str) -> None:
    server.answers = always(step, b"252 ok\r\n" if step != "EHLO" else b"250 rude\r\n")
    row = accept(company)
    until_settled(rounds=1)
    assert again(row).status == "SENT"


@pytest.mark.parametrize("answer", [b"hello\r\n", b"25\r\n", b"2"])
@pytest.mark.parametrize("step", ["BANNER", "EHLO", "MAIL", "RCPT", "DATA"])
def test_nonsense_before_the_content_fails_no_mail(
    company: Company, server: Rude, step: str, answer: bytes
) -> None:
    server.answers = always(step, answer)
    row = accept(company)
    until_settled(rounds=1)
    assert (again(row).status, row.error_code) == ("RETRY_SCHEDULED", "NETWORK_ERROR")
    server.answers = lambda at, address: None
    until_settled(rounds=2)
    assert again(row).status == "SENT"


def test_a_content_that_was_announced_and_not_begun_is_not_ended(
    company: Company, server: Rude, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its last line a content is nobody's, so the connection must end without one."""
    from emailgw import pipeline
    from emailgw.errors import NotSent

    def begin(attempt: Any) -> None:
        raise NotSent("UNKNOWN_ERROR", "a later attempt has the email")

    monkeypatch.setattr(pipeline, "_begin", begin)
    row = accept(company)
    until_settled(rounds=1)
    assert (again(row).status, server.taken) == ("RETRY_SCHEDULED", {})


# ---- whose fault it is


def circuits() -> dict[str, str]:
    return dict(Breaker.objects.values_list("name", "state"))


@pytest.mark.parametrize(
    "answer", [b"421 busy\r\n", b"454 later\r\n", b"", b"hello\r\n", b"530 x\r\n"]
)
@pytest.mark.parametrize("step", ["RCPT", "DATA", "END"])
def test_bad_recipients_of_a_company_hold_up_nobodys_mail(
    company: Company, beta: Company, server: Rude, step: str, answer: bytes
) -> None:
    server.answers = lambda at, to: answer if at == step and to.startswith("bad") else None
    bad = [accept(company, f"bad{n}@x.test") for n in range(6)]
    with freeze_clock() as clock:
        run_jobs()
        is_silence = step == "END" and not answer[:1].isdigit()
        good = [accept(beta), *([] if is_silence else [accept(company)])]
        clock.tick(1)
        run_jobs()
    assert [again(row).status for row in good] == ["SENT"] * len(good)
    assert circuits().get("email:smtp", "closed") == "closed"
    assert {again(row).status for row in bad} <= {"RETRY_SCHEDULED", "SENT_ATTEMPT"}


def test_a_server_that_swallows_a_companys_mail_gets_no_more_of_it_for_a_while(
    company: Company, beta: Company, server: Rude
) -> None:
    server.answers = lambda at, to: b"" if at == "END" and to.startswith("bad") else None
    rows = [accept(company, f"bad{n}@x.test") for n in range(20)]
    with freeze_clock() as clock:
        run_jobs()
        assert len(server.taken) == 5
        accept(beta)
        clock.tick(10)
        assert run_jobs().succeeded == 1
    assert circuits() == {f"email:smtp:{company.pk}": "open"}
    doubts = [again(row).status for row in rows].count("SENT_ATTEMPT")
    assert doubts == 5


def test_one_email_that_may_be_sent_twice_opens_no_circuit(company: Company, server: Rude) -> None:
    Company.objects.update(on_doubt="resend")
    server.answers = always("END", b"")
    row = accept(company)
    until_settled()
    assert server.taken[f"<{row.pk}@acme.test>"] == 5
    assert "open" not in circuits().values()


@pytest.mark.parametrize("answer", [b"421 busy\r\n", b"", b"nonsense\r\n"])
@pytest.mark.parametrize("step", ["BANNER", "EHLO", "MAIL"])
def test_an_outage_costs_a_lonely_email_none_of_its_attempts_but_those_that_find_out(
    company: Company, server: Rude, step: str, answer: bytes
) -> None:
    server.answers = always(step, answer)
    row = accept(company)
    until_settled(seconds=600, rounds=10)
    assert (again(row).status, row.attempts) == ("RETRY_SCHEDULED", 5)
    assert jobs.Job.objects.get(pk=row.pk).failures == 4
    assert "email.failed" not in [event.topic for event in emitted("email.*")]
    server.answers = lambda at, address: None
    with freeze_clock() as clock:
        clock.tick(7000)
        run_jobs()
    assert again(row).status == "SENT"
    assert "open" not in circuits().values()


def test_what_waits_for_a_circuit_is_told_once(company: Company, server: Rude) -> None:
    server.answers = always("BANNER", b"421 busy\r\n")
    rows = [accept(company, f"a{n}@x.test") for n in range(12)]
    with freeze_clock() as clock:
        run_jobs()
        told = EmailEvent.objects.count()
        for _ in range(5):
            clock.tick(70)
            run_jobs()
    # One of them probes in each round.
    assert EmailEvent.objects.count() - told <= 5 * 4
    assert {again(row).status for row in rows} == {"RETRY_SCHEDULED"}


# ---- the gateway's own trouble


LOCKED = [
    ("AUTH", b"535 5.7.8 Authentication credentials invalid\r\n", "SMTP_NOT_AUTHORIZED"),
    ("AUTH", b"530 5.7.0 Must issue a STARTTLS command first\r\n", "SMTP_NOT_AUTHORIZED"),
    ("EHLO", b"250 rude\r\n", "SMTP_NOT_AUTHORIZED"),
    ("EHLO", b"554 go away\r\n", "SMTP_NOT_AUTHORIZED"),
    ("BANNER", b"554 No SMTP service here\r\n", "SMTP_NOT_AUTHORIZED"),
    ("MAIL", b"530 5.7.0 Authentication required\r\n", "SMTP_NOT_AUTHORIZED"),
    ("MAIL", b"550 5.7.1 Sender refused\r\n", "SMTP_SENDER_REFUSED"),
    ("MAIL", b"553 5.7.1 not owned by user\r\n", "SMTP_SENDER_REFUSED"),
    ("MAIL", b"501 syntax\r\n", "SMTP_SENDER_REFUSED"),
    ("RCPT", b"530 5.7.0 Authentication required\r\n", "SMTP_NOT_AUTHORIZED"),
]


@pytest.mark.parametrize(("step", "answer", "code"), LOCKED)
def test_mail_waits_while_the_gateway_is_refused(
    company: Company, server: Rude, settings: Any, step: str, answer: bytes, code: str
) -> None:
    if step in ("AUTH", "EHLO"):
        options = {"host": "127.0.0.1", "port": server.port, "username": "u", "password": "bad"}
        settings.EMAILGW = {"PROVIDERS": {"smtp": {"OPTIONS": options}}, "SEND_TIMEOUT": 2}
    server.answers = always(step, answer)
    rows = [accept(company, f"a{n}@x.test") for n in range(3)]
    with freeze_clock() as clock:
        for _ in range(6):
            run_jobs()
            clock.tick(3600)
        assert {again(row).status for row in rows} == {"RETRY_SCHEDULED"}
        assert code in {row.error_code for row in rows}
        assert {jobs.Job.objects.get(pk=row.pk).failures for row in rows} == {0}
        assert {event.topic for event in emitted("email.*")} == {"email.retry_scheduled"}
        assert not DeadLetter.objects.exists() and not EmailLog.objects.exists()
        if step != "RCPT":
            [(name, state)] = circuits().items()
            told = Breaker.objects.get(name=name).last_error
            assert state == "open" and (code in told)
            whole = overview(by="ann")
            [problem] = [p for p in whole.problems if p.code == "circuit"]
            assert problem.subject == name and code in problem.text
            [found] = [f for f in findings() if f.name == "circuits"]
            assert found.level == "warning" and name in found.detail
            [number] = [n for n in numbers.read()[0] if n.name == "jobs_circuits_open"]
            assert number.value == 1

        server.answers = lambda at, address: None
        settings.EMAILGW = factories.providers(server.port)
        if step != "RCPT":
            operate.reset(name, by="ann", reason="the password is right now")
        run_jobs()
    assert {again(row).status for row in rows} == {"SENT"}


def test_a_sender_that_is_refused_is_nobody_elses_trouble(
    company: Company, beta: Company, server: Rude
) -> None:
    server.answers = lambda at, sender: (
        b"550 5.7.1 not yours\r\n" if at == "MAIL" and "acme" in sender else None
    )
    acme = [accept(company, f"a{n}@x.test") for n in range(6)]
    run_jobs()
    rows = [accept(beta, f"b{n}@x.test") for n in range(3)]
    run_jobs()
    assert {again(row).status for row in rows} == {"SENT"}
    assert {again(row).status for row in acme} == {"RETRY_SCHEDULED"}
    assert server.asked["MAIL"] == 1 + len(rows)
    assert circuits() == {f"email:smtp:{company.pk}": "open"}


def test_people_see_that_a_circuit_is_open(
    company: Company, server: Rude, admin_client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = always("BANNER", b"554 No SMTP service here\r\n")
    accept(company)
    run_jobs()
    page = admin_client.get("/admin/jobs/overview/").content.decode()
    assert "email:smtp" in page and "554 No SMTP service here" in page
    call_command("jobs", "breakers", "list")
    assert "554 No SMTP service here" in capsys.readouterr().out
