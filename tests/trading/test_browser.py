"""The pages in a real browser: no complaint, nothing wider than the page, three languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connections
from playwright.sync_api import Browser, BrowserContext, Page
from pytest_django import DjangoDbBlocker

from config.standins.trading import Coinbase, new_account
from jobs.testing import run_jobs
from tests.browser.conftest import Site, browser
from tests.browser.looking import check, complaints, filled, marked, speaking, visitor
from tests.trading.filling import DIFFERING, NAMES, fill, screens
from trading import services
from trading.clock import week_of
from trading.models import BrokerConnection, Trade

__all__ = ["browser", "visitor"]  # fixtures
pytestmark = [pytest.mark.browser, pytest.mark.django_db]
TITLES = {"en": "Trades", "it": "Operazioni", "pt-BR": "Operações"}


@pytest.fixture(scope="module")
def site(browser: Browser, standin: Coinbase, django_db_blocker: DjangoDbBlocker) -> Iterator[Site]:
    """One server and one filling for all tests; who changes something, has a user of their own."""
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
        assert title.splitlines()[-1] == TITLES[language]  # Unfold puts the way there before it


# ---- what a trader does, from the first page to the last


def worked(first: Callable[[], object] = lambda: None) -> None:
    """Run what is due in a thread: this one has the loop of the browser, and a transaction."""

    def work() -> None:
        first()
        run_jobs()
        connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


class Desk:
    """A trader at the pages of the app."""

    def __init__(self, site: Site, context: BrowserContext) -> None:
        self.site, self.page = site, context.new_page()
        self.complaints = complaints(self.page)

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.site.url}/admin/trading/{path}", wait_until="load")
        return self.page

    def act(self, name: str, fields: dict[str, str] | None = None) -> None:
        """Click what is offered, fill in its form, and send it."""
        self.page.locator(".jd-buttons").get_by_text(name, exact=True).click()
        self.page.wait_for_url(lambda url: "/do/" in url)
        for label, value in (fields or {}).items():
            field = self.page.get_by_label(re.compile(rf"^{re.escape(label)}( \(optional\))?$"))
            if field.evaluate("one => one.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        self.page.locator(".jd form button.jd-btn").first.click()
        self.page.wait_for_url(lambda url: "/do/" not in url)

    def reads(self, *words: str) -> None:
        for one in words:
            self.page.get_by_text(one).first.wait_for()


def test_a_trader_does_all_of_it_by_clicking(
    site: Site, visitor: BrowserContext, standin: Coinbase, tmp_path: Path
) -> None:
    """Link, import, filter and export, read, compare, set a rule, read the digest, and erase."""
    account = standin.add(new_account("organizations/acme/apiKeys/own"))
    account.fills = standin.market.fills()
    desk = Desk(site, visitor)

    desk.open("brokerconnection/")
    desk.act("Link Coinbase…", {
        "Key name": account.name, "Private key, or secret": account.secret,
    })  # fmt: skip
    desk.reads("The account is linked.", "read only", "No import yet")
    link = desk.page.url
    own = BrokerConnection.objects.get(pk=link.split("/")[-3])
    desk.act("Test…")
    desk.reads("The venue takes the key. It may read only.")
    desk.act("Pause…")
    desk.reads("paused")
    desk.act("Resume…")
    desk.reads("active")

    desk.act("Import…")
    desk.reads("The import has started.", "Import of")
    worked()
    desk.page.reload()
    desk.reads("done", "100")

    page = desk.open("trade/")
    page.get_by_label("Any label", exact=True).select_option("FOMO")
    page.get_by_label("Any side", exact=True).select_option("BUY")
    page.get_by_label("Symbol", exact=True).fill("eth-usd")
    page.get_by_label("From", exact=True).fill("2020-01-01")
    page.get_by_role("button", name="Search").click()
    mine = page.locator("[data-jd-row]", has_text="root")
    wanted = Trade.objects.filter(
        user_id=own.user_id, symbol="ETH-USD", tags__is_current=True, tags__label="FOMO"
    )
    mine.first.wait_for()
    assert mine.count() == wanted.count() > 0
    with page.expect_download() as exported:
        page.get_by_role("button", name="Export CSV").click()
    exported.value.save_as(tmp_path / "trades.csv")
    _, *lines = (tmp_path / "trades.csv").read_text().splitlines()
    assert len(lines) == page.locator("[data-jd-row]").count()
    assert all("ETH-USD" in line and "FOMO" in line for line in lines)

    mine.first.get_by_role("link").click()
    desk.reads("FOMO", "RSI", "Above the lowest close, %", "Not compared yet")
    desk.act("Compare with holding…", {"Days after the trade": "3"})
    worked()
    desk.page.reload()
    desk.reads("Compared with holding for 3 days, in USD")

    desk.open("rule/")
    desk.act("Set a rule…", {"Rule": "avoidSpikeOverPct", "Percent above the lowest close": "5"})
    worked()
    broke = desk.open("trade/?rule=avoidSpikeOverPct").locator("[data-jd-row]", has_text="root")
    assert broke.count() == 3, "the purchases after a rise"
    desk.act("Label my trades again…")
    desk.reads("Your trades are labelled again.")

    week = week_of(wanted[0].ts).date()
    worked(lambda: services.enqueue_digest(own.user_id, week, week + timedelta(days=7)))
    page = desk.open("digest/")
    page.locator("[data-jd-row]", has_text="root").get_by_role("link").click()
    desk.reads("Win rate", "Broken rules", "Profit by label")

    page.goto(link)
    desk.act("Revoke…")
    desk.reads("revoked")
    desk.open("trade/")
    desk.act("Delete all my data…", {"Reason": "moving on"})
    desk.reads("Your data is deleted.")
    assert not Trade.objects.filter(user_id=own.user_id).exists()
    assert not BrokerConnection.objects.filter(user_id=own.user_id).exists()
    assert Trade.objects.exists(), "those of others stay"
    assert desk.complaints == []
    desk.page.close()
