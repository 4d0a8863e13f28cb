"""Every item of a row's menu can be hit with a mouse, wherever the row stands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.admin.screens import NAMES, screens
from tests.browser.conftest import Site

pytestmark = [pytest.mark.browser, pytest.mark.differing, pytest.mark.django_db]
HIT = """(menu) => [...menu.querySelectorAll(":scope > div > *")].map((item) => {
  const box = item.getBoundingClientRect();
  const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return [item.textContent.trim(), hit !== null && (item === hit || item.contains(hit))];
})"""
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
WITH_MENUS = {"jobs", "schedules", "letters", "webhooks", "views", "keys", "outbox"}


@pytest.fixture(scope="module", params=[1440, 390])
def visitor(
    request: pytest.FixtureRequest, browser: Browser, site: Site
) -> Iterator[BrowserContext]:
    context = site.visitor(browser, width=request.param)
    # Rows that are renewed just now cannot be clicked.
    context.add_init_script("localStorage.setItem('jobs.live', 'off')")
    yield context
    context.close()


@pytest.fixture
def page(visitor: BrowserContext) -> Iterator[Page]:
    page = visitor.new_page()
    yield page
    page.close()


def test_the_pages_with_menus_are_those_looked_at(site: Site, client: Client) -> None:
    client.force_login(User.objects.get(username="root"))
    lists = [name for name in NAMES if screens(site.ids)[name].count("/") == 1]
    pages = {name: client.get(f"/admin/jobs/{screens(site.ids)[name]}") for name in lists}
    having = {name for name, page in pages.items() if 'class="jd-menu"' in page.content.decode()}
    assert having == WITH_MENUS | (having & {"jobs-failed", "letters-cause"})


@pytest.mark.parametrize("name", sorted(WITH_MENUS | {"jobs-failed", "letters-cause"}))
def test_every_item_of_the_first_and_last_menu_can_be_hit(
    page: Page, site: Site, name: str
) -> None:
    page.goto(f"{site.url}/admin/jobs/{screens(site.ids)[name]}")
    menus = page.locator(".jd-menu")
    assert menus.count()
    for menu in (menus.first, menus.last):
        menu.locator("summary").scroll_into_view_if_needed()
        menu.locator("summary").click()
        expect(menu).to_have_attribute("open", "")
        page.evaluate(PAINTED)
        items = menu.evaluate(HIT)
        assert items and [text for text, is_hit in items if not is_hit] == []
        menu.locator("summary").click()
        expect(menu).not_to_have_attribute("open", "")


@pytest.mark.parametrize("at", ["start", "center", "end"])
def test_a_menu_stays_at_its_row_where_the_page_scrolls(page: Page, site: Site, at: str) -> None:
    page.goto(f"{site.url}/admin/jobs/job/")
    menu = page.locator(".jd-menu").nth(12)
    menu.evaluate("(menu, block) => menu.scrollIntoView({ block })", at)
    menu.locator("summary").click()
    for step in (0, 40, -40):
        page.mouse.wheel(0, step)
        page.evaluate(PAINTED)
        items = menu.evaluate(HIT)
        assert items and all(is_hit for _, is_hit in items)
    page.mouse.click(5, 5)
    expect(menu).not_to_have_attribute("open", "")


@pytest.fixture(scope="module")
def scriptless(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    visitor = site.visitor(browser)
    context = browser.new_context(
        java_script_enabled=False, viewport={"width": 1440, "height": 900}
    )
    context.add_cookies(visitor.cookies())  # type: ignore[arg-type]
    visitor.close()
    yield context
    context.close()


@pytest.mark.skipif(apps.is_installed("unfold"), reason="Unfold's own pages need scripts")
def test_without_a_script_a_menu_is_not_cut_either(scriptless: BrowserContext, site: Site) -> None:
    page = scriptless.new_page()
    page.goto(f"{site.url}/admin/jobs/schedule/")
    menu = page.locator(".jd-menu").last
    menu.locator("summary").click()
    items = menu.locator("div > a").all()
    for item in items:
        item.click(trial=True, timeout=5000)
    assert len(items) > 3
