"""Every screen in a real browser: no error, no violation, nothing wider than the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.admin.screens import DIFFERING, FOR_VIEWERS, NAMES, NOTHING, screens
from tests.browser.conftest import Site
from tests.browser.looking import check, complaints, looker, marked, violations

__all__ = ["looker"]  # a fixture
pytestmark = [pytest.mark.browser, pytest.mark.django_db]


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
def test_a_screen(looker: BrowserContext, site: Site, name: str) -> None:
    content = check(looker, site, f"jobs/{screens(site.ids)[name]}", f"{name}.png")
    assert 'class="jd' in content


@pytest.fixture(scope="module")
def viewer(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """Somebody who may only look."""
    context = site.visitor(browser, name="viewer")
    yield context
    context.close()


@pytest.mark.parametrize("name", marked([*FOR_VIEWERS, *NOTHING], DIFFERING))
def test_a_screen_of_who_may_only_look(viewer: BrowserContext, site: Site, name: str) -> None:
    path = NOTHING.get(name) or screens(site.ids)[FOR_VIEWERS[name]]
    status = {"nothing-here": 404, "nothing-allowed": 403}.get(name, 200)
    check(viewer, site, f"jobs/{path}", f"{name}.png", status=status)


@pytest.mark.differing
def test_what_is_wrong_is_found(looker: BrowserContext, site: Site) -> None:
    page = looker.new_page()
    found = complaints(page)
    page.goto(f"{site.url}/admin/jobs/job/?q=knd:x")
    page.evaluate("document.querySelector('.jd').innerHTML += '<img src=/gone.png><p style=x:y>'")
    page.wait_for_event("console", predicate=lambda m: "404" in m.text)
    assert any(one.startswith("404 ") for one in found)
    assert violations(page)[0].startswith("image-alt")
    page.close()
