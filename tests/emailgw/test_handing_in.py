"""Handing in: what it asks of the database, who may at this very moment, and who is quicker."""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

import jobs
from emailgw import services
from emailgw.errors import Refused
from emailgw.models import (
    Company,
    EmailEvent,
    IdempotencyKey,
    OutboxEmail,
    Recipient,
    StoredHtml,
    Usage,
)
from emailgw.services import acceptance
from emailgw.services.lookup import look_up
from jobs.models import ApiKey
from jobs.operate import apikeys
from tests.api.conftest import Caller
from tests.emailgw import factories
from tests.emailgw.factories import request

pytestmark = pytest.mark.django_db
MOST = 5
"""Savepoint of the test, the key, how things stand, the rows, and the end of the savepoint; the
job is written by a call of its own, which is not among these."""


def hand_in(caller: Caller, **fields: Any) -> Any:
    return caller("POST", "/email/send", {"email": request(**fields)})


@pytest.fixture
def caller(company: Company) -> Caller:
    return Caller(tenants=[str(company.pk)])


@pytest.mark.parametrize(
    "fields",
    [{}, {"to": "new@x.test", "recipient": {}}, {"html": "<p>new</p>"}, {"externalId": "o-1"}],
    ids=["known", "new recipient", "new content", "with a key"],
)
def test_an_email_costs_few_statements(caller: Caller, fields: dict[str, Any]) -> None:
    assert hand_in(caller).status_code == 202
    with CaptureQueriesContext(connection) as asked:
        assert hand_in(caller, **fields).status_code == 202
    assert len(asked) <= MOST, [query["sql"][:80] for query in asked.captured_queries]


def test_whoever_may_no_longer_is_refused_at_once(caller: Caller, company: Company) -> None:
    def status() -> int:
        return int(hand_in(caller).status_code)

    assert status() == 202
    Company.objects.update(is_suspended=True)
    assert status() == 403
    Company.objects.update(is_suspended=False, from_domains=["else.test"])
    assert status() == 403
    Company.objects.update(from_domains=["acme.test"])
    services.add_suppression(None, "ana@customers.test", by="ana", reason="asked")
    assert status() == 422
    services.lift_suppression(None, "ana@customers.test", by="ana", reason="asked")
    assert status() == 202
    for key in ApiKey.objects.all():
        apikeys.revoke(key.pk, by="ana", reason="lost")
    assert status() == 401


def test_one_too_many_leaves_nothing_behind(caller: Caller, company: Company) -> None:
    Company.objects.update(per_minute=1, per_hour=1)
    assert hand_in(caller).status_code == 202
    tables = (OutboxEmail, Recipient, StoredHtml, EmailEvent, IdempotencyKey, Usage, jobs.Job)
    before = [list(table.objects.values()) for table in tables[3:6]]
    answer = hand_in(caller, to="b@x.test", html="<p>b</p>", recipient={}, externalId="k")
    assert (answer.status_code, answer.data["error"]["code"]) == (429, "RATE_LIMIT_EXCEEDED")
    assert int(answer["Retry-After"]) > 0
    assert [table.objects.count() for table in tables] == [1, 1, 1, 1, 0, 3, 1]
    assert [list(table.objects.values()) for table in tables[3:6]] == before


def test_code_that_goes_on_after_a_refusal_keeps_nothing_of_it(company: Company) -> None:
    Company.objects.update(per_minute=1, per_hour=1)
    services.accept(company, request(), by="test")
    with pytest.raises(Refused):
        services.accept(company, request(to="b@x.test", html="<p>b</p>", recipient={}), by="test")
    assert (Recipient.objects.count(), StoredHtml.objects.count()) == (1, 1)
    assert set(Usage.objects.values_list("used", flat=True)) == {1}


def recipient_of(made: services.Accepted) -> Recipient:
    return OutboxEmail.objects.get(pk=made.outbox_id).recipient


def test_a_recipient_is_as_the_last_request_says(company: Company) -> None:
    def hand_in(**given: Any) -> Recipient:
        asked = request(recipient={"externalId": "C-1", **given})
        return recipient_of(services.accept(company, asked, by="test"))

    first = hand_in(nome="Ana")
    assert (first.nome, first.cpf_cnpj) == ("Ana", None)
    second = hand_in(nome="Ana Souza", razaoSocial="Souza SA", cpfCnpj=factories.CPF)
    assert second == first
    assert (second.nome, second.razao_social) == ("Ana Souza", "Souza SA")
    assert second.cpf_cnpj == factories.CPF and second.cpf_cnpj_hash
    kept = hand_in()  # what is not said stays
    assert (kept.nome, kept.razao_social, kept.cpf_cnpj) == ("Ana Souza", "Souza SA", factories.CPF)
    Recipient.objects.update(deleted_at="2026-01-01T00:00Z")
    assert hand_in().deleted_at is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["single", "batch"])
def test_of_many_at_the_same_moment_all_are_accepted_and_share_what_is_theirs(kind: str) -> None:
    company = factories.company()
    found: list[Any] = []
    begin = threading.Barrier(6)

    def hand_in(number: int) -> None:
        try:
            begin.wait(20)
            asked = request(subject=f"Invoice {number}")
            if kind == "single":
                found.append(services.accept(company, asked, by="test").outbox_id)
            else:
                [item] = services.accept_many(company, [asked], by="test").items
                found.append(item.accepted.outbox_id if item.accepted else item.refused)
        except Exception as error:
            found.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=hand_in, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(one, UUID) for one in found), found
    assert OutboxEmail.objects.count() == jobs.Job.objects.count() == len(set(found)) == 6
    assert Recipient.objects.count() == StoredHtml.objects.count() == 1
    assert set(Usage.objects.values_list("used", flat=True)) == {6}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("shared", ["content", "recipient", "key"])
def test_a_request_that_is_overtaken_after_its_lookup_looks_again(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    company = factories.company()
    key = "order-1" if shared == "key" else ""
    if shared == "content":  # so that nothing but the content is new
        Recipient.objects.create(company=company, external_id="late", email="late@x.test")

    def hand_in(name: str) -> services.Accepted:
        asked = request(
            to="ana@x.test" if shared == "recipient" else f"{name}@x.test",
            html="<p>same</p>" if shared == "content" else f"<p>{name}</p>",
            recipient={"externalId": "C-1" if shared == "recipient" else name},
        )
        return services.accept(company, asked, by="test", idempotency_key=key)

    def overtake() -> None:
        hand_in("rival")
        connections.close_all()

    def overtaken(*args: Any) -> Any:
        found = look_up(*args)
        monkeypatch.setattr(acceptance, "look_up", look_up)
        rival = threading.Thread(target=overtake)
        rival.start()
        rival.join()
        return found

    monkeypatch.setattr(acceptance, "look_up", overtaken)
    if shared == "key":
        with pytest.raises(Refused, match="different request"):
            hand_in("late")
    else:
        hand_in("late")
    count = 1 if shared == "key" else 2
    assert OutboxEmail.objects.count() == jobs.Job.objects.count() == count
    assert StoredHtml.objects.count() == (1 if shared == "content" else count)
    assert Recipient.objects.count() == (1 if shared == "recipient" else count)
    assert set(Usage.objects.values_list("used", flat=True)) == {count}
