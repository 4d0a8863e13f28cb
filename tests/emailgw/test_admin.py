"""The gateway in the admin: what is masked, what may be seen in clear, and who is told of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

import jobs
from emailgw import services
from emailgw.errors import Refused
from emailgw.models import Company, OutboxEmail, Suppression
from jobs.models import Audit, DeadLetter
from jobs.operate.deadletters import discard_letter
from jobs.testing import freeze_clock, run_jobs
from tests.emailgw import factories
from tests.emailgw.sink import Sink

pytestmark = pytest.mark.django_db
BASE = "/admin/emailgw"
SECRETS = ("ana@customers.test", "Ana Souza", "52998224725", factories.CPF)


@pytest.fixture
def root(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def staff() -> Client:
    """May see emails and nothing else."""
    user = User.objects.create_user("staff", is_staff=True)
    grant(user, "view_outboxemail", "view_suppression", "view_company")
    client = Client()
    client.force_login(user)
    return client


def grant(user: User, *names: str) -> None:
    user.user_permissions.add(
        *Permission.objects.filter(content_type__app_label="emailgw", codename__in=names)
    )


@pytest.fixture
def email(company: Company, sink: Sink) -> OutboxEmail:
    services.accept(company, factories.request(cc=["copy@customers.test"]), by="tests")
    run_jobs()
    return OutboxEmail.objects.get()


def test_every_page_answers_and_is_masked(root: Client, email: OutboxEmail) -> None:
    services.add_suppression(None, "nobody@customers.test", by="tests", reason="asked")
    [entry] = Suppression.objects.all()
    for path in (
        "outboxemail/", f"outboxemail/{email.pk}/change/", "company/",
        f"outboxemail/{email.pk}/do/resend/", f"outboxemail/{email.pk}/do/reveal/",
        f"company/{email.company_id}/change/", f"company/{email.company_id}/do/suspend/",
        "suppression/", f"suppression/{entry.pk}/change/", "suppression/do/add/",
    ):  # fmt: skip
        answer = root.get(f"{BASE}/{path}")
        text = answer.content.decode()
        assert answer.status_code == 200, path
        assert 'class="jd"' in text and text.count("<h1>") == 1
        assert not re.search(r"<[^>]+\sstyle=|<style|<script(?![^>]*\ssrc=)|\son\w+=", text)
        assert not [s for s in (*SECRETS, "copy@", "nobody@", "Your invoice") if s in text], path
    page = root.get(f"{BASE}/outboxemail/{email.pk}/change/").content.decode()
    assert "a***@c***.test" in page and "Being sent to the provider" in page
    hashed = email.recipient.cpf_cnpj_hash
    assert hashed is not None and hashed[:8] in page and hashed[:9] not in page


def test_a_job_that_was_deleted_is_no_link_and_is_not_sent_again(
    root: Client, email: OutboxEmail
) -> None:
    url, job = f"{BASE}/outboxemail/{email.pk}/change/", f"/admin/jobs/job/{email.pk}/change/"
    assert job in root.get(url).content.decode()
    jobs.Job.objects.all().delete()
    OutboxEmail.objects.update(status="FAILED")
    page = root.get(url).content.decode()
    assert job not in page and "Its job was deleted" in page


def test_the_usage_of_a_window_that_is_over_is_none(root: Client, company: Company) -> None:
    with freeze_clock(datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)) as clock:
        services.accept(company, factories.request(), by="tests")
        limits = root.get(f"{BASE}/company/{company.pk}/change/").context["limits"]
        assert [one["used"] for one in limits] == [1, 1, 1]
        clock.tick(60)
        limits = root.get(f"{BASE}/company/{company.pk}/change/").context["limits"]
        assert [one["used"] for one in limits] == [0, 1, 1]


def test_the_list_is_narrowed(root: Client, email: OutboxEmail) -> None:
    url = f"{BASE}/outboxemail/"
    for query, found in (
        ("status=SENT", True), ("status=FAILED", False), ("status=IN_DOUBT", False),
        ("tag=none", False), (f"company={email.company_id}", True), ("external=nothing", False),
        ("company=no-id", False),
    ):  # fmt: skip
        shown = str(email.pk) in root.get(f"{url}?{query}").content.decode()
        assert shown == found, query


def test_a_preview_runs_and_loads_nothing(root: Client, staff: Client, email: OutboxEmail) -> None:
    page = root.get(f"{BASE}/outboxemail/{email.pk}/change/").content.decode()
    assert re.search(r"<iframe sandbox [^>]*src=", page)
    answer = root.get(f"{BASE}/outboxemail/{email.pk}/preview/")
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy and re.search(r"(^|; )sandbox(;|$)", policy)
    assert "no-store" in answer["Cache-Control"] and answer["X-Frame-Options"] == "SAMEORIGIN"
    assert b"<b>now</b>" in answer.content
    assert staff.get(f"{BASE}/outboxemail/{email.pk}/preview/").status_code == 403
    assert "<iframe" not in staff.get(f"{BASE}/outboxemail/{email.pk}/change/").content.decode()


def test_a_recipient_is_revealed_to_whoever_may_and_says_why(
    root: Client, staff: Client, email: OutboxEmail
) -> None:
    url = f"{BASE}/outboxemail/{email.pk}/do/reveal/"
    assert staff.post(url, {"reason": "curious"}).status_code == 403
    assert root.post(url, {"reason": " "}).status_code == 422
    answer = root.post(url, {"reason": "the customer called"})
    assert answer.status_code == 200 and "no-store" in answer["Cache-Control"]
    assert "ana@customers.test" in answer.content.decode()
    assert "Ana Souza" in answer.content.decode()
    told = set(Audit.objects.values_list("actor", "outcome", "reason", "target_id", "tenant"))
    assert ("root", "done", "the customer called", str(email.pk), str(email.company_id)) in told
    assert {(actor, outcome) for actor, outcome, *_ in told} == {
        ("root", "done"), ("staff", "denied"),
    }  # fmt: skip
    grant(User.objects.get(username="staff"), "reveal_recipient")
    assert staff.post(url, {"reason": "mine to ask"}).status_code == 200


def test_a_failed_email_is_sent_again(root: Client, staff: Client, company: Company,
                                      sink: Sink) -> None:  # fmt: skip
    sink.script = lambda step, address, times: "550 no" if step == "RCPT" else None
    made = services.accept(company, factories.request(), by="tests")
    run_jobs()
    sink.script = lambda step, address, times: None
    url = f"{BASE}/outboxemail/{made.outbox_id}/do/resend/"
    assert staff.post(url, {"reason": "x"}).status_code == 403
    assert root.post(url, {"reason": "the box is back"}).status_code == 302
    run_jobs()
    assert OutboxEmail.objects.get().status == "SENT"
    assert root.post(url, {"reason": "once more"}).status_code == 409
    assert Audit.objects.filter(action="job.retry", outcome="done", actor="root").count() == 1


def test_the_suppression_list_is_kept_by_hand(
    root: Client, staff: Client, company: Company
) -> None:
    url = f"{BASE}/suppression/do/add/"
    asked = {"email": "Ana@customers.test", "company": str(company.pk), "reason": "asked"}
    assert staff.post(url, asked).status_code == 403
    assert root.post(url, {**asked, "email": "no address"}).status_code == 422
    assert root.post(url, asked).status_code == 302
    [row] = Suppression.objects.all()
    assert (row.email, row.by, row.note) == ("ana@customers.test", "root", "asked")
    lift = f"{BASE}/suppression/{row.pk}/do/lift/"
    assert staff.post(lift, {"reason": "x"}).status_code == 403
    assert root.post(lift, {"reason": "sorted out"}).status_code == 302
    assert not Suppression.objects.exists()
    rows = Audit.objects.filter(actor="root", outcome="done").order_by("at")
    assert [r.action for r in rows] == ["suppression.add", "suppression.lift"]
    assert "ana@" not in str([r.detail for r in rows])


def test_a_company_is_suspended(root: Client, staff: Client, company: Company) -> None:
    url = f"{BASE}/company/{company.pk}/do"
    assert staff.post(f"{url}/suspend/", {"reason": "x"}).status_code == 403
    assert root.post(f"{url}/suspend/", {"reason": "complaints"}).status_code == 302
    assert Company.objects.get().is_suspended
    with pytest.raises(Refused, match="suspended"):
        services.accept(company, factories.request(), by="tests")
    assert root.post(f"{url}/admit/", {"reason": "sorted out"}).status_code == 302
    assert not Company.objects.get().is_suspended


def test_the_page_of_a_job_shows_its_email(root: Client, email: OutboxEmail) -> None:
    text = root.get(f"/admin/jobs/job/{email.pk}/change/").content.decode()
    assert f"{BASE}/outboxemail/{email.pk}/change/" in text and "a***@c***.test" in text


def test_other_companies_do_not_exist(email: OutboxEmail, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "SCOPE": "tests.emailgw.test_admin.scope_of_none"}
    user = User.objects.create_superuser("narrow")
    client = Client()
    client.force_login(user)
    for path in (
        f"outboxemail/{email.pk}/change/", f"outboxemail/{email.pk}/preview/",
        f"outboxemail/{email.pk}/do/reveal/", f"company/{email.company_id}/change/",
    ):  # fmt: skip
        assert client.get(f"{BASE}/{path}").status_code == 404, path
    assert str(email.pk) not in client.get(f"{BASE}/outboxemail/").content.decode()


def scope_of_none(user: User) -> Any:
    from jobs.principals import Scope

    return Scope(tenants=frozenset({"somebody-else"}))


def test_emails_of_a_list_are_sent_again_together(
    root: Client, company: Company, sink: Sink
) -> None:
    sink.script = lambda step, address, times: "550 no" if step == "RCPT" else None
    failed = [services.accept(company, factories.request(), by="tests").outbox_id for _ in "abc"]
    run_jobs()
    sink.script = lambda step, address, times: None
    sent = services.accept(company, factories.request(), by="tests").outbox_id
    run_jobs()
    page = root.get(f"{BASE}/outboxemail/").content.decode()
    assert page.count('name="_selected"') == 4
    assert re.findall(r'name="action" value="(\w+)"', page) == ["resend"]
    [letter] = DeadLetter.objects.filter(job_id=failed[0])
    discard_letter(letter.pk, by="tests", reason="known")
    jobs.Job.objects.filter(pk=failed[0]).delete()  # nothing is left to send it again with
    page = many(root, "outboxemail", "resend", [*failed, sent])
    assert "Done with 2 of 4." in page and "It is sent." in page and "ana@" not in page
    run_jobs()
    found = OutboxEmail.objects.filter(status="SENT").values_list("pk", flat=True)
    assert set(found) == {*failed[1:], sent}
    rows = Audit.objects.filter(action="job.retry", outcome="done", actor="root")
    assert sorted(row.target_id for row in rows) == sorted(map(str, failed[1:]))
    assert {row.reason for row in rows} == {"because"}


def test_companies_and_addresses_of_a_list_are_dealt_with_together(
    root: Client, staff: Client, company: Company
) -> None:
    other = factories.company("Other")
    services.suspend(other.pk, by="tests", reason="complaints")
    told = many(root, "company", "suspend", [company.pk, other.pk])
    assert "Done with 1 of 2." in told and "It is suspended." in told
    assert "Done with 2 of 2." in many(root, "company", "admit", [company.pk, other.pk])
    assert not Company.objects.filter(is_suspended=True).exists()
    for address in ("a@customers.test", "b@customers.test"):
        services.add_suppression(company.pk, address, by="tests", reason="asked")
    keys = list(Suppression.objects.values_list("pk", flat=True))
    url = f"{BASE}/suppression/many/?action=lift&_selected={keys[0]}"
    assert staff.post(url, {"reason": "x"}).status_code == 403
    assert "Done with 2 of 2." in many(root, "suppression", "lift", keys)
    assert not Suppression.objects.exists()
    counts = Audit.objects.filter(actor="root", outcome="done").values_list("action", flat=True)
    assert sorted(counts) == ["company.admit", "company.admit", "company.suspend",
                              "suppression.lift", "suppression.lift"]  # fmt: skip


def many(client: Client, model: str, action: str, keys: list[Any]) -> str:
    """The page after an act on these rows of a list."""
    chosen = "&".join(f"_selected={key}" for key in keys)
    url = f"{BASE}/{model}/many/?action={action}&{chosen}&back={BASE}/{model}/"
    asked = client.get(url)
    assert asked.status_code == 200 and b'name="reason"' in asked.content
    answer = client.post(url, {"reason": "because"}, follow=True)
    assert answer.redirect_chain == [(f"{BASE}/{model}/", 302)]
    return str(answer.content.decode())
