"""Connecting accounts by consent: answered once, to the person and session that asked."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from config.standins.publisher import Standin
from jobs.testing import freeze_clock
from publisher import clock, consents, oauth, retention, services
from publisher.errors import Refused
from publisher.models import Account, Brand, Consent, Member
from tests.publisher import factories
from tests.publisher.test_publishing import run_for

pytestmark = pytest.mark.django_db
FOUND = {
    "meta_facebook": {"page": "Bakery", "page-2": "Café"}, "meta_instagram": {"17": "bakery"},
    "meta_instagram_stories": {"17": "bakery"}, "youtube": {"UC1": "Bakery"},
    "google_business": {
        "accounts/1/locations/1": "Bakery 1", "accounts/1/locations/2": "Bakery 2",
    },
    "tiktok": {"bakery-tiktok": "Bakery"}, "x": {"7": "bakery"},
    "linkedin": {
        "urn:li:person:7": "Bea Baker", "urn:li:organization:7": "urn:li:organization:7",
    },
}  # fmt: skip
"""The accounts that a consent opens at the stand-in."""


@pytest.fixture(autouse=True)
def _clients(standin: Standin, settings: Any) -> None:
    url = standin.url
    settings.PUBLISHER = {
        **settings.PUBLISHER, "META_APP_ID": "us", "META_APP_SECRET": "of-us",
        **{f"{name}_CLIENT_ID": "us" for name in ("GOOGLE", "LINKEDIN", "X")},
        **{f"{name}_CLIENT_SECRET": "of-us" for name in ("GOOGLE", "LINKEDIN", "X", "TIKTOK")},
        "TIKTOK_CLIENT_KEY": "us",
        **{f"{name}_AUTH_URL": f"{url}/consent" for name in ("META", "GOOGLE", "TIKTOK", "X")},
        "LINKEDIN_AUTH_URL": f"{url}/linkedin", "LINKEDIN_URL": f"{url}/linkedin",
        "GRAPH_URL": f"{url}/graph", "YOUTUBE_URL": f"{url}/youtube", "X_URL": f"{url}/x",
        "TIKTOK_URL": f"{url}/tiktok", "GOOGLE_ACCOUNTS_URL": f"{url}/google",
        "GOOGLE_LOCATIONS_URL": f"{url}/google", "GOOGLE_BUSINESS_URL": f"{url}/google",
    }  # fmt: skip


@pytest.fixture
def person(client: Client, brand: Brand) -> Client:
    client.force_login(User.objects.create_superuser("boss"))
    return client


def ask(person: Client, brand: Brand, channel: str) -> str:
    """Where the person is sent to consent."""
    answer = person.get(reverse("admin:publisher_ask", args=[brand.pk, channel]))
    assert answer.status_code == 302
    return str(answer["Location"])


def consented(address: str, word: str = "Allow") -> str:
    """Where the provider sends the person back, without the host."""
    page = httpx.get(address)
    assert page.status_code == 200, page.text
    [found] = re.findall(rf'href="([^"]*)">{word}<', page.text)
    return unescape(found).removeprefix("http://testserver")


def said(person: Client, address: str) -> str:
    """What the page says that a redirect leads to."""
    answer = person.get(address, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("channel", oauth.SERVICES)
def test_a_person_consents_and_chooses_an_account_that_publishes(
    channel: str, person: Client, brand: Brand, standin: Standin
) -> None:
    answer = person.get(consented(ask(person, brand, channel)))
    row = Consent.objects.get()
    page = f"/admin/publisher/consent/{row.pk}/do/connect/"
    assert answer["Location"] == page
    assert consents.choices(row) == FOUND[channel]
    text = person.get(page).content.decode()
    assert all(name in text for name in FOUND[channel].values()) and "token-" not in text
    chosen = list(FOUND[channel])[-1]
    done = person.post(page, {"account": chosen})
    account = Account.objects.get()
    assert done["Location"] == f"/admin/publisher/account/{account.pk}/change/"
    assert (account.channel, account.remote_account) == (channel, chosen)
    assert account.token.startswith(("token-", "page-token"))
    row.refresh_from_db()
    assert row.secrets == {}
    factories.origin = standin.url
    made = services.enqueue(account, factories.post(channel)).row
    run_for(60)
    made.refresh_from_db()
    assert made.status == "completed", made.error


def test_consent_reconnects_an_account_and_a_missing_refresh_token_erases_none(
    person: Client, brand: Brand, standin: Standin
) -> None:
    known = Account.objects.create(
        brand=brand, tenant=brand.tenant, channel="youtube", name="Ours", remote_account="UC1",
        token="old", refresh_token="kept", status=Account.Status.NEEDS_RECONNECT,
    )  # fmt: skip
    standin.keeps_refresh = True
    person.get(consented(ask(person, brand, "youtube")))
    path = f"/admin/publisher/consent/{Consent.objects.get().pk}/do/connect/"
    assert person.post(path, {"account": "UC1"}).status_code == 302
    known.refresh_from_db()
    assert Account.objects.count() == 1 and known.name == "Ours"
    assert (known.status, known.refresh_token) == ("connected", "kept")
    assert known.token.startswith("token-")


def test_two_tabs_at_once_do_not_meet(person: Client, brand: Brand) -> None:
    first, second = ask(person, brand, "x"), ask(person, brand, "linkedin")
    back = [consented(one) for one in (first, second)]
    for address in reversed(back):
        assert "/do/connect/" in person.get(address)["Location"]
    assert {row.channel for row in Consent.objects.filter(is_answered=True)} == {"x", "linkedin"}


def test_an_answer_counts_once(person: Client, brand: Brand, standin: Standin) -> None:
    back = consented(ask(person, brand, "x"))
    person.get(back)
    calls = len(standin.calls)
    assert "This answer is not expected" in said(person, back)
    assert len(standin.calls) == calls and Consent.objects.count() == 1


def test_an_answer_to_another_session_or_person_opens_nothing(
    person: Client, brand: Brand, standin: Standin
) -> None:
    back = consented(ask(person, brand, "x"))
    calls = len(standin.calls)
    same = Client()
    same.force_login(User.objects.get(username="boss"))
    other = Client()
    other.force_login(User.objects.create_superuser("other"))
    for stranger in (same, other):
        assert "This answer is not expected" in said(stranger, back)
    assert len(standin.calls) == calls
    assert "/do/connect/" in person.get(back)["Location"]  # and it is theirs still
    page = f"/admin/publisher/consent/{Consent.objects.get().pk}/do/connect/"
    assert other.get(page).status_code == 404
    assert other.post(page, {"account": "7"}).status_code == 404
    assert not Account.objects.exists()


def test_an_answer_that_comes_too_late_opens_nothing(person: Client, brand: Brand) -> None:
    back = consented(ask(person, brand, "x"))
    Consent.objects.update(created_at=clock.now() - consents.LASTS - timedelta(seconds=1))
    assert "came too late" in said(person, back)
    assert not Consent.objects.filter(is_answered=True).exists()


def test_garbage_from_the_provider_opens_nothing(person: Client, brand: Brand) -> None:
    ask(person, brand, "x")
    path = reverse("admin:publisher_answer")
    for query in ("", "?state=", "?code=x", "?state=%00&code=x", f"?state={'x' * 5000}&code=y"):
        assert "This answer is not expected" in said(person, path + query)


def test_a_refused_consent_says_so(person: Client, brand: Brand, standin: Standin) -> None:
    back = consented(ask(person, brand, "meta_facebook"), "Refuse")
    assert "The consent was not given." in said(person, back)
    assert not Account.objects.exists()
    assert "This answer is not expected" in said(person, back)


@pytest.mark.parametrize("fault", ["500", "drop", "garbage", "400"])
def test_a_rude_provider_connects_nothing(
    fault: str, person: Client, brand: Brand, standin: Standin
) -> None:
    back = consented(ask(person, brand, "x"))
    standin.misbehave("POST /2/oauth2/token", fault)
    text = said(person, back)
    assert "connect again" in text or "It was refused" in text
    assert Consent.objects.get().secrets.keys() == {"verifier"} and not Account.objects.exists()


def test_a_code_for_another_verifier_is_refused(person: Client, brand: Brand) -> None:
    back = consented(ask(person, brand, "x"))
    row = Consent.objects.get()
    row.secrets = {"verifier": "another"}
    row.save()
    assert "It was refused (invalid_request)" in said(person, back)
    assert not Account.objects.exists()


def test_a_person_without_accounts_is_told_so(
    person: Client, brand: Brand, standin: Standin
) -> None:
    back = consented(ask(person, brand, "meta_facebook"))
    standin.refuse("me/accounts", 200, {"data": []})
    assert "no account there" in said(person, back)


def test_without_a_client_the_page_names_the_variables(
    person: Client, brand: Brand, settings: Any
) -> None:
    settings.PUBLISHER = {**settings.PUBLISHER, "X_CLIENT_ID": "", "X_CLIENT_SECRET": ""}
    path = reverse("admin:publisher_ask", args=[brand.pk, "x"])
    assert "Set X_CLIENT_ID and X_CLIENT_SECRET first" in said(person, path)
    assert "s not connected by consent" in said(
        person, reverse("admin:publisher_ask", args=[brand.pk, "bluesky"])
    )
    assert not Consent.objects.exists()


def test_only_managers_ask(client: Client, brand: Brand) -> None:
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(
            content_type__app_label="publisher", codename__in=["change_account", "view_brand"]
        )
    )
    Member.objects.create(brand=brand, tenant=brand.tenant, user=user, role="editor")
    client.force_login(user)
    path = reverse("admin:publisher_ask", args=[brand.pk, "x"])
    client.get(path)
    assert not Consent.objects.exists()
    Member.objects.update(role="manager")
    assert client.get(path)["Location"].startswith("http")
    other = services.create_brand("other", "Other")
    assert client.get(reverse("admin:publisher_ask", args=[other.pk, "x"])).status_code == 404
    user.user_permissions.clear()
    assert client.get(path).status_code == 403
    assert Consent.objects.count() == 1


def test_an_account_that_was_not_found_cannot_be_chosen(person: Client, brand: Brand) -> None:
    person.get(consented(ask(person, brand, "meta_facebook")))
    row = Consent.objects.get()
    with pytest.raises(Refused):
        consents.connect(row.pk, "somebody-elses-page", by="tests")
    Consent.objects.update(created_at=clock.now() - 3 * consents.LASTS)
    with pytest.raises(Refused):
        consents.connect(row.pk, "page", by="tests")
    assert not Account.objects.exists()


def test_old_consents_are_deleted_with_their_tokens(person: Client, brand: Brand) -> None:
    person.get(consented(ask(person, brand, "x")))
    assert list(retention.trim_consents(False, 100)) == [{"consents deleted": 0}]
    with freeze_clock() as time:
        time.tick(3700)
        assert list(retention.trim_consents(True, 100)) == [{"consents deleted": 1}]
        assert list(retention.trim_consents(False, 100)) == [{"consents deleted": 1}]
    assert not Consent.objects.exists()
