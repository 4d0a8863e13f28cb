"""The publisher's pages in a real browser: every page, in every language, and clicked through."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from playwright.sync_api import Browser, BrowserContext
from pytest_django import DjangoDbBlocker

from config.standins.publisher import Standin
from publisher.models import Account, Publication
from tests.browser.conftest import Site, browser, served
from tests.browser.test_screens import CELLS, PICTURES, complaints, marked, violations
from tests.publisher.filling import DIFFERING, NAMES, fill, screens

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.browser, pytest.mark.django_db]
SUBMIT = ".jd form button[type=submit], .jd form .jd-btn-primary"


@pytest.fixture(scope="module")
def site(browser: Browser, server: Standin, django_db_blocker: DjangoDbBlocker) -> Iterator[Site]:
    """One server and one filling for all tests."""
    server.reset()
    with (
        django_db_blocker.unblock(),
        override_settings(JOBS={**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"]}),
        ThreadPoolExecutor(1) as pool,  # this thread has the loop of the browser
    ):
        with served() as found:
            yield Site(found.url, pool.submit(fill, server).result())
        call_command("flush", verbosity=0, interactive=False)
        connections.close_all()
    server.reset()


@pytest.fixture(scope="module", params=CELLS, ids=lambda cell: f"{cell[0]}-{cell[1]}")
def cell(
    request: pytest.FixtureRequest, browser: Browser, site: Site
) -> Iterator[tuple[str, BrowserContext]]:
    """A visitor's taste and width of screen, by name, and the visitor."""
    taste, width = request.param
    context = site.visitor(browser, dark=taste == "dark", width=width)
    yield f"{taste}-{width}", context
    context.close()


@pytest.fixture(scope="module", params=["it", "pt-BR"])
def foreigner(
    request: pytest.FixtureRequest, browser: Browser, site: Site
) -> Iterator[tuple[str, BrowserContext]]:
    """Somebody with a small screen who reads another language."""
    context = site.visitor(browser, width=390)
    name, value = settings.LANGUAGE_COOKIE_NAME, request.param.lower()
    context.add_cookies([{"name": name, "value": value, "url": site.url}])
    yield request.param, context
    context.close()


@pytest.fixture(scope="module")
def visitor(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """Somebody logged in, outside of any test's transaction, which the server would not see."""
    context = site.visitor(browser)
    context.set_default_timeout(10_000)
    yield context
    context.close()


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
def test_a_screen(cell: tuple[str, BrowserContext], site: Site, name: str) -> None:
    look, context = cell
    page = context.new_page()
    found = complaints(page)
    page.on("request", lambda r: None if r.url.startswith(site.url) else found.append(r.url))
    page.goto(f"{site.url}/admin/{screens(site.ids)[name]}", wait_until="load")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    wrong = violations(page)
    folder = PICTURES / look
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"publisher-{name}.png", full_page=True, animations="disabled")
    content = page.content()
    page.close()
    assert wide <= 0, f"{wide} px wider than the page"
    assert wrong == []
    assert found == []
    assert "token-0" not in content and "refresh-1" not in content


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
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
