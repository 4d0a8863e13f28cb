"""The gateway's pages in a real browser: nothing is complained about, nothing leaves the page."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connections
from playwright.sync_api import Browser

from emailgw import services
from emailgw.models import OutboxEmail
from jobs.testing import run_jobs
from tests.browser.conftest import Site, browser, served
from tests.emailgw import factories
from tests.emailgw.sink import Sink

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def work() -> None:
    run_jobs()
    connections.close_all()


@pytest.fixture
def site(sink: Sink) -> Iterator[Site]:
    company = factories.company()
    with served() as made:
        html = "<h1>Invoice</h1><p>Pay <b>now</b></p><p><a href='https://x.test/'>here</a></p>"
        services.accept(company, factories.request(html=html, tags=["invoice"]), by="shop")
        with ThreadPoolExecutor(1) as pool:  # this thread has the loop of the browser
            pool.submit(work).result()
        services.add_suppression(company.pk, "bob@customers.test", by="tests", reason="asked")
        yield made


def test_pages_are_quiet_and_the_preview_is_shut_in(
    site: Site, browser: Browser, tmp_path: Path
) -> None:
    context = site.visitor(browser)
    page = context.new_page()
    found: list[str] = []
    page.on("console", lambda m: found.append(m.text) if m.type in ("error", "warning") else None)
    page.on("request", lambda r: None if r.url.startswith(site.url) else found.append(r.url))
    page.on("response", lambda r: found.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    email = OutboxEmail.objects.get()
    assert email.status == "SENT"
    for name, path in (
        ("emails", "emailgw/outboxemail/"), ("email", f"emailgw/outboxemail/{email.pk}/change/"),
        ("company", f"emailgw/company/{email.company_id}/change/"),
        ("suppressions", "emailgw/suppression/"), ("job", f"jobs/job/{email.pk}/change/"),
    ):  # fmt: skip
        page.goto(f"{site.url}/admin/{path}", wait_until="networkidle")
        if name == "email":
            inner = page.frame_locator("iframe")
            page.locator("iframe").scroll_into_view_if_needed()
            assert inner.locator("h1").inner_text() == "Invoice"
        page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
        assert "a***@c***.test" in page.content() or name in ("company", "suppressions")
    context.close()
    assert found == []
