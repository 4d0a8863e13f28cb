"""Everything can be reached and left without a mouse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.admin.screens import screens
from tests.browser.conftest import Site

pytestmark = [pytest.mark.browser, pytest.mark.differing, pytest.mark.django_db]
HERE = """() => {
  const el = document.activeElement;
  if (!el || el === document.body) return "";
  const box = el.getBoundingClientRect();
  const style = getComputedStyle(el);
  window.jdSeen ??= new Map();
  if (!window.jdSeen.has(el)) window.jdSeen.set(el, window.jdSeen.size);
  const ours = el.closest(".jd") !== null;
  const ring = style.outlineStyle !== "none" || style.boxShadow !== "none";
  return [window.jdSeen.get(el), ours, ours && !ring ? el.outerHTML.slice(0, 120) : ""];
}"""
MOST = 400


@pytest.fixture(scope="module")
def visitor(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    context = site.visitor(browser)  # outside of the transaction of a test
    yield context
    context.close()


@pytest.fixture
def page(visitor: BrowserContext) -> Iterator[Page]:
    page = visitor.new_page()
    yield page
    page.close()


@pytest.mark.parametrize("name", ["overview", "jobs", "job-failed", "bulk-confirm", "views"])
def test_tab_goes_through_the_page_and_out_of_it(page: Page, site: Site, name: str) -> None:
    page.goto(f"{site.url}/admin/jobs/{screens(site.ids)[name]}")
    order, unseen, ours = [], [], 0
    for _ in range(MOST):
        page.keyboard.press("Tab")
        found = page.evaluate(HERE)
        if not found or found[0] in order:
            break
        order.append(found[0])
        ours += found[1]
        if found[2]:
            unseen.append(found[2])
    else:
        pytest.fail("there is no way out")
    wanted = ("a", "button", "input:not([type=hidden])", "select", "textarea", "summary")
    focusable = page.locator(", ".join(f".jd {one}:visible" for one in wanted))
    assert ours >= focusable.count() >= 4
    assert unseen == []


def test_escape_closes_what_is_open(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/admin/jobs/job/")
    menu = page.locator(".jd-menu").first
    menu.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(menu).to_have_attribute("open", "")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")
    assert page.evaluate("document.activeElement.closest('.jd-menu') !== null")
    page.keyboard.press("?")
    dialog = page.locator("dialog[data-jd-help]")
    dialog.wait_for()
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()


def test_the_keys_of_the_list_work(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/admin/jobs/job/")
    page.locator(".jd-live[data-state=polling]").wait_for()
    buttons = page.locator("[data-jd-selection] button[name=action]")
    assert buttons.first.get_attribute("aria-disabled") == "true"
    page.keyboard.press("j")
    page.keyboard.press("x")
    assert page.locator("[data-jd-selected]").inner_text() == "1"
    assert buttons.first.get_attribute("aria-disabled") is None
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.type("r?")
    assert page.locator("input[name=q]").input_value() == "r?"
    assert page.locator(".jd-live").get_attribute("data-state") == "polling"
