"""Accepting, refusing, batches, suppression, resending: what people and programs do."""

from __future__ import annotations

import threading
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, connections

import jobs
from emailgw import metrics, queries, services
from emailgw.documents import document_hash, document_problem
from emailgw.errors import Refused
from emailgw.models import Company, OutboxEmail, Recipient, StoredHtml, Suppression
from jobs.principals import Principal, Scope
from jobs.testing import freeze_clock, run_jobs
from tests.emailgw import factories
from tests.emailgw.factories import CNPJ, CPF, request
from tests.emailgw.sink import Sink

pytestmark = pytest.mark.django_db


def accept(company: Company, *, key: str = "", **fields: Any) -> services.Accepted:
    return services.accept(company, request(**fields), by="test", idempotency_key=key)


def test_the_job_is_the_outbox(company: Company) -> None:
    made = services.accept(
        company, request(), by="test", request_id="req-1", priority=1, delay=60_000, ttl=3_600_000
    )
    job = jobs.Job.objects.get(pk=made.outbox_id)
    row = OutboxEmail.objects.get(pk=made.job_id)
    assert (job.kind, job.queue, job.priority) == ("email:send", "email:send", 40)
    assert (job.tenant, job.correlation_id) == (str(company.pk), "req-1")
    assert job.expires_at == row.expires_at == row.enqueued_at + timedelta(hours=1)
    assert timedelta(seconds=59) < job.run_at - row.enqueued_at <= timedelta(seconds=60.5)


def test_the_same_key_is_the_same_email(company: Company) -> None:
    with freeze_clock() as clock:
        first = accept(company, key="k")
        again = accept(company, key="k")
        assert (again.outbox_id, again.repeated) == (first.outbox_id, True)
        with pytest.raises(Refused) as caught:
            accept(company, key="k", subject="Another")
        assert caught.value.code == "CONFLICT"
        clock.tick(timedelta(hours=24, seconds=1))
        assert accept(company, key="k").outbox_id != first.outbox_id
    assert accept(factories.company("Other"), key="k").outbox_id != first.outbox_id


def test_a_key_outlives_the_job(company: Company, sink: Sink) -> None:
    first = accept(company, key="k")
    run_jobs()
    call_command("jobs", "retention")
    assert not jobs.Job.objects.filter(pk=first.outbox_id).exists()
    assert accept(company, key="k").outbox_id == first.outbox_id
    run_jobs()
    assert len(sink.taken) == 1


@pytest.mark.parametrize(
    ("span", "limit", "wait"),
    [("per_minute", 60, 61), ("per_hour", 60, 3601), ("per_day", 5, 86401)],
)
def test_a_company_has_its_limits(span: str, limit: int, wait: int, db: None) -> None:
    company = factories.company("Small", **{span: 2})
    accept(company)
    accept(company)
    with pytest.raises(Refused) as caught:
        accept(company)
    assert caught.value.code == "RATE_LIMIT_EXCEEDED"
    assert 0 < caught.value.retry_after <= wait
    assert OutboxEmail.objects.count() == 2
    with freeze_clock() as clock:
        clock.tick(timedelta(seconds=wait))
        accept(company)


@pytest.mark.parametrize(
    ("change", "fields", "code", "field"),
    [
        ({"is_suspended": True}, {}, "FORBIDDEN", ""),
        ({"from_domains": ["else.test"]}, {}, "FORBIDDEN", ""),
        ({}, {"replyTo": "x@else.test"}, "VALIDATION_ERROR", "replyTo"),
        ({}, {"html": "x" * (1024 * 1024 + 1)}, "PAYLOAD_TOO_LARGE", "html"),
        ({}, {"html": "<script>x</script>"}, "VALIDATION_ERROR", "html"),
        ({}, {"recipient": {"cpfCnpj": "529.982.247-26"}}, "VALIDATION_ERROR", "recipient.cpfCnpj"),
        ({}, {"recipient": {"email": "b@x.test"}}, "VALIDATION_ERROR", "recipient"),
        ({}, {"to": "a@x.test,b@y.test"}, "VALIDATION_ERROR", "to"),
        ({}, {"cc": ["ana@customers.test"]}, "VALIDATION_ERROR", "cc"),
        ({}, {"colour": "red"}, "VALIDATION_ERROR", "colour"),
    ],
)
def test_what_is_refused_writes_nothing(
    company: Company, change: dict[str, Any], fields: dict[str, Any], code: str, field: str
) -> None:
    Company.objects.update(**change)
    with pytest.raises(Refused) as caught:
        accept(company, **fields)
    assert (caught.value.code, caught.value.field) == (code, field)
    for secret in ("529", "else.test", "b@", "ana@"):
        assert secret not in str(caught.value)
    assert not OutboxEmail.objects.exists() and not jobs.Job.objects.exists()
    assert not StoredHtml.objects.exists() and not Recipient.objects.exists()


