"""Tokens: refreshed once, never lost, and given up only when the provider refuses them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from config.standins.publisher import Standin
from jobs.testing import emitted, freeze_clock, run_jobs
from publisher import alerts, clock, services, verbs
from publisher.models import Account, Publication, Refusal
from tests.publisher import factories
from tests.publisher.test_publishing import publish, run_for

pytestmark = pytest.mark.django_db
ROTATING = {
    "google_business": "POST /", "tiktok": "POST /v2/oauth/token/", "youtube": "POST /",
    "linkedin": "POST /oauth/v2/accessToken", "x": "POST /2/oauth2/token",
}  # fmt: skip
"""Where the tokens of a channel are refreshed."""


@pytest.fixture
def _of_meta(standin: Standin, settings: Any) -> None:
    settings.PUBLISHER = {
        **settings.PUBLISHER, "META_APP_ID": "us", "META_APP_SECRET": "of-us",
    }  # fmt: skip


def refreshes(standin: Standin) -> int:
    paths = {"oauth/access_token", *(one.removeprefix("POST /") for one in ROTATING.values())}
    return sum(path in paths for _, path in standin.calls)


@pytest.mark.parametrize("channel", ROTATING)
def test_a_token_is_refreshed_once_when_the_provider_calls_it_expired(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts[channel]
    standin.expired.add("token-0")
    row = publish(account)
    assert (row.status, row.attempts) == ("completed", 1), row.error
    account.refresh_from_db()
    assert account.token != "token-0" and account.refresh_token != "refresh-1"
    assert refreshes(standin) == 1 and account.expires_at is not None


def sessions(standin: Standin) -> list[str]:
    names = (path.removeprefix("xrpc/com.atproto.server.") for _, path in standin.calls)
    return [name for name in names if name.endswith("Session")]


def test_a_session_of_bluesky_is_kept_prolonged_and_begun_again(
    accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts["bluesky"]
    assert publish(account, text="one").status == "completed"
    assert publish(account, text="two").status == "completed"
    assert sessions(standin) == ["createSession"]
    account.refresh_from_db()
    standin.expired.add(account.token)
    assert publish(account, text="three").status == "completed"
    assert sessions(standin) == ["createSession", "refreshSession"]
    account.refresh_from_db()
    standin.expired.add(account.token)
    standin.refreshes.clear()
    assert publish(account, text="four").status == "completed"
    assert sessions(standin)[2:] == ["refreshSession", "createSession"]
    assert len(standin.posts["bluesky"]) == 4


@pytest.mark.parametrize("fault", ["500", "drop", "garbage", "429"])
def test_a_session_that_cannot_begin_disconnects_nobody(
    fault: str, accounts: dict[str, Account], standin: Standin
) -> None:
    standin.misbehave("server.createSession", fault)
    row = publish(accounts["bluesky"], 900)
    accounts["bluesky"].refresh_from_db()
    assert (row.status, row.doubted) == ("completed", False), row.error
    assert accounts["bluesky"].status == "connected"


def test_an_application_password_that_is_refused_disconnects_until_there_is_another(
    accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts["bluesky"]
    standin.expired.add("token-0")
    row = publish(account, 120)
    account.refresh_from_db()
    assert (row.status, account.status) == ("pending", "needs_reconnect")
    assert len(emitted("publisher.account.needs_reconnect")) == 1
    verbs.reconnect(account.pk, "another", by="tests", reason="they have made a new one")
    run_for(300)
    row.refresh_from_db()
    assert row.status == "completed", row.error


def test_an_answer_without_a_refresh_token_erases_none(
    accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts["google_business"]
    standin.expired.add("token-0")
    standin.keeps_refresh = True
    assert publish(account).status == "completed"
    account.refresh_from_db()
    assert account.token != "token-0" and account.refresh_token == "refresh-1"
    assert account.status == "connected"


@pytest.mark.parametrize("fault", ["500", "drop", "garbage", "429"])
def test_a_refresh_without_an_answer_disconnects_nobody_and_leaves_no_doubt(
    fault: str, accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts["google_business"]
    standin.expired.add("token-0")
    standin.misbehave("POST /", fault)
    standin.keeps_refresh = True
    row = publish(account, 600)
    account.refresh_from_db()
    assert (row.status, account.status) == ("completed", "connected")
    assert not row.doubted  # the call had been refused, so nothing had appeared


@pytest.mark.parametrize("channel", ROTATING)
def test_a_lost_answer_with_a_rotated_token_asks_to_reconnect_once(
    channel: str, accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts[channel]
    standin.expired.add("token-0")
    standin.misbehave(ROTATING[channel], "drop")
    rows = [services.enqueue(account, factories.post(channel, f"number {n}")).row for n in range(3)]
    publish(account, 600)
    account.refresh_from_db()
    assert account.status == "needs_reconnect"
    assert len(emitted("publisher.account.needs_reconnect")) == 1
    for row in rows:
        row.refresh_from_db()
        assert row.status == "pending"  # and waits for its return


def test_our_own_wrong_secret_holds_posts_and_disconnects_nobody(
    accounts: dict[str, Account], standin: Standin
) -> None:
    """Staff are mailed once, the alerts say why posts wait, and all follow once it is mended."""
    boss = User.objects.create_superuser("boss", "boss@acme.test")
    User.objects.create_user("writer", "writer@acme.test", is_staff=True)
    account = accounts["google_business"]
    standin.expired.add("token-0")
    standin.refuses_client = True
    row = publish(account, 1200)
    account.refresh_from_db()
    assert (row.status, row.attempts, account.status) == ("pending", 1, "connected")
    assert not emitted("publisher.account.needs_reconnect")
    assert len(emitted("publisher.client.refused")) == 1
    run_jobs(["publisher:mail"])
    [letter] = mail.outbox
    assert letter.to == [boss.email] and "GOOGLE_CLIENT_SECRET" in letter.body
    assert "invalid_client" in letter.body and "Google Business Profile" in str(letter.subject)
    found = alerts.daily(Account.objects.all())
    assert ("client_refused", account.pk) in [(one.kind, one.account) for one in found]
    standin.refuses_client = False
    with freeze_clock() as time:
        time.tick(1800)
        run_jobs(["publisher"])
    row.refresh_from_db()
    assert row.status == "completed" and not Refusal.objects.exists()
    assert not alerts.daily(Account.objects.all())


@pytest.mark.usefixtures("_of_meta")
def test_a_token_of_meta_is_exchanged_before_it_expires(
    accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts["meta_facebook"]
    with freeze_clock():
        account.expires_at = clock.now() + timedelta(days=6)
        account.save()
        services.enqueue(account, factories.post("meta_facebook"))
        run_jobs(["publisher"])
        account.refresh_from_db()
        assert account.expires_at is not None
        assert account.expires_at - clock.now() == timedelta(days=60)
    assert account.token.startswith("token-1") and refreshes(standin) == 1
    assert Publication.objects.get().status == "completed"


@pytest.mark.usefixtures("_of_meta")
@pytest.mark.parametrize("fault", ["500", "drop", "garbage"])
def test_an_exchange_that_fails_while_the_token_is_good_stops_no_post(
    fault: str, accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts["meta_facebook"]
    account.expires_at = clock.now() + timedelta(days=6)
    account.save()
    standin.misbehave("GET /oauth/access_token", fault)
    row = publish(account)
    account.refresh_from_db()
    assert (row.status, row.attempts, account.status) == ("completed", 1, "connected")
    assert account.token == "token-0"


@pytest.mark.usefixtures("_of_meta")
def test_a_token_that_meta_does_not_exchange_any_more_disconnects_once(
    accounts: dict[str, Account], standin: Standin
) -> None:
    account = accounts["meta_instagram"]
    standin.expired.add("token-0")
    row = publish(account, 120)
    account.refresh_from_db()
    assert (row.status, account.status) == ("pending", "needs_reconnect")
    assert len(emitted("publisher.account.needs_reconnect")) == 1
    assert refreshes(standin) == 1


def test_accounts_to_reconnect_are_on_the_first_page(
    client: Client, accounts: dict[str, Account]
) -> None:
    lost, fine = accounts["meta_facebook"], accounts["youtube"]
    Account.objects.filter(pk=lost.pk).update(status=Account.Status.NEEDS_RECONNECT)
    client.force_login(User.objects.create_superuser("root"))
    text = client.get("/admin/jobs/overview/").content.decode()
    assert "Accounts to reconnect: 1. Their posts wait." in text
    listed = client.get("/admin/publisher/account/?state=needs_reconnect").content.decode()
    assert str(lost.pk) in listed and str(fine.pk) not in listed
