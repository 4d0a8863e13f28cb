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
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
}


@pytest.fixture(scope="module")
def looker(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """Somebody who looks at page after page."""
    context = site.visitor(browser)
    yield context
    context.close()


def marked(names: Iterable[str], differing: Container[str]) -> list[ParameterSet]:
    """Return the names as parameters; those that may differ elsewhere are marked so."""
    mark = pytest.mark.differing
    return [pytest.param(name, marks=mark if name in differing else ()) for name in names]


def complaints(page: Page, found: list[str] | None = None) -> list[str]:
    """Return what the browser complains about from now on."""
    found = [] if found is None else found
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
    """Look at a page of the admin in light and dark, wide and narrow; return its HTML.

    It has this status, is no wider than the screen, asks no other host, complains about nothing
    and breaks no rule of accessibility. A picture of each look is kept.
    """
    found: list[str] = []
    page = _opened(context, site, "light", found)
    answer = page.goto(f"{site.url}/admin/{path}", wait_until="load")
    content = page.content()
    look(page)
    has_rules = page.locator(".jd").count() > 0
    # Rules are asked where most differs: of the other two looks, each shares one thing with both.
    wrong = _look(page, "light", 1440, picture, has_rules)
    wrong += _look(page, "light", 390, picture, False)
    page.close()
    page = _opened(context, site, "dark", found)
    page.goto(f"{site.url}/admin/{path}", wait_until="load")
    wrong += _look(page, "dark", 390, picture, has_rules)
    wrong += _look(page, "dark", 1440, picture, False)
    page.close()
    assert answer is not None and answer.status == status
    assert wrong == [], wrong
    noise = [one for one in found if status == 200 or str(status) not in one]
    assert noise == [], noise
    return content


def _opened(context: BrowserContext, site: Site, taste: Any, found: list[str]) -> Page:
    """Return a new page; what the browser complains about is added to ``found``."""
    page = context.new_page()
    page.emulate_media(color_scheme=taste)
    complaints(page, found)
    page.on("request", lambda r: None if r.url.startswith(site.url) else found.append(r.url))
    return page


def _look(page: Page, taste: str, width: int, picture: str, has_rules: bool) -> list[str]:
    """Return what is wrong in this look; keep a picture of it."""
    name = f"{taste}-{width}"
    page.set_viewport_size({"width": width, "height": 900})
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    wrong = [f"{name}: {wide} px wider than the page"] if wide > 0 else []
    wrong += [f"{name}: {one}" for one in violations(page)] if has_rules else []
    file = PICTURES / name / picture
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=file, full_page=True, animations="disabled")
    return wrong
