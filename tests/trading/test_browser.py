"""The pages in a real browser: no complaint, nothing wider than the page, three languages."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from playwright.sync_api import Browser, BrowserContext
from pytest_django import DjangoDbBlocker

from config.standins.trading import Coinbase
from tests.browser.conftest import Site, browser, served
from tests.browser.test_screens import CELLS, PICTURES, complaints, marked, violations
from tests.trading.filling import DIFFERING, NAMES, fill, screens

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.browser, pytest.mark.django_db]
LOOKS = [
    *((taste, width, "en") for taste, width in CELLS),
    *(("light", width, language) for width in (1440, 390) for language in ("it", "pt-BR")),
]
TITLES = {"en": "Trades", "it": "Operazioni", "pt-BR": "Operações"}


@pytest.fixture(scope="module")
def site(browser: Browser, standin: Coinbase, django_db_blocker: DjangoDbBlocker) -> Iterator[Site]:
    """One server and one filling for all tests, none of which changes anything."""
    standin.reset()
    cache.clear()
    from django.conf import settings

    allowed = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8", "localhost"]}
    trading = {"COINBASE_URL": standin.url, "HEURISTICS_ONLY": True}
    with (
        django_db_blocker.unblock(),
        override_settings(JOBS=allowed, TRADING=trading),
        ThreadPoolExecutor(1) as pool,  # this thread has the loop of the browser
    ):
        with served() as found:
            yield Site(found.url, pool.submit(fill, standin).result())
        call_command("flush", verbosity=0, interactive=False)
        connections.close_all()
    standin.reset()


@pytest.fixture(scope="module", params=LOOKS, ids=lambda look: "-".join(map(str, look)))
def look(
    request: pytest.FixtureRequest, browser: Browser, site: Site
) -> Iterator[tuple[str, str, BrowserContext]]:
    """A visitor's taste, width of screen and language, by name, and the visitor."""
    taste, width, language = request.param
    context = site.visitor(browser, dark=taste == "dark", width=width)
    chosen = {"name": "django_language", "value": language.lower(), "url": site.url}
    context.add_cookies([chosen])  # type: ignore[list-item]
    name = f"{taste}-{width}" if language == "en" else f"{taste}-{width}-{language}"
    yield name, language, context
    context.close()


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
def test_a_screen(look: tuple[str, str, BrowserContext], site: Site, name: str) -> None:
    shown, language, context = look
    page = context.new_page()
    found = complaints(page)
    page.on("request", lambda r: None if r.url.startswith(site.url) else found.append(r.url))
    page.goto(f"{site.url}/admin/{screens(site.ids)[name]}", wait_until="load")
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    wrong = violations(page)
    folder = PICTURES / shown
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"trading-{name}.png", full_page=True, animations="disabled")
    spoken = page.evaluate("document.documentElement.lang")
    title = page.locator("h1").first.inner_text()
    page.close()
    assert wide <= 0, f"{wide} px wider than the page"
    assert wrong == []
    assert found == []
    assert spoken.lower() == language.lower()
    if name == "trades":
        assert title == TITLES[language]