def test_a_recipient_is_one_row_until_the_address_changes(company: Company) -> None:
    def recipient(**fields: Any) -> Recipient:
        made = accept(company, **fields)
        return OutboxEmail.objects.get(pk=made.outbox_id).recipient

    first = recipient()
    assert recipient() == first
    assert recipient(to="new@x.test") != first
    first.refresh_from_db()
    assert (first.external_id, first.email) == (None, "ana@customers.test")
    by_number = recipient(to="c@x.test", recipient={"cpfCnpj": CNPJ})
    assert recipient(to="c@x.test", recipient={"cpfCnpj": CNPJ.lower()}) == by_number
    assert by_number.cpf_cnpj_hash == document_hash(CNPJ, company.pk)


def test_what_was_accepted_for_an_old_address_is_sent_there(company: Company, sink: Sink) -> None:
    accept(company)
    accept(company, to="new@x.test")
    assert run_jobs().succeeded == 2
    assert {t.envelope for t in sink.taken} == {("ana@customers.test",), ("new@x.test",)}


def test_document_numbers() -> None:
    for good in (CPF, "52998224725", CNPJ, "12ABC34501DE35", "11.222.333/0001-81"):
        assert document_problem(good) == ""
    for bad in ("529.982.247-26", "11111111111", "12ABC34501DE36", "12ABC34501DEXX", "", "x" * 14):
        assert document_problem(bad)
    one, other = uuid4(), uuid4()
    assert document_hash(CPF, one) == document_hash("52998224725", one) != document_hash(CPF, other)
    assert len(document_hash(CPF, one)) == 64


def test_nothing_of_a_person_is_stored_in_clear(company: Company) -> None:
    accept(company, cc=["bo@x.test"], subject="Geheim", headers={"X-Custom-A": "wert"})
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        text = ""
        for (name,) in cursor.fetchall():
            cursor.execute(f'SELECT t::text FROM "{name}" t')  # noqa: S608
            text += "".join(row[0] for row in cursor.fetchall())
    for secret in ("ana@", "bo@x", "Geheim", "wert", "Souza", "52998224725", "529.982", "<b>now"):
        assert secret not in text


def test_a_batch_takes_what_it_can(company: Company, sink: Sink) -> None:
    made = services.accept_many(
        company, [request(), request(to="nobody"), request(to="bo@x.test", recipient={})],
        by="test",
    )  # fmt: skip
    assert [item.refused.field if item.refused else None for item in made.items] == [
        None, "to", None,
    ]  # fmt: skip
    assert services.batch_progress(company, made.id).status == "PROCESSING"
    run_jobs()
    assert services.batch_progress(company, made.id).status == "PARTIAL"
    with pytest.raises(Refused, match="no such batch"):
        services.batch_progress(factories.company("Other"), made.id)


def test_the_suppression_list_of_a_company_is_its_own(company: Company) -> None:
    services.add_suppression(company.pk, "Ana@customers.test", by="ana", reason="asked")
    with pytest.raises(Refused, match="to: is on the suppression list"):
        accept(company)
    accept(factories.company("Other"))
    services.lift_suppression(company.pk, "ana@customers.test", by="ana", reason="asked again")
    accept(company)
    services.add_suppression(None, "ana@customers.test", by="ana", reason="for everybody")
    with pytest.raises(Refused):
        accept(factories.company("Third"))
    assert [str(s) for s in services.list_suppressions(None)] == ["a***@c***.test"]
    assert Suppression.objects.get().by == "ana"


def person(company: Company | None, *permissions: str) -> Principal:
    tenants = frozenset({str(company.pk)}) if company else frozenset[str]()
    return Principal("eve", "api", frozenset(permissions), Scope(tenants))


