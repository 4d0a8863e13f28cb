"""The gateway's pages in a real browser: nothing is complained about, nothing leaves the page."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, BrowserContext, Page
from pytest_django import DjangoDbBlocker

from emailgw.models import OutboxEmail
from jobs.models import Audit
from tests.browser.conftest import Site, browser
from tests.browser.looking import check, filled, looker, marked, visitor
from tests.emailgw import factories
from tests.emailgw.filling import DIFFERING, NAMES, fill, screens
from tests.emailgw.sink import Sink

__all__ = ["browser", "looker", "visitor"]  # fixtures
pytestmark = [pytest.mark.browser, pytest.mark.django_db]


@pytest.fixture(scope="module")
def site(browser: Browser, server: Sink, django_db_blocker: DjangoDbBlocker) -> Iterator[Site]:
    """One server and one filling for all tests, none of which changes an email."""
    server.reset()
    providers = factories.providers(server.port)
    with filled(django_db_blocker, partial(fill, server), EMAILGW=providers) as found:
        yield found
    server.reset()


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
def test_a_screen(looker: BrowserContext, site: Site, name: str) -> None:
    def look(page: Page) -> None:
        if name == "email-sent":
            page.locator("iframe").scroll_into_view_if_needed()
            inner = page.frame_locator("iframe")
            assert inner.locator("h1").inner_text() == "Your invoice of November"

    picture = f"emailgw-{name}.png"
    content = check(looker, site, screens(site.ids)[name], picture, look=look)
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
