"""The publisher's pages in a real browser: every page, in every language, and clicked through."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connections
from playwright.sync_api import Browser, BrowserContext
from pytest_django import DjangoDbBlocker

from config.standins.publisher import Standin
from jobs.engine import outbox
from jobs.testing import freeze_clock, run_jobs
from publisher import plans
from publisher.models import Account, Asset, Channel, Plan, Publication
from tests.browser.conftest import Site, browser
from tests.browser.looking import check, complaints, filled, looker, marked, speaking, visitor
from tests.publisher.filling import DIFFERING, NAMES, fill, screens
from tests.publisher.pictures import picture

__all__ = ["browser", "looker", "visitor"]  # fixtures
pytestmark = [pytest.mark.browser, pytest.mark.django_db]
SUBMIT = ".jd form button[type=submit], .jd form .jd-btn-primary"


@pytest.fixture(scope="module")
def site(browser: Browser, server: Standin, django_db_blocker: DjangoDbBlocker) -> Iterator[Site]:
    """One server and one filling for all tests."""
    server.reset()
    allowed = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}
    with filled(django_db_blocker, partial(fill, server), JOBS=allowed) as found:
        yield found
    server.reset()


@pytest.fixture(scope="module", params=["it", "pt-BR"])
def foreigner(
    request: pytest.FixtureRequest, browser: Browser, site: Site
) -> Iterator[tuple[str, BrowserContext]]:
    """Somebody with a small screen who reads another language."""
    context = speaking(browser, site, request.param, width=390)
    yield request.param, context
    context.close()


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
def test_a_screen(looker: BrowserContext, site: Site, name: str) -> None:
    content = check(looker, site, screens(site.ids)[name], f"publisher-{name}.png")
    assert "token-0" not in content and "refresh-1" not in content


@pytest.mark.alike
@pytest.mark.parametrize("name", NAMES)
def test_a_screen_in_another_language(
    foreigner: tuple[str, BrowserContext], site: Site, name: str
) -> None:
    language, context = foreigner
    page = context.new_page()
    found = complaints(page)
    page.goto(f"{site.url}/admin/{screens(site.ids)[name]}", wait_until="load")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    spoken = page.evaluate("document.documentElement.lang")
    page.close()
    assert (wide <= 0, found, spoken.lower()) == (True, [], language.lower())


def test_a_failed_post_is_replayed(site: Site, visitor: BrowserContext) -> None:
    page = visitor.new_page()
    page.goto(f"{site.url}/admin/publisher/publication/{site.ids['failed']}/do/replay/")
    page.get_by_label("Reason").fill("they have lifted it")
    page.locator(SUBMIT).first.click()
    page.wait_for_url(lambda url: "/do/" not in url)
    assert Publication.objects.get(pk=site.ids["failed"]).status == "pending"
    page.close()


def test_an_account_is_reconnected(site: Site, visitor: BrowserContext) -> None:
    page = visitor.new_page()
    pk = site.ids["google_business"]
    page.goto(f"{site.url}/admin/publisher/account/{pk}/do/reconnect/")
    page.get_by_label("Token", exact=True).fill("a-new-one")
    page.get_by_label("Reason").fill("they gave us another")
    page.locator(SUBMIT).first.click()
    page.wait_for_url(lambda url: "/do/" not in url)
    row = Account.objects.get(pk=pk)
    assert (row.status, row.token) == ("connected", "a-new-one")
    assert "a-new-one" not in page.content()
    page.close()


def test_a_picture_is_uploaded_and_planned(
    site: Site, visitor: BrowserContext, tmp_path: Path
) -> None:
    """Without a shell: the file, a plan that shows it, a text of one channel."""
    page = visitor.new_page()
    found = complaints(page)
    (tmp_path / "bread.png").write_bytes(picture("PNG"))
    page.goto(f"{site.url}/admin/publisher/asset/do/upload/")
    page.get_by_label("Brand").select_option("acme-cafe")
    page.get_by_label("File").set_input_files(tmp_path / "bread.png")
    page.get_by_label("Alternative text").fill("Bread")
    page.locator(SUBMIT).first.click()
    page.wait_for_url(lambda url: url.endswith("/change/"))
    asset = Asset.objects.get(name="bread.png", is_ready=True)
    assert (asset.alt_text, asset.copy_size > 0) == ("Bread", True)

    page.goto(f"{site.url}/admin/publisher/plan/do/create/")
    page.get_by_label("Brand").select_option("acme-cafe")
    page.get_by_label("Title").fill("With a picture")
    page.get_by_label("Caption").fill("Fresh {{what}}")
    page.get_by_label("Placeholders").fill("what=bread")
    page.get_by_label("Facebook page").check()
    page.get_by_label("Instagram", exact=True).check()
    page.get_by_label("When").fill("2031-05-01T10:00")
    page.get_by_label("bread.png").check()
    page.locator(SUBMIT).first.click()
    page.wait_for_url(lambda url: "/do/" not in url)
    plan = Plan.objects.get(title="With a picture")
    path = f"{site.url}/admin/publisher/plan/{plan.pk}"
    page.goto(f"{path}/do/override/")
    page.get_by_label("Channel").select_option("meta_facebook")
    page.get_by_label("Caption").fill("Dear friends")
    page.locator(SUBMIT).first.click()
    page.wait_for_url(lambda url: "/do/" not in url)
    draft = plans.draft_of(Plan.objects.get(pk=plan.pk))
    assert draft.assets == {asset.pk}
    assert draft.on("meta_facebook").text == "Dear friends"
    assert draft.on("meta_instagram").text == "Fresh bread"
    page.goto(f"{path}/do/edit/")
    assert page.get_by_label("bread.png").is_checked()
    page.close()
    assert found == []


def test_a_file_that_is_none_is_refused_on_the_page(
    site: Site, visitor: BrowserContext, tmp_path: Path
) -> None:
    page = visitor.new_page()
    (tmp_path / "bread.png").write_bytes(b"<html>" * 10)
    page.goto(f"{site.url}/admin/publisher/asset/do/upload/")
    page.get_by_label("Brand").select_option("acme-cafe")
    page.get_by_label("File").set_input_files(tmp_path / "bread.png")
    page.locator(SUBMIT).first.click()
    page.get_by_text("neither an image").wait_for()
    page.close()


def test_counters_follow_the_text(site: Site, visitor: BrowserContext) -> None:
    page = visitor.new_page()
    found = complaints(page)
    page.goto(f"{site.url}/admin/publisher/plan/do/create/")
    page.get_by_label("X", exact=True).check()
    page.get_by_label("Bluesky").check()
    page.get_by_label("Caption").fill("\U0001f35e" * 141)
    page.get_by_text("X: 282 of 280, 2 too many").wait_for()
    page.get_by_text("Bluesky: 141 of 300").wait_for()
    page.get_by_label("Bluesky").uncheck()
    page.get_by_text("Bluesky: 141 of 300").wait_for(state="detached")
    page.goto(f"{site.url}/admin/publisher/plan/{site.ids['plan']}/do/edit/")
    page.get_by_text("Facebook page: ").wait_for()
    page.close()
    assert found == []


def test_a_post_is_dragged_and_moved_by_keys(site: Site, visitor: BrowserContext) -> None:
    """In the calendar, a day keeps the hour: by dragging, by a key, and by the form of the day."""
    plan = Plan.objects.get(pk=site.ids["moving"])
    page = visitor.new_page()
    found = complaints(page)

    def is_on(day: str) -> None:
        page.locator(f"[data-day='{day}'] .pc-entry", has_text="Moving").wait_for()
        assert plan.slots.get().local_time == f"{day}T10:00:00"

    page.goto(f"{site.url}/admin/publisher/calendar/?brand=acme-cafe&on=2031-05-06")
    is_on("2031-05-06")
    page.drag_and_drop("[data-day='2031-05-06'] .pc-entry .pc-head", "[data-day='2031-05-08'] h3")
    is_on("2031-05-08")
    page.locator("[data-day='2031-05-08'] .pc-title").focus()
    page.keyboard.press("Shift+ArrowLeft")
    is_on("2031-05-07")
    page.locator("[data-day='2031-05-07'] .pc-title:focus").wait_for()
    page.keyboard.press("Shift+ArrowRight")
    is_on("2031-05-08")
    page.get_by_label("Move Moving").click()
    page.get_by_label("Day", exact=True).fill("2031-05-09")
    page.get_by_role("button", name="Move to this day").click()
    is_on("2031-05-09")
    page.close()
    assert found == []


VIDEO = (
    "meta_facebook", "meta_instagram", "meta_instagram_stories", "tiktok", "youtube", "x",
    "mastodon",
)  # fmt: skip
TEXT = ("google_business", "wordpress_blog", "linkedin", "bluesky")


def test_a_post_appears_on_every_channel(
    site: Site, visitor: BrowserContext, server: Standin
) -> None:
    """Planned, approved, scheduled and moved by clicks alone; then its time comes."""
    assert {*VIDEO, *TEXT} == {*Channel.values}
    page = visitor.new_page()
    found = complaints(page)
    video = f"{server.url}/media/300000.mp4"
    titles = {"With a video": (VIDEO, video), "With a text": (TEXT, "")}
    for title, (channels, address) in titles.items():
        page.goto(f"{site.url}/admin/publisher/plan/do/create/")
        page.get_by_label("Brand").select_option("everywhere")
        page.get_by_label("Title").fill(title)
        page.get_by_label("Caption").fill(f"Zefiro bakes: {title}")
        page.get_by_label("Headline").fill("Zefiro")
        page.get_by_label("Address of a video").fill(address)
        page.get_by_label("When").fill("2031-05-06T10:00")
        for name in channels:
            page.get_by_role("checkbox", name=str(Channel(name).label), exact=True).check()
        page.locator(SUBMIT).first.click()
        page.wait_for_url(lambda url: url.endswith("/change/"))
        for act in ("Submit…", "Approve…", "Schedule…"):
            page.get_by_role("link", name=act, exact=True).click()
            page.locator(SUBMIT).first.click()
            page.wait_for_url(lambda url: "/do/" not in url)

    page.goto(f"{site.url}/admin/publisher/calendar/?brand=everywhere&on=2031-05-06")
    for left in range(len(Channel), 0, -1):
        entries = page.locator("[data-day='2031-05-06'] .pc-title")
        assert entries.count() == left
        entries.first.press("Shift+ArrowRight")
        moved = page.locator("[data-day='2031-05-07'] .pc-title")
        moved.nth(len(Channel) - left).wait_for()

    mine = Publication.objects.filter(brand__slug="everywhere", status="pending")
    assert {one.scheduled_at for one in mine} == {datetime(2031, 5, 7, 8, tzinfo=UTC)}
    with ThreadPoolExecutor(1) as pool:  # outside of the transaction of this test
        pool.submit(_let_the_time_come, datetime(2031, 5, 7, 8, tzinfo=UTC)).result()
    shown = Counter(one.channel for one in mine.model.objects.filter(
        brand__slug="everywhere", status="completed"
    ))  # fmt: skip
    assert shown == dict.fromkeys(Channel.values, 1)
    for title in titles:
        page.goto(f"{site.url}/admin/publisher/plan/?state=published")
        page.get_by_role("link", name=title).click()
        page.get_by_text("published", exact=True).first.wait_for()
    appeared = json.dumps([post for rows in server.posts.values() for post in rows])
    assert appeared.count("Zefiro bakes: With a") >= len(Channel) - 1  # a story has no text
    page.close()
    assert found == []


def _let_the_time_come(moment: datetime) -> None:
    with freeze_clock(moment) as clock:
        for _ in range(20):
            run_jobs(["publisher"])
            clock.tick(11)
        while outbox.relay_once().moved:
            pass
    connections.close_all()
