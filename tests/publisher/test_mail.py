"""What managers are told: one mail for each event, and a digest of what needs attention."""

from __future__ import annotations

import smtplib
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend

import jobs
from config.standins.publisher import Standin
from jobs import timetable
from jobs.testing import emitted, enqueued, freeze_clock, run_jobs
from publisher import alerts, clock, services, verbs
from publisher import mail as letters
from publisher.models import Account, Channel, Member, Publication
from publisher.payloads import Digest, Tell
from tests.api.conftest import Caller
from tests.publisher import factories
from tests.publisher.test_publishing import publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def managers(accounts: dict[str, Account]) -> list[str]:
    """Return the addresses of Acme's two managers; four others have a reason to hear nothing."""
    acme = accounts["meta_facebook"].brand
    other = services.create_brand("other", "Other")
    manages = Permission.objects.get(content_type__app_label="publisher", codename="change_account")
    for name, brand, role, may in (
        ("ann", acme, "manager", True), ("bob", acme, "manager", True),
        ("other", other, "manager", True), ("silent", acme, "manager", True),
        ("editor", acme, "editor", True), ("denied", acme, "manager", False),
    ):  # fmt: skip
        address = "" if name == "silent" else f"{name}@{brand.slug}.test"
        user = User.objects.create_user(name, address, is_staff=True)
        Member.objects.create(brand=brand, tenant=brand.tenant, user=user, role=role)
        if may:
            user.user_permissions.add(manages)
    mail.outbox.clear()
    return ["ann@acme.test", "bob@acme.test"]


def told() -> list[tuple[str, str]]:
    """To whom something was sent, and its subject."""
    emitted()
    run_jobs(["publisher:mail"])
    return sorted((one.to[0], str(one.subject)) for one in mail.outbox)


