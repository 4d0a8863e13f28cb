"""Every screen in a real browser: no error, no violation, nothing wider than the page."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import django
import pytest
from _pytest.mark import ParameterSet
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from django.apps import apps
from playwright.sync_api import Browser, BrowserContext, Page

from tests.admin.screens import DIFFERING, FOR_VIEWERS, NAMES, NOTHING, screens
from tests.browser.conftest import Site

pytestmark = [pytest.mark.browser, pytest.mark.django_db]
THEME = "unfold" if apps.is_installed("unfold") else "stock"
PICTURES = Path("build/screenshots") / f"{THEME}-{django.VERSION[0]}.{django.VERSION[1]}"
CELLS = [(taste, width) for width in (1440, 390) for taste in ("light", "dark")]
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
}


@pytest.fixture(scope="module", params=CELLS, ids=lambda cell: f"{cell[0]}-{cell[1]}")
def cell(
    request: pytest.FixtureRequest, browser: Browser, site: Site
) -> Iterator[tuple[str, BrowserContext]]:
    """A visitor's taste and width of screen, by name, and the visitor."""
    taste, width = request.param
    context = site.visitor(browser, dark=taste == "dark", width=width)
    yield f"{taste}-{width}", context
    context.close()


def marked(names: Iterable[str], differing: Container[str]) -> list[ParameterSet]:
    """Return the names as parameters; those that may differ elsewhere are marked so."""
    mark = pytest.mark.differing
    return [pytest.param(name, marks=mark if name in differing else ()) for name in names]


def complaints(page: Page) -> list[str]:
    """What the browser complains about from now on."""
    found: list[str] = []
    page.on("console", lambda m: found.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("response", lambda r: found.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    return found


def violations(page: Page) -> list[str]:
    """What axe finds in our part of the page."""
    found = Axe().run(page, context=".jd", options=RULES).response["violations"]
    return [
        f"{one['id']}: {node['html'][:160]} :: {node['failureSummary'][-200:]}"
        for one in found
        for node in one["nodes"][:2]
    ]


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
def test_a_screen(cell: tuple[str, BrowserContext], site: Site, name: str) -> None:
    look, context = cell
    check(context, f"{site.url}/admin/jobs/{screens(site.ids)[name]}", look, name)


@pytest.fixture(scope="module")
def viewer(
    cell: tuple[str, BrowserContext], browser: Browser, site: Site
) -> Iterator[BrowserContext]:
    """Somebody who may only look, with the same screen."""
    taste, _, width = cell[0].partition("-")
    context = site.visitor(browser, dark=taste == "dark", width=int(width), name="viewer")
    yield context
    context.close()


@pytest.mark.parametrize("name", marked([*FOR_VIEWERS, *NOTHING], DIFFERING))
def test_a_screen_of_who_may_only_look(
    cell: tuple[str, BrowserContext], viewer: BrowserContext, site: Site, name: str
) -> None:
    path = NOTHING.get(name) or screens(site.ids)[FOR_VIEWERS[name]]
    status = {"nothing-here": 404, "nothing-allowed": 403}.get(name, 200)
    check(viewer, f"{site.url}/admin/jobs/{path}", cell[0], name, status)


def check(context: BrowserContext, url: str, look: str, name: str, status: int = 200) -> None:
    """The page is answered so, and nothing is wrong with it; its picture is kept."""
    page = context.new_page()
    found = complaints(page)
    answer = page.goto(url, wait_until="load")
    assert page.locator(".jd").count() == 1
    assert answer is not None and answer.status == status
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    wrong = violations(page)
    folder = PICTURES / look
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png", full_page=True, animations="disabled")
    page.close()
    assert wide <= 0, f"{wide} px wider than the page"
    assert wrong == []
    assert [one for one in found if status == 200 or str(status) not in one] == []


@pytest.mark.differing
def test_what_is_wrong_is_found(cell: tuple[str, BrowserContext], site: Site) -> None:
    _, context = cell
    page = context.new_page()
    found = complaints(page)
    page.goto(f"{site.url}/admin/jobs/job/?q=knd:x")
    page.evaluate("document.querySelector('.jd').innerHTML += '<img src=/gone.png><p style=x:y>'")
    page.wait_for_event("console", predicate=lambda m: "404" in m.text)
    assert any(one.startswith("404 ") for one in found)
    assert violations(page)[0].startswith("image-alt")
    page.close()
