"""What companies are told keeps its contract, whatever their mail says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

import jobs
from emailgw import clients, services
from emailgw.errors import NotSent
from emailgw.messages import checked
from emailgw.models import Company, OutboxEmail
from emailgw.payloads import EmailSendJobResult
from emailgw.requests import parse
from emailgw.services.acceptance import job_data
from jobs.models import Effect
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.emailgw import factories

pytestmark = pytest.mark.django_db
ORDINARY = [
    {"headers": {"X-Priority": "1"}},
    {"subject": "SENT"},
    {"subject": "2026"},
    {"subject": "a"},
    {"subject": "acme.test"},
    {"subject": "SMTP_DEFERRED"},
    {"subject": "attempt", "headers": {"X-Custom-A": "status", "X-Priority": "1"}},
    {"subject": "outboxId", "headers": {"X-Custom-A": "recipient"}},
    {"subject": "order-7", "externalId": "order-7", "tags": ["order-7"]},
    {"recipient": {"externalId": "1", "nome": "Sent", "razaoSocial": "test"}},
]
SECRETS = {
    "to": "zqlocal.zqcanary@zqdomain.test",
    "cc": ["zqcopy.zqcanary@zqdomain.test"],
    "subject": "Zqsubject",
    "headers": {"X-Custom-A": "Zqheader"},
    "recipient": {"externalId": "C1", "nome": "Zqname", "cpfCnpj": factories.CPF},
}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[list[Any]]:
    """A provider without a network: it does what the list says next, and else takes the letter."""
    plan: list[Any] = []
    settings.EMAILGW = factories.providers(9)

    def deliver(name: str, letter: Any, *, begin: Any, is_last: bool = False) -> clients.Delivery:
        checked(letter)
        if plan:
            raise plan.pop(0)
        begin()
        return clients.Delivery(letter.message_id)

    monkeypatch.setattr(clients, "deliver", deliver)
    yield plan


def send(company: Company, **fields: Any) -> tuple[OutboxEmail, dict[str, Any], list[Any]]:
    """The email, the result of its job and what its company was told, at the second attempt."""
    before = len(emitted("email.*"))
    asked = factories.request(**fields)
    row_id = services.accept(company, asked, by="test", request_id="request-1").outbox_id
    with freeze_clock() as clock:
        run_jobs()
        clock.tick(1.5)
        run_jobs()
    result: Any = jobs.Job.objects.get(pk=row_id).result
    return OutboxEmail.objects.get(pk=row_id), result, emitted("email.*")[before:]


def check(row: OutboxEmail, result: dict[str, Any], told: list[Any]) -> None:
    made = EmailSendJobResult.model_validate_json(json.dumps(result))
    assert (made.sesMessageId, made.status, made.attempt) == (f"<{row.pk}@acme.test>", "SENT", 2)
    assert isinstance(made.processedAt, datetime)
    local, _, domain = row.to.partition("@")
    common: dict[str, Any] = {
        "outboxId": str(row.pk), "requestId": "request-1",
        "recipient": {"email": f"{local[0]}***@{domain[0]}***.{domain.rpartition('.')[2]}"},
    }  # fmt: skip
    if row.external_id:
        common["externalId"] = row.external_id
    if row.tags:
        common["tags"] = row.tags
    retried, sent = told
    assert (retried.topic, sent.topic) == ("email.retry_scheduled", "email.sent")
    assert retried.payload == {
        **common, "status": "RETRY_SCHEDULED", "attempt": 1,
        "failureCode": "BOUNCE_TEMPORARY", "code": "SMTP_DEFERRED",
    }  # fmt: skip
    assert sent.payload == {**common, "status": "SENT", "attempt": 2}
    [effect] = Effect.objects.filter(job_id=row.pk)
    assert (effect.request, effect.outcome) == (
        {"provider": "smtp"}, {"messageId": f"<{row.pk}@acme.test>"},
    )  # fmt: skip


@pytest.mark.parametrize("fields", ORDINARY, ids=json.dumps)
def test_an_ordinary_mail_keeps_the_contract(
    company: Company, provider: list[Any], fields: dict[str, Any]
) -> None:
    provider.append(NotSent("SMTP_DEFERRED", "451 later"))
    check(*send(company, **fields))


TEXTS = st.one_of(
    st.sampled_from("SENT 1 2 2026 smtp status true null . < > - : T Z test acme req 11".split()),  # noqa: SIM905
    st.text("abcdeSTZ0123456789:-.<>@_ ", min_size=1, max_size=8).map(str.strip).filter(bool),
)


@examples(
    max_examples=15, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(subject=TEXTS, value=TEXTS, name=TEXTS)
def test_no_subject_header_or_name_changes_the_contract(
    company: Company, provider: list[Any], subject: str, value: str, name: str
) -> None:
    provider[:] = [NotSent("SMTP_DEFERRED", f"451 {subject}")]
    recipient = {"externalId": str(uuid4()), "nome": name}
    headers = {"X-Custom-A": value, "X-Priority": "1"}
    check(*send(company, subject=subject, headers=headers, recipient=recipient))


def test_what_is_secret_stays_so(company: Company, provider: list[Any]) -> None:
    provider.append(NotSent("SMTP_DEFERRED", f"451 {SECRETS['to']}"))
    row, result, told = send(company, **SECRETS)
    check(row, result, told)
    text = repr((result, told, list(Effect.objects.values())))
    assert "zq" not in text.lower() and factories.CPF not in text


def test_an_email_that_was_sent_before_answers_the_same(
    company: Company, provider: list[Any]
) -> None:
    provider.append(NotSent("SMTP_DEFERRED", "451 later"))
    row, first, _ = send(company, subject="ALREADY_SENT")
    jobs.Job.objects.filter(pk=row.pk).delete()
    asked = parse(factories.request(subject="ALREADY_SENT"))
    jobs.enqueue(job_data(row, asked), job_id=row.pk, tenant=str(company.pk))
    run_jobs()
    again: Any = jobs.Job.objects.get(pk=row.pk).result
    assert (again["status"], again["sesMessageId"]) == ("ALREADY_SENT", first["sesMessageId"])
