"""The verbs of the gateway, by program and by command."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from emailgw import services
from emailgw.models import Company, Suppression
from jobs.models import Audit
from tests.api.conftest import Caller
from tests.emailgw import factories
from tests.emailgw.sink import Sink

pytestmark = pytest.mark.django_db


def rows() -> list[tuple[str, str, str]]:
    found = Audit.objects.exclude(action__startswith="apikey.").order_by("at", "id")
    return [(row.action, row.via, row.outcome) for row in found]


def test_a_recipient_is_revealed_to_a_program_that_may(company: Company) -> None:
    made = services.accept(company, factories.request(), by="test")
    path = f"/emails/{made.outbox_id}/reveal"
    caller = Caller(tenants=[str(company.pk)])
    answer = caller("POST", path, {"reason": "the customer asks"}, Idempotency_Key="k")
    assert answer.status_code == 200 and answer.data["to"] == "ana@customers.test"
    # What is kept for a repeated request holds nobody's address.
    again = caller("POST", path, {"reason": "the customer asks"}, Idempotency_Key="k")
    assert again.data["to"] is None
    assert caller("POST", path, {}).status_code == 422
    poor = Caller(name="poor", tenants=[str(company.pk)], permissions=["view_job"])
    assert poor("POST", path, {"reason": "x"}).status_code == 403
    other = Caller(name="other", tenants=["elsewhere"])
    refused = other("POST", path, {"reason": "x"})
    assert refused.status_code == 404 and refused.data["error"]["code"] == "NOT_FOUND"
    assert rows() == [
        ("email.reveal", "api", "done"), ("email.reveal", "api", "denied"),
        ("email.reveal", "api", "denied"),
    ]  # fmt: skip


def test_a_company_is_suspended_and_admitted_by_a_program(company: Company) -> None:
    caller = Caller()
    for verb, expected in (("suspend", True), ("admit", False)):
        answer = caller("POST", f"/email/companies/{company.pk}/{verb}", {"reason": "a test"})
        assert answer.status_code == 204
        company.refresh_from_db()
        assert company.is_suspended is expected
    assert rows() == [("company.suspend", "api", "done"), ("company.admit", "api", "done")]


def test_a_company_is_created_and_changed_by_a_program(db: None, sink: Sink) -> None:
    caller = Caller()
    body = {"name": "Gamma", "sender": "Billing@gamma.test", "perMinute": 5, "reason": "new"}
    answer = caller("POST", "/email/companies", body)
    assert answer.status_code == 201, answer.content
    path = f"/email/companies/{answer.data['id']}"
    assert caller("GET", path).data == answer.data
    assert answer.data["sender"] == "billing@gamma.test"
    assert (answer.data["domains"], answer.data["perMinute"]) == (["gamma.test"], 5)
    sent = {"email": factories.request(), "company": answer.data["id"]}
    assert caller("POST", "/email/send", sent).status_code == 202
    change = {"domains": ["gamma.test", "Gamma.example"], "inDoubt": "resend", "reason": "moved"}
    changed = caller("PATCH", path, change)
    assert changed.status_code == 200, changed.content
    assert changed.data["domains"] == ["gamma.example", "gamma.test"]
    assert (changed.data["inDoubt"], changed.data["name"]) == ("resend", "Gamma")
    assert [row["id"] for row in caller("GET", "/email/companies").data["data"]] == [
        answer.data["id"]
    ]
    assert rows() == [("company.create", "api", "done"), ("company.edit", "api", "done")]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"name": " "}, "/name"), ({"sender": "x"}, "/sender"), ({"domains": ["x"]}, "/domains"),
        ({"domains": ["other.test"]}, "/sender"), ({"replyDomains": ["a b"]}, "/replyDomains"),
        ({"provider": "none"}, "/provider"),
    ],
)  # fmt: skip
def test_a_company_that_could_not_send_is_refused(
    db: None, fields: dict[str, Any], pointer: str
) -> None:
    body = {"name": "Gamma", "sender": "a@gamma.test", "reason": "new", **fields}
    answer = Caller()("POST", "/email/companies", body)
    assert (answer.status_code, answer.data["errors"][0]["pointer"]) == (422, pointer)
    assert not Company.objects.exists()


def test_only_who_sees_all_companies_creates_one_and_others_change_their_own(
    company: Company,
) -> None:
    other = factories.company("Other")
    caller = Caller(tenants=[str(company.pk)])
    body = {"name": "Gamma", "sender": "a@gamma.test", "reason": "new"}
    assert caller("POST", "/email/companies", body).status_code == 404
    path = "/email/companies/"
    assert caller("PATCH", f"{path}{other.pk}", {"reason": "x"}).status_code == 404
    assert caller("GET", f"{path}{other.pk}").status_code == 404
    assert caller("PATCH", f"{path}{company.pk}", {"perDay": 1, "reason": "x"}).status_code == 200
    assert [row["id"] for row in caller("GET", path[:-1]).data["data"]] == [str(company.pk)]
    poor = Caller(name="poor", tenants=[str(company.pk)], permissions=["view_job"])
    assert poor("PATCH", f"{path}{company.pk}", {"reason": "x"}).status_code == 403
    assert poor("GET", path[:-1]).status_code == 403


def test_a_company_is_created_in_the_admin(admin_client: Client) -> None:
    page = admin_client.get("/admin/emailgw/company/").content.decode()
    assert "/admin/emailgw/company/do/create/" in page
    given = {
        "name": "Gamma", "sender": "a@gamma.test", "in_doubt": "park", "per_minute": "1",
        "per_hour": "2", "per_day": "3", "reason": "new", "domains": "", "reply_domains": "",
        "provider": "", "confirmed": "1",
    }  # fmt: skip
    answer = admin_client.post("/admin/emailgw/company/do/create/", given)
    assert answer.status_code == 302, answer.content
    assert Company.objects.get().limits == {"minute": 1, "hour": 2, "day": 3}


def test_the_verbs_are_commands(company: Company, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("jobs", "emailgw", "company-suspend", str(company.pk), "--reason=abuse")
    company.refresh_from_db()
    assert company.is_suspended
    address = ("-", "zoe@x.test")
    call_command("jobs", "emailgw", "suppression-add", *address, "--reason=asked")
    assert Suppression.objects.get().company is None
    call_command("jobs", "emailgw", "suppression-lift", *address, "--reason=asked again")
    assert not Suppression.objects.exists()
    with pytest.raises(CommandError, match="not on the list"):
        call_command("jobs", "emailgw", "suppression-lift", *address, "--reason=once more")
    assert {via for _, via, _ in rows()} == {"cli"}
    assert [(action, outcome) for action, _, outcome in rows()] == [
        ("company.suspend", "done"), ("suppression.add", "done"), ("suppression.lift", "done"),
        ("suppression.lift", "refused"),
    ]  # fmt: skip
