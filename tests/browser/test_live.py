"""Pages that follow what happens, in a real browser."""

from __future__ import annotations

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import Browser, Page, expect

import jobs
from jobs.models import Job
from tests.browser.asgi import AsgiServer
from tests.browser.conftest import Site
from tests.browser.filling import drive
from tests.browser.looking import complaints
from tests.specimens.handlers import Echo

pytestmark = [pytest.mark.browser, pytest.mark.differing, pytest.mark.django_db(transaction=True)]


BEATS = """
async (n) => {
  const url = new URL(location.href);
  url.searchParams.set("_stream", 2);
  const own = new EventSource(url);
  await new Promise((done) => own.addEventListener("stale", () => { if (n-- === 0) done(); }));
  own.close();
}
"""
"""So many looks of the server have gone by."""


def wait_for(page: Page, state: str) -> None:
    """The mark at the top says so."""
    page.locator(f".jd-live[data-state={state}]").wait_for()


def test_a_batch_is_followed_to_its_end(browser: Browser, own_site: Site) -> None:
    with jobs.batch("Followed") as batch:
        for n in range(10):
            batch.add(Echo(text=str(n)))
    members = list(Job.objects.filter(batch_id=batch.id).order_by("id"))
    for job in members[:6]:
        drive(job.pk)
    context = own_site.visitor(browser)
    page = context.new_page()
    found = complaints(page)
    page.goto(f"{own_site.url}/admin/jobs/batch/{batch.id}/change/")
    wait_for(page, "polling")
    percent = page.locator("[data-jd-percent]")
    assert percent.inner_text() == "60%"
    for job in members[6:8]:
        drive(job.pk)
    page.locator("[data-jd-percent]", has_text="80%").wait_for()
    for job in members[8:]:
        drive(job.pk)
    page.locator("[data-jd-percent]", has_text="100%").wait_for()
    wait_for(page, "finished")
    assert page.locator("[data-jd-announcer]").inner_text() == "100%"
    assert not found
    context.close()


@pytest.mark.parametrize("what", ["summary", "th a"])
def test_what_has_the_keyboard_keeps_it(browser: Browser, own_site: Site, what: str) -> None:
    kept, other = jobs.enqueue(Echo(text="kept")), jobs.enqueue(Echo(text="other"))
    context = own_site.visitor(browser)
    page = context.new_page()
    page.goto(f"{own_site.url}/admin/jobs/job/")
    wait_for(page, "polling")
    has_it = page.locator("tr[data-jd-row]", has=page.locator(f"#menu-{kept.id}")).locator(what)
    has_it.first.focus()
    page.evaluate("document.activeElement.setAttribute('data-old', '')")
    drive(other.id)
    page.locator("[data-old]").wait_for(state="detached")
    expect(has_it.first).to_be_focused()
    context.close()


def test_the_mark_tells_when_the_network_is_gone(browser: Browser, own_site: Site) -> None:
    context = own_site.visitor(browser)
    page = context.new_page()
    page.goto(f"{own_site.url}/admin/jobs/job/{own_site.ids['running']}/change/")
    wait_for(page, "polling")
    context.set_offline(True)
    wait_for(page, "offline")
    context.set_offline(False)
    wait_for(page, "polling")
    page.locator(".jd-live").click()
    wait_for(page, "stopped")
    context.close()


def test_a_batch_is_followed_over_a_stream(
    browser: Browser, streaming: tuple[Site, AsgiServer]
) -> None:
    site, _ = streaming
    with jobs.batch("Followed") as batch:
        for n in range(10):
            batch.add(Echo(text=str(n)))
    members = list(Job.objects.filter(batch_id=batch.id).order_by("id"))
    context = site.visitor(browser)
    page = context.new_page()
    found = complaints(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site.url}/admin/jobs/batch/{batch.id}/change/")
    wait_for(page, "live")
    percent = page.locator("[data-jd-percent]")
    assert percent.inner_text() == "0%"
    for job in members[:7]:
        drive(job.pk)
    page.locator("[data-jd-percent]", has_text="70%").wait_for()
    for job in members[7:]:
        drive(job.pk)
    page.locator("[data-jd-percent]", has_text="100%").wait_for()
    wait_for(page, "finished")
    assert len([url for url in asked if "_stream=" in url]) == 1
    assert not found
    context.close()


def test_nothing_is_asked_for_where_nothing_changes(
    browser: Browser, streaming: tuple[Site, AsgiServer]
) -> None:
    site, _ = streaming
    context = site.visitor(browser)
    page = context.new_page()
    page.goto(f"{site.url}/admin/jobs/job/{site.ids['scheduled']}/change/")
    wait_for(page, "live")
    asked: list[str] = []
    page.on("request", lambda r: asked.append(r.url) if "_fragment=" in r.url else None)
    page.evaluate(BEATS, 2)
    assert asked == []
    jobs.cancel(site.ids["scheduled"], by="ada", reason="no")
    wait_for(page, "finished")
    assert len(asked) == 1
    context.close()


def test_the_mark_turns_when_the_server_dies_and_when_it_comes_back(
    browser: Browser, streaming: tuple[Site, AsgiServer]
) -> None:
    site, server = streaming
    context = site.visitor(browser)
    page = context.new_page()
    page.goto(f"{site.url}/admin/jobs/overview/")
    wait_for(page, "live")
    server.stop()
    wait_for(page, "offline")
    server.start()
    wait_for(page, "live")
    context.close()


def test_a_session_that_ends_ends_the_stream(
    browser: Browser, streaming: tuple[Site, AsgiServer]
) -> None:
    site, _ = streaming
    context = site.visitor(browser)
    page = context.new_page()
    page.goto(f"{site.url}/admin/jobs/overview/")
    wait_for(page, "live")
    Session.objects.all().delete()
    wait_for(page, "offline")
    context.close()


def test_the_mark_says_nothing_where_no_script_runs(browser: Browser, own_site: Site) -> None:
    context = own_site.visitor(browser)
    context.route("**/live*.js", lambda route: route.abort())
    page = context.new_page()
    page.goto(f"{own_site.url}/admin/jobs/overview/")
    assert not page.locator(".jd-live").is_visible()
    context.close()


def test_colours_of_the_dark_hold_in_every_table(browser: Browser, own_site: Site) -> None:
    """Tokens stand on the root, so that cells of a theme's tables have them, too."""
    found = []
    for dark in (False, True):
        context = own_site.visitor(browser, dark=dark)
        page = context.new_page()
        page.goto(f"{own_site.url}/admin/jobs/job/")
        found.append(page.evaluate(
            "getComputedStyle(document.body).getPropertyValue('--jd-red')").strip())  # fmt: skip
        context.close()
    assert all(found) and found[0] != found[1]