@pytest.mark.usefixtures("managers")
def test_a_failed_post_is_told_once_to_every_manager(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave("POST /page/feed", "400")
    row = publish(accounts["meta_facebook"], text="A secret offer")
    subject = "A post of Acme on Acme meta_facebook has failed"
    assert told() == [("ann@acme.test", subject), ("bob@acme.test", subject)]
    assert told() == told()  # nothing more is sent
    text = str(mail.outbox[0].body)
    assert str(row.pk) in text and "refused" in text and "meta 200" in text
    assert "secret" not in text
    verbs.replay(row.pk, by="tests", reason="again")
    standin.misbehave("POST /page/feed", "400")
    run_jobs(["publisher"])
    assert len(told()) == 4  # it has failed again


@pytest.mark.usefixtures("managers")
def test_a_doubt_and_a_lost_account_are_told(
    accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave("POST /page/videos", "drop")
    publish(accounts["meta_facebook"], 600, media=[factories.VIDEO], caption="")
    standin.expired.add("token-0")
    publish(accounts["meta_instagram"], 120)
    assert {subject for _, subject in told()} == {
        "A post of Acme on Acme meta_facebook is in doubt",
        "Acme meta_instagram of Acme needs reconnecting",
    }
    assert len(mail.outbox) == 4


@pytest.mark.usefixtures("managers")
def test_nobody_is_told_of_what_somebody_has_cancelled(accounts: dict[str, Account]) -> None:
    row = services.enqueue(accounts["meta_facebook"], factories.post("meta_facebook")).row
    verbs.cancel(row.pk, by="tests", reason="a typo")
    assert told() == []


@pytest.mark.usefixtures("managers")
@pytest.mark.parametrize(
    ("error", "sent"),
    [(smtplib.SMTPConnectError(421, b"busy"), 1), (TimeoutError(), 0)],
)
def test_a_mail_that_may_have_been_sent_is_not_sent_again(
    error: Exception, sent: int, accounts: dict[str, Account], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was never reached is tried again."""
    original, fails = EmailBackend.send_messages, [error]

    def send(backend: EmailBackend, messages: Any) -> int:
        if fails:
            raise fails.pop()
        return int(original(backend, messages))

    monkeypatch.setattr(EmailBackend, "send_messages", send)
    ann = User.objects.get(username="ann")
    account = accounts["meta_facebook"]
    with freeze_clock() as time:
        jobs.enqueue(Tell(topic="x", user=str(ann.pk), account=account.pk), tenant=account.tenant)
        for _ in range(4):
            run_jobs(["publisher:mail"])
            time.tick(600)
    assert len(mail.outbox) == sent
    assert enqueued(Tell)[0].state == "succeeded"


@pytest.mark.usefixtures("managers")
def test_who_has_left_is_told_nothing(accounts: dict[str, Account], standin: Standin) -> None:
    standin.misbehave("POST /page/feed", "400")
    publish(accounts["meta_facebook"])
    emitted()
    User.objects.filter(username="ann").update(is_active=False)
    assert [to for to, _ in told()] == ["bob@acme.test"]


# ---- alerts


def test_alerts_name_what_needs_attention(accounts: dict[str, Account], standin: Standin) -> None:
    soon = clock.now() + timedelta(days=6)
    facebook, tiktok = accounts["meta_facebook"], accounts["tiktok"]
    for account in (facebook, tiktok):
        account.expires_at = soon
        account.save()
    standin.misbehave("POST /wp-json/wp/v2/posts", "400")
    publish(accounts["wordpress_blog"])
    verbs.disable(accounts["youtube"].pk, by="tests", reason="not used")
    Account.objects.filter(channel="meta_instagram").update(status="needs_reconnect")
    services.enqueue(tiktok, factories.post("tiktok"), run_at=soon)
    services.enqueue(facebook, factories.post("meta_facebook"), run_at=soon + timedelta(days=2))
    rows = Account.objects.all()
    assert [(one.kind, one.channel, one.count) for one in alerts.daily(rows)] == [
        ("token_expires", "meta_facebook", 0),  # that of TikTok refreshes itself
        ("needs_reconnect", "meta_instagram", 0),
        ("failed", "wordpress_blog", 1),
    ]
    empty = {one.channel for one in alerts.weekly(rows)}
    assert empty == set(accounts) - {"tiktok", "youtube"}
    with freeze_clock() as time:
        time.tick(8 * 86_400)
        assert "failed" not in {one.kind for one in alerts.daily(rows)}


@pytest.mark.usefixtures("managers")
def test_a_digest_reaches_everybody_with_alerts_once(accounts: dict[str, Account]) -> None:
    Account.objects.filter(channel="meta_instagram").update(status="needs_reconnect")
    jobs.enqueue(Digest(period="daily"))
    assert told() == [
        ("ann@acme.test", "Alerts of the publisher: 1"),
        ("bob@acme.test", "Alerts of the publisher: 1"),
    ]
    assert "Acme meta_instagram: needs reconnecting" in str(mail.outbox[0].body)
    jobs.enqueue(Digest(period="weekly"))
    assert len(told()) == 4
    Account.objects.update(status="disabled")
    jobs.enqueue(Digest(period="daily"))
    assert len(told()) == 4  # and there is nothing to say now


def test_the_digests_are_scheduled() -> None:
    found = {one.name: (one.cron, one.time_zone) for one in timetable.declared()}
    assert found["publisher-daily"] == ("0 6 * * *", "UTC")
    assert found["publisher-weekly"] == ("0 6 * * MON", "UTC")


# ---- the same by API


def test_the_api_tells_accounts_alerts_and_status(
    accounts: dict[str, Account], standin: Standin
) -> None:
    caller = Caller(tenants=["brand:acme"])
    factories.accounts(services.create_brand("other", "Other"), standin.url)
    listed = caller("GET", "/publisher/accounts")
    assert len(listed.data["data"]) == len(Channel) and "token" not in listed.content.decode()
    Account.objects.filter(channel="meta_instagram").update(status="needs_reconnect")
    [alert] = caller("GET", "/publisher/alerts").data["items"]
    assert (alert["kind"], alert["brand"]) == ("needs_reconnect", "acme")
    weekly = caller("GET", "/publisher/alerts?period=weekly").data["items"]
    assert {one["brand"] for one in weekly} == {"acme"} and len(weekly) == len(Channel)
    assert caller("GET", "/publisher/alerts?period=hourly").status_code == 422
    standin.misbehave("POST /page/feed", "400")
    publish(accounts["meta_facebook"])
    services.enqueue(accounts["tiktok"], factories.post("tiktok"))
    found = caller("GET", "/publisher/status").data
    assert (found["pending"], found["due"], found["failed"]) == (1, 1, 1)
    assert found["oldest_due"] and found["needs_reconnect"] == 1


def test_dead_letters_are_listed_and_retried_under_their_key(
    accounts: dict[str, Account], standin: Standin
) -> None:
    caller = Caller(tenants=["brand:acme"])
    standin.misbehave("POST /page/feed", "400")
    row = publish(accounts["meta_facebook"])
    other = services.enqueue(accounts["tiktok"], factories.post("tiktok")).row
    verbs.cancel(other.pk, by="tests", reason="a typo")
    [listed] = caller("GET", "/publisher/dlq").data["data"]
    assert (listed["id"], listed["reason"]) == (str(row.pk), "permanent")
    stranger = Caller(name="stranger", tenants=["brand:other"])
    assert stranger("GET", "/publisher/dlq").data["data"] == []
    assert stranger("POST", f"/publisher/dlq/{row.pk}/retry", {}).status_code == 404
    answer = caller("POST", f"/publisher/dlq/{row.pk}/retry", {"reason": "fixed"})
    assert (answer.status_code, answer.data["idempotency_key"]) == (200, row.key)
    run_jobs(["publisher"])
    assert Publication.objects.get(pk=row.pk).status == "completed"
    assert len(standin.posts["page"]) == 1
    again = caller("POST", f"/publisher/dlq/{row.pk}/retry", {"reason": "fixed"})
    assert (again.status_code, again.data["code"]) == (422, "fp_publisher_replay_failed")


def test_every_alert_has_words() -> None:
    for kind in ("needs_reconnect", "token_expires", "failed", "nothing_planned"):
        made = alerts.Alert(kind, "acme", "tiktok", uuid.uuid4(), "Ours", 3)
        assert letters.line(made).startswith("acme, Ours: ")
