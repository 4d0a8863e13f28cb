"""The publisher's pages in a real browser: every page, in every language, and clicked through."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from django.conf import settings
from playwright.sync_api import Browser, BrowserContext
from pytest_django import DjangoDbBlocker

from config.standins.publisher import Standin
from publisher.models import Account, Publication
from tests.browser.conftest import Site, browser
from tests.browser.looking import cell, check, complaints, filled, marked, speaking, visitor
from tests.publisher.filling import DIFFERING, NAMES, fill, screens

__all__ = ["browser", "cell", "visitor"]  # fixtures
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
def test_a_screen(cell: tuple[str, BrowserContext], site: Site, name: str) -> None:
    content = check(cell[1], site, screens(site.ids)[name], f"{cell[0]}/publisher-{name}.png")
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
