"""What browser tests share: a filled site, its visitors, and a look at a page."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
import pytest
from _pytest.mark import ParameterSet
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from playwright.sync_api import Browser, BrowserContext, Page
from pytest_django import DjangoDbBlocker

from tests.browser.conftest import Site, served

THEME = "unfold" if apps.is_installed("unfold") else "stock"
PICTURES = Path("build/screenshots") / f"{THEME}-{django.VERSION[0]}.{django.VERSION[1]}"
CELLS = [(taste, width) for width in (1440, 390) for taste in ("light", "dark")]
ALIKE = {("dark", 1440), ("light", 390)}
"""What differs there between themes and versions of Django differs in the other two as well."""
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
}


def sorted_out(looks: Iterable[Any], alike: Callable[[Any], bool]) -> list[ParameterSet]:
    """Return the looks as parameters; those that another look stands for are marked so."""
    mark = pytest.mark.alike
    return [pytest.param(one, marks=mark if alike(one) else ()) for one in looks]


@pytest.fixture(
    scope="module",
    params=sorted_out(CELLS, ALIKE.__contains__),
    ids=lambda cell: f"{cell[0]}-{cell[1]}",
)
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


@contextmanager
def filled(
    blocker: DjangoDbBlocker, fill: Callable[[], dict[str, Any]], **settings: Any
) -> Iterator[Site]:
    """Serve one filling of an app with these settings, and leave an empty database."""
    with (
        blocker.unblock(),
        override_settings(**settings),
        ThreadPoolExecutor(1) as pool,  # this thread has the loop of the browser
    ):
        with served() as found:
            yield Site(found.url, pool.submit(fill).result())
        call_command("flush", verbosity=0, interactive=False)
        connections.close_all()


@pytest.fixture(scope="module")
def visitor(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """Somebody logged in, outside of any test's transaction, which the server would not see."""
    context = site.visitor(browser)
    context.set_default_timeout(20_000)
    yield context
    context.close()


def speaking(browser: Browser, site: Site, language: str, **how: Any) -> BrowserContext:
    """Return a visitor who reads this language."""
    context = site.visitor(browser, **how)
    name = "django_language"
    context.add_cookies([{"name": name, "value": language.lower(), "url": site.url}])
    return context


def check(
    context: BrowserContext,
    site: Site,
    path: str,
    picture: str,
    *,
    status: int = 200,
    look: Callable[[Page], None] = lambda page: None,
) -> str:
    """Look at a page of the admin, keep a picture, and return its HTML.

    It has this status, is no wider than the screen, asks no other host, complains about nothing
    and breaks no rule of accessibility.
    """
    page = context.new_page()
    found = complaints(page)
    page.on("request", lambda r: None if r.url.startswith(site.url) else found.append(r.url))
    answer = page.goto(f"{site.url}/admin/{path}", wait_until="load")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    look(page)
    wrong = violations(page) if page.locator(".jd").count() else []
    file = PICTURES / picture
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=file, full_page=True, animations="disabled")
    content = page.content()
    page.close()
    assert answer is not None and answer.status == status
    assert wide <= 0, f"{wide} px wider than the page"
    assert wrong == []
    assert [one for one in found if status == 200 or str(status) not in one] == []
    return content
