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
from tests.browser.looking import check, filled, marked, speaking
from tests.trading.filling import DIFFERING, NAMES, fill, screens

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.browser, pytest.mark.django_db]
TITLES = {"en": "Trades", "it": "Operazioni", "pt-BR": "Operações"}


@pytest.fixture(scope="module")
def site(browser: Browser, standin: Coinbase, django_db_blocker: DjangoDbBlocker) -> Iterator[Site]:
    """One server and one filling for all tests, none of which changes anything."""
    standin.reset()
    cache.clear()
    from django.conf import settings

    allowed = {**settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8", "localhost"]}
    trading = {
        "COINBASE_URL": standin.url, "HEURISTICS_ONLY": True, "FEATURE_BINANCE": True,
        "COINBASE_CLIENT_ID": "jobdesk", "COINBASE_CLIENT_SECRET": "secret",
    }  # fmt: skip
    with filled(django_db_blocker, partial(fill, standin), JOBS=allowed, TRADING=trading) as found:
        yield found
    standin.reset()


@pytest.fixture(
    scope="module",
    params=["en", *(pytest.param(one, marks=pytest.mark.alike) for one in ("it", "pt-BR"))],
)
def reader(
    request: pytest.FixtureRequest, browser: Browser, site: Site
) -> Iterator[tuple[str, BrowserContext]]:
    """A language, and a visitor who reads it."""
    context = speaking(browser, site, request.param)
    yield request.param, context
    context.close()


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
def test_a_screen(reader: tuple[str, BrowserContext], site: Site, name: str) -> None:
    language, context = reader
    seen: list[str] = []

    def read(page: Page) -> None:
        seen.append(page.evaluate("document.documentElement.lang"))
        seen.append(page.locator("h1").first.inner_text())

    picture = f"trading-{name}-{language}.png"
    check(context, site, screens(site.ids)[name], picture, look=read)
    spoken, title = seen
    assert spoken.lower() == language.lower()
    if name == "trades":
        assert title == TITLES[language]
