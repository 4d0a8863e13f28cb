"""The publisher in the admin: every page, every button, and what others may not see."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from config.standins.publisher import Standin
from jobs.principals import Scope
from jobs.testing import run_jobs
from publisher import services
from publisher.models import Account, Brand, Plan, Publication
from tests.publisher import factories

pytestmark = pytest.mark.django_db
BASE = "/admin/publisher"


@pytest.fixture
def root(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.fixture
def staff() -> Client:
    """May see everything of the publisher, and do nothing."""
    user = User.objects.create_user("staff", is_staff=True)
    user.user_permissions.set(
        Permission.objects.filter(content_type__app_label="publisher", codename__startswith="view")
    )
    client = Client()
    client.force_login(user)
    return client


def test_every_page_answers_and_shows_no_token(
    root: Client, staff: Client, accounts: dict[str, Account]
) -> None:
    account = accounts["meta_facebook"]
    row = services.enqueue(account, factories.post("meta_facebook", "<b>Bread</b>")).row
    run_jobs(["publisher"])
    for path in (
        "publication/", f"publication/{row.pk}/change/", "account/", "brand/", "brand/do/create/",
        f"account/{account.pk}/change/", f"account/{account.pk}/do/schedule/",
        f"account/{account.pk}/do/reconnect/", f"brand/{account.brand_id}/change/",
        f"brand/{account.brand_id}/do/connect/", f"publication/{row.pk}/do/replay/",
    ):  # fmt: skip
        answer = root.get(f"{BASE}/{path}")
        text = answer.content.decode()
        assert answer.status_code in (200, 409), path
        assert "token-0" not in text and "<b>Bread" not in text, path
        assert not re.search(r"<[^>]+\sstyle=|<style|\son\w+=", text), path
    page = staff.get(f"{BASE}/publication/{row.pk}/change/").content.decode()
    row.refresh_from_db()
    assert f'href="{row.url}"' in page and "/posts#" in row.url and "&lt;b&gt;Bread" in page
    assert f"{BASE}/publication/{row.pk}/change/" in (
        root.get(f"/admin/jobs/job/{row.pk}/change/").content.decode()
    )


def test_empty_lists_say_what_to_do(root: Client) -> None:
    for path, words in (
        ("publication/", "no publication yet"), ("account/", "no account yet"),
        ("brand/", "no brand yet"),
    ):  # fmt: skip
        assert words in root.get(f"{BASE}/{path}").content.decode()


def test_a_brand_is_created_connected_and_published_to(
    root: Client, staff: Client, standin: Standin
) -> None:
    asked = {"slug": "acme", "name": "Acme", "time_zone": "Europe/Rome", "reason": "new"}
    assert staff.post(f"{BASE}/brand/do/create/", asked).status_code == 403
    assert root.post(f"{BASE}/brand/do/create/", {**asked, "slug": "No Slug"}).status_code == 422
    assert root.post(f"{BASE}/brand/do/create/", asked).status_code == 302
    brand = Brand.objects.get()
    assert brand.tenant == "brand:acme"
    connect = {
        "channel": "wordpress_blog", "name": "Blog", "remote_account": "editor", "token": "t",
        "base_url": f"{standin.url}/blog", "reason": "new",
    }  # fmt: skip
    assert root.post(f"{BASE}/brand/{brand.pk}/do/connect/", connect).status_code == 302
    account = Account.objects.get()
    at = (datetime.now() + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    post = {"at": at, "caption": "Hello", "title": "Bread"}
    url = f"{BASE}/account/{account.pk}/do/schedule/"
    assert staff.post(url, post).status_code == 403
    for _ in range(2):  # a second click makes no second post
        answer = root.post(url, post)
        assert answer.status_code == 302, answer.content.decode()
    row = Publication.objects.get()
    assert (row.status, row.channel) == ("pending", "wordpress_blog")
    url = f"{BASE}/publication/{row.pk}/do"
    assert root.post(f"{url}/replay/", {"reason": "x"}).status_code in (409, 422)
    assert root.post(f"{url}/cancel/", {"reason": "a typo"}).status_code == 302
    row.refresh_from_db()
    assert (row.status, row.reason) == ("failed", "cancelled")
    assert root.post(f"{url}/replay/", {"reason": "no typo"}).status_code == 302
    run_jobs(["publisher"])
    row.refresh_from_db()
    assert row.status == "completed" and len(standin.posts["blog"]) == 1


def test_other_brands_do_not_exist(accounts: dict[str, Account], settings: Any) -> None:
    account = accounts["meta_facebook"]
    row = services.enqueue(account, factories.post("meta_facebook")).row
    settings.JOBS = {**settings.JOBS, "SCOPE": "tests.publisher.test_admin.scope_of_another"}
    client = Client()
    client.force_login(User.objects.create_superuser("narrow"))
    for path in (
        f"publication/{row.pk}/change/", f"publication/{row.pk}/do/cancel/",
        f"account/{account.pk}/change/", f"brand/{account.brand_id}/change/",
    ):  # fmt: skip
        assert client.get(f"{BASE}/{path}").status_code == 404, path
    assert str(row.pk) not in client.get(f"{BASE}/publication/").content.decode()


def scope_of_another(user: User) -> Scope:
    return Scope(tenants=frozenset({"brand:other"}))


def test_a_plan_is_written_approved_and_scheduled(
    root: Client, staff: Client, accounts: dict[str, Account]
) -> None:
    assert "no plan yet" in root.get(f"{BASE}/plan/").content.decode()
    assert "no slot yet" in root.get(f"{BASE}/slot/").content.decode()
    asked = {
        "brand": "acme", "title": "Bread", "caption": "<b>Bread</b>", "at": "2031-05-01T10:00",
        "channels": ["meta_facebook", "google_business"],
    }  # fmt: skip
    assert staff.post(f"{BASE}/plan/do/create/", asked).status_code == 403
    answer = root.post(f"{BASE}/plan/do/create/", {**asked, "at": "soon"})
    assert answer.status_code == 422 and "is no time" in answer.content.decode()
    answer = root.post(f"{BASE}/plan/do/create/", asked)
    assert answer.status_code == 302, answer.content.decode()
    plan = Plan.objects.get()
    url = f"{BASE}/plan/{plan.pk}"
    for act, given in (
        ("edit", {"caption": "<b>Fresh</b>"}), ("submit", {}), ("approve", {"version": 2}),
        ("comment", {"body": "<i>Well</i>"}), ("schedule", {}),
    ):  # fmt: skip
        assert root.get(f"{url}/do/{act}/").status_code == 200, act
        assert staff.post(f"{url}/do/{act}/", given).status_code == 403, act
        answer = root.post(f"{url}/do/{act}/", given)
        assert answer.status_code == 302, (
            act,
            re.findall(
                r"jd-(?:error|refus|problem)[^>]*>([^<]*)|errorlist[^>]*>.*?<li>([^<]*)",
                answer.content.decode(),
                re.S,
            ),
        )
    page = staff.get(f"{url}/change/").content.decode()
    assert "&lt;b&gt;Fresh" in page and "<b>Fresh" not in page and "<i>Well" not in page
    assert "- caption: &lt;b&gt;Bread" in page and "scheduled" in page
    slot = plan.slots.get(channel="meta_facebook")
    url = f"{BASE}/slot/{slot.pk}"
    answer = root.post(f"{url}/do/move/", {"at": "2031-03-30T02:30"})
    assert answer.status_code == 302
    page = staff.get(f"{url}/change/").content.decode()
    assert "the clocks skip this time" in page and "2031-03-30 03:30 Europe/Rome" in page
    row = Publication.objects.get(status="pending", channel="meta_facebook")
    text = root.get(f"{BASE}/publication/{row.pk}/change/").content.decode()
    assert f"{BASE}/plan/{plan.pk}" in text
    brand = f"{BASE}/brand/{plan.brand_id}"
    member = {"user": "staff", "role": "viewer", "reason": "new"}
    assert root.post(f"{brand}/do/set-member/", member).status_code == 302
    assert "staff (viewer)" in root.get(f"{brand}/change/").content.decode()
    commented = staff.post(f"{BASE}/plan/{plan.pk}/do/comment/", {"body": "Seen"})
    assert commented.status_code == 302
