"""The gateway's pages in a real browser: nothing is complained about, nothing leaves the page."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from playwright.sync_api import Browser, BrowserContext
from pytest_django import DjangoDbBlocker

from emailgw.models import OutboxEmail
from jobs.models import Audit
from tests.browser.conftest import Site, browser, served
from tests.browser.test_screens import CELLS, PICTURES, complaints, marked, violations
from tests.emailgw import factories
from tests.emailgw.filling import DIFFERING, NAMES, fill, screens
from tests.emailgw.sink import Sink

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.browser, pytest.mark.django_db]


@pytest.fixture(scope="module")
def site(browser: Browser, server: Sink, django_db_blocker: DjangoDbBlocker) -> Iterator[Site]:
    """One server and one filling for all tests, none of which changes an email."""
    server.reset()
    with (
        django_db_blocker.unblock(),
        override_settings(EMAILGW=factories.providers(server.port)),
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
    if name == "email-sent":
        page.locator("iframe").scroll_into_view_if_needed()
        inner = page.frame_locator("iframe")
        assert inner.locator("h1").inner_text() == "Your invoice of November"
    wrong = violations(page)
    folder = PICTURES / look
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"emailgw-{name}.png", full_page=True, animations="disabled")
    content = page.content()
    page.close()
    assert wide <= 0, f"{wide} px wider than the page"
    assert wrong == []
    assert found == []
    assert "@customers.test" not in content


def test_an_address_is_found_without_being_in_an_address(
    site: Site, visitor: BrowserContext
) -> None:
    page = visitor.new_page()
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url))
    page.goto(f"{site.url}/admin/emailgw/outboxemail/")
    page.get_by_role("link", name="Find by address").click()
    page.get_by_label("Address").fill("Rui@customers.test")
    page.get_by_label("Company").select_option(str(site.ids["company"]))
    page.locator(".jd form button[type=submit], .jd form .jd-btn-primary").first.click()
    page.wait_for_url("**/outboxemail/?company=*")
    assert page.locator("[data-jd-row]").count() == 1
    assert page.locator("[data-jd-row] b").inner_text() == "r***@c***.test"
    assert not [url for url in asked if "rui" in url.lower()]
    page.close()


def test_a_recipient_is_shown_once_and_written_down(site: Site, visitor: BrowserContext) -> None:
    page = visitor.new_page()
    page.goto(f"{site.url}/admin/emailgw/outboxemail/{site.ids['sent']}/do/reveal/")
    page.get_by_label("Reason").fill("the customer called")
    page.locator(".jd form button[type=submit], .jd form .jd-btn-primary").first.click()
    page.get_by_text("sent@customers.test").wait_for()
    row = OutboxEmail.objects.get(pk=site.ids["sent"])
    told = Audit.objects.filter(action="email.reveal", target_id=str(row.pk))
    assert list(told.values_list("actor", "outcome", "reason")) == [
        ("root", "done", "the customer called")
    ]
    page.close()