def test_people_need_permission_scope_and_reason(company: Company) -> None:
    sender = accept(company)
    for by, reason, code in (
        (person(company), "x", "FORBIDDEN"),
        (person(None, "retry_job"), "x", "NOT_FOUND"),
        (person(company, "retry_job"), " ", "VALIDATION_ERROR"),
        (person(company, "retry_job"), "x", "CONFLICT"),
    ):
        with pytest.raises(Refused) as caught:
            services.resend(sender.outbox_id, by=by, reason=reason)
        assert caught.value.code == code
    for by, of in ((person(company), company.pk), (person(company, "change_suppression"), None)):
        with pytest.raises(Refused):
            services.add_suppression(of, "a@x.test", by=by, reason="x")
    assert not Suppression.objects.exists()


def test_a_dead_letter_is_resent_in_its_own_row(company: Company, sink: Sink) -> None:
    sink.script = lambda step, address, times: "550 no" if step == "RCPT" and times == 1 else None
    made = accept(company)
    assert run_jobs().failed == 1
    services.resend(made.outbox_id, by=person(company, "retry_job"), reason="the box is back")
    sink.script = lambda step, address, times: None
    assert run_jobs().succeeded == 1
    assert sink.count() == {str(made.outbox_id): 1}
    assert jobs.Job.objects.count() == OutboxEmail.objects.count() == 1


def test_companies_take_turns(company: Company, sink: Sink) -> None:
    others = [factories.company(f"c{n}") for n in range(2)]
    for n in range(12):
        accept(company, to=f"a{n}@x.test", recipient={})
    for n in range(6):
        accept(others[n % 2], to=f"b{n}@x.test", recipient={})
    run_jobs()
    order = [t.envelope[0][0] for t in sink.taken]
    last = max(n for n, who in enumerate(order) if who == "b")
    in_a_row = max(len(part) for part in "".join(order[:last]).split("b"))
    assert in_a_row <= 3
    assert len(order) == 18


EVIL = """<h1 onclick="x()">Hi</h1><script>alert(1)</script><form action="//e.test"><input></form>
<iframe src="//e.test"></iframe><object data="//e.test"></object><img src="https://e.test/p.gif">
<img src="cid:logo"><img src="data:image/png;base64,AA=="><a href="javascript:x()">a</a>
<a href="https://ok.test/pay">pay</a><p style="background:url(//e.test/x);color:red">b</p>
<link rel=stylesheet href=//e.test><style>@import "//e.test"</style><base href="//e.test">
<svg onload=x()><meta http-equiv=refresh content="0;//e.test"><div style="width:expression(x)">c
<img src="data:image/svg+xml;base64,AA=="><video poster="//e.test"></video>"""


def test_a_preview_runs_and_fetches_nothing() -> None:
    shown = services.preview(EVIL)
    for bad in ("e.test", "script", "onclick", "onload", "<form", "<iframe", "javascript", "svg"):
        assert bad not in shown.document
    for good in ("cid:logo", "data:image/png", "https://ok.test/pay", "Hi"):
        assert good in shown.document
    assert "default-src 'none'" in shown.policy and "sandbox" in shown.policy


@pytest.mark.django_db(transaction=True)
def test_of_two_requests_with_one_key_at_the_same_moment_one_is_written() -> None:
    company = factories.company()
    found: list[Any] = []

    def hand_in() -> None:
        try:
            found.append(accept(company, key="k").outbox_id)
        except Exception as error:
            found.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=hand_in) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6 and len(set(found)) == 1
    assert OutboxEmail.objects.count() == jobs.Job.objects.count() == 1


def test_names_of_recipients_that_are_there_are_indexed(company: Company) -> None:
    made = Recipient.objects.create(company=company, email="a@x.test", nome="Ana Souza")
    nameless = Recipient.objects.create(company=company, email="b@x.test")
    index = made.nome_index
    Recipient.objects.update(nome_index=None)
    import_module("emailgw.migrations.0006_names").index_names(apps, None)
    made.refresh_from_db()
    nameless.refresh_from_db()
    assert index and (made.nome_index, nameless.nome_index) == (index, None)
    assert queries.to_name(OutboxEmail.objects.all(), company.pk, "nome", "ANA SOUZA").count() == 0


@pytest.mark.django_db(transaction=True)
def test_emails_are_counted_as_they_end(
    company: Company, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        metrics.ended, "inc", lambda **labels: counted.append(tuple(labels.values()))
    )
    sink.script = lambda step, address, times: "550 no" if "bob" in address else None
    accept(company)
    accept(company, to="bob@customers.test", recipient={"externalId": "CUST-2"})
    run_jobs()
    assert sorted(counted) == [("FAILED", "SMTP_REJECTED"), ("SENT", "")]
