"""Every screen in a real browser: no error, no violation, nothing wider than the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import django
import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page
from pytest_django.live_server_helper import LiveServer

from jobs.models import Job
from tests.admin.screens import screens
from tests.browser.filling import _drive, fill

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(500),
]
THEME = "unfold" if apps.is_installed("unfold") else "stock"
PICTURES = Path("build/screenshots") / f"{THEME}-{django.VERSION[0]}.{django.VERSION[1]}"
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
}


def context_of(browser: Browser, server: LiveServer, dark: bool, width: int) -> BrowserContext:
    """A logged-in visitor with this taste and this screen."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light",
        locale="en-GB",
    )  # fmt: skip
    context.route("**/favicon.ico", lambda route: route.fulfill(status=204))
    client = Client()
    client.force_login(User.objects.get(username="root"))
    context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value,
                          "url": server.url}])  # fmt: skip
    return context


def complaints(page: Page) -> list[str]:
    """What the browser complains about from now on."""
    found: list[str] = []
    page.on("console", lambda m: found.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("response", lambda r: found.append(f"{r.status} {r.url}") if r.status >= 400 else None)
    return found


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_screen(browser: Browser, live_server: LiveServer, dark: bool, width: int) -> None:
    ids = fill()
    context = context_of(browser, live_server, dark, width)
    wrong: list[str] = []
    for name, path in screens(ids).items():
        page = context.new_page()
        found = complaints(page)
        page.goto(f"{live_server.url}/admin/jobs/{path}", wait_until="load")
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            wrong.append(f"{name}: {wide} px too wide")
        for violation in Axe().run(page, context=".jd", options=RULES).response["violations"]:
            nodes = [
                n["html"][:160] + " :: " + n["failureSummary"][-200:].replace("\n", " ")
                for n in violation["nodes"][:2]
            ]
            wrong.append(f"{name}: {violation['id']} {nodes}")
        wrong += [f"{name}: {one}" for one in found]
        folder = PICTURES / f"{'dark' if dark else 'light'}-{width}"
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}.png", full_page=True)
        page.close()
    context.close()
    assert not wrong, "\n".join(wrong)


def test_a_batch_is_followed_to_its_end(browser: Browser, live_server: LiveServer) -> None:
    ids = fill()
    context = context_of(browser, live_server, False, 1440)
    page = context.new_page()
    found = complaints(page)
    page.goto(f"{live_server.url}/admin/jobs/batch/{ids['batch']}/change/")
    pill = page.locator(".jd-live")
    pill.and_(page.locator("[data-state=live]")).wait_for()
    assert page.locator("[data-jd-percent]").inner_text() == "60 %"
    left: list[Any] = list(Job.objects.filter(batch_id=ids["batch"]).exclude(state="succeeded"))
    for job in left[:4]:
        _drive(job.pk)
    page.locator("[data-jd-percent]", has_text="80 %").wait_for()
    for job in left[4:]:
        _drive(job.pk)
    page.locator("[data-jd-percent]", has_text="100 %").wait_for()
    pill.and_(page.locator("[data-state=finished]")).wait_for()
    assert page.locator("[data-jd-announcer]").inner_text() == "100 %"
    assert not found
    context.close()


def test_the_pill_tells_when_the_server_is_gone(browser: Browser, live_server: LiveServer) -> None:
    ids = fill()
    context = context_of(browser, live_server, False, 1440)
    page = context.new_page()
    page.goto(f"{live_server.url}/admin/jobs/job/{ids['running']}/change/")
    pill = page.locator(".jd-live")
    pill.and_(page.locator("[data-state=live]")).wait_for()
    context.set_offline(True)
    pill.and_(page.locator("[data-state=error]")).wait_for()
    context.set_offline(False)
    pill.and_(page.locator("[data-state=live]")).wait_for()
    pill.click()
    assert pill.get_attribute("data-state") == "paused"
    context.close()
