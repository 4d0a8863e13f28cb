"""The pages in a real browser: no complaint, nothing wider than the page, three languages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from django.core.cache import cache
from playwright.sync_api import Browser, BrowserContext, Page
from pytest_django import DjangoDbBlocker

from config.standins.trading import Coinbase
from tests.browser.conftest import Site, browser
from tests.browser.looking import ALIKE, CELLS, check, filled, marked, sorted_out, speaking
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
    with filled(django_db_blocker, partial(fill, standin), JOBS=allowed, TRADING=trading) as found:
        yield found
    standin.reset()


@pytest.fixture(
    scope="module",
    params=sorted_out(LOOKS, lambda look: look[:2] in ALIKE or look[2] != "en"),
    ids=lambda look: "-".join(map(str, look)),
)
def look(
    request: pytest.FixtureRequest, browser: Browser, site: Site
) -> Iterator[tuple[str, str, BrowserContext]]:
    """A visitor's taste, width of screen and language, by name, and the visitor."""
    taste, width, language = request.param
    context = speaking(browser, site, language, dark=taste == "dark", width=width)
    name = f"{taste}-{width}" if language == "en" else f"{taste}-{width}-{language}"
    yield name, language, context
    context.close()


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
def test_a_screen(look: tuple[str, str, BrowserContext], site: Site, name: str) -> None:
    shown, language, context = look
    seen: list[str] = []

    def read(page: Page) -> None:
        seen.append(page.evaluate("document.documentElement.lang"))
        seen.append(page.locator("h1").first.inner_text())

    check(context, site, screens(site.ids)[name], f"{shown}/trading-{name}.png", look=read)
    spoken, title = seen
    assert spoken.lower() == language.lower()
    if name == "trades":
        assert title == TITLES[language]
