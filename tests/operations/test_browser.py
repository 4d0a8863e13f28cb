"""The pages in a real browser: nothing is complained about, and the decisions are clicked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.utils.translation import gettext, override
from playwright.sync_api import Browser, BrowserContext, Page, expect
from pytest_django import DjangoDbBlocker

from config.standins.erp.server import Erp
from jobs.models import Audit, Effect
from operations.models import Agent, Operation, Outcome, Phase, SyncRun
from tests.browser.conftest import Site, browser
from tests.browser.looking import check, complaints, filled, looker, marked, violations, visitor
from tests.operations.factories import order
from tests.operations.filling import DIFFERING, NAMES, fill, screens
from tests.operations.front import REASON, WAIT, Front
from tests.operations.office import Office

__all__ = ["browser", "looker", "visitor"]  # fixtures
pytestmark = [pytest.mark.browser, pytest.mark.django_db]


@pytest.fixture(scope="module")
def site(
    browser: Browser, django_db_blocker: DjangoDbBlocker, tmp_path_factory: Any
) -> Iterator[Site]:
    """One server and one filling for all tests."""
    folder = tmp_path_factory.mktemp("erp")
    erp = Erp(folder / "erp")
    erp.start()
    calls = {"ERP_URL": erp.url, "EXPORTS": str(folder / "exports"), "CALL_TIMEOUT": 3}
    platform = {
        **django_settings.JOBS, "HTTP_ALLOW": ["127.0.0.0/8"],
        "BLOBS": {"STORE": "local", "ROOT": str(folder / "blobs")},
    }  # fmt: skip
    with filled(django_db_blocker, partial(fill, erp), OPERATIONS=calls, JOBS=platform) as found:
        yield found
    erp.stop()


SPOKEN = {
    "agents": ("In the way", "New agent…", "a write"),
    "agent-new": ("Small letters, digits and hyphens. It never changes.",),
    "operation-doubt": ("Job, and reference in the ERP",),
    "run-held": ("Deletions that are held",),
    "customer": ("Values",),
}
"""Words of some pages, in the language of the visitor, that stay when something is decided."""


@pytest.fixture
def page(visitor: BrowserContext) -> Iterator[Page]:
    made = visitor.new_page()
    yield made
    made.close()


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
def test_a_screen(looker: BrowserContext, site: Site, name: str) -> None:
    content = check(looker, site, screens(site.ids)[name], f"operations-{name}.png")
    assert "Rossi" not in content


@pytest.mark.parametrize("language", ["en", "it", "pt-BR"])
def test_the_pages_speak_the_language_of_the_visitor(page: Page, site: Site, language: str) -> None:
    cookie: Any = {"name": "django_language", "value": language.lower(), "url": site.url}
    page.context.add_cookies([cookie])
    found = complaints(page)
    wrong = []
    for name, words in SPOKEN.items():
        page.goto(f"{site.url}/admin/{screens(site.ids)[name]}", wait_until="load")
        content = page.inner_text("body").lower()
        for text in words:
            with override(language):
                said = gettext(text)
            assert (said == text) == (language == "en"), text
            wrong += [] if said.lower() in content else [said]
        wrong += violations(page)
    page.context.clear_cookies(name="django_language")
    assert wrong == [] and found == []


def answer(page: Page, **fields: str) -> None:
    """Fill in the page that asks, and send it."""
    for label, value in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(value)
    page.get_by_label("Reason").fill("spoke with the customer")
    page.locator(".jd form button[type=submit], .jd form .jd-btn-primary").first.click()
    page.wait_for_load_state("load")


def decided(action: str, id: Any) -> bool:
    """Whether it was done, and written down with its reason."""
    rows = Audit.objects.filter(action=action, target_id=str(id), outcome="done", actor="root")
    return list(rows.values_list("reason", flat=True)) == ["spoke with the customer"]


def test_a_doubt_is_decided(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/admin/operations/operation/?state=in_doubt")
    page.locator(f'[data-jd-row] th a[href*="{site.ids["doubt"]}"]').click()
    page.get_by_role("link", name="The ERP has it…").click()
    answer(page, Number_in_the_ERP="4799")
    row = Operation.objects.get(pk=site.ids["doubt"])
    assert (row.phase, row.erp_id) == (Phase.ERP_SAVE_DONE, "4799")
    assert decided("operation.resolve", row.pk)


def test_a_doubt_is_decided_the_other_way(page: Page, site: Site) -> None:
    id = site.ids["lost"]
    page.goto(f"{site.url}/admin/operations/operation/?state=in_doubt")
    page.locator(f'[data-jd-row] th a[href*="{id}"]').click()
    page.get_by_role("link", name="The ERP does not have it…").click()
    assert str(id) in page.inner_text(".jd")  # what to search for there
    answer(page)
    assert decided("operation.resolve", id)
    assert Effect.objects.get(job_id=id).state == "failed"


def test_a_mismatch_is_accepted(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/admin/operations/operation/{site.ids['mismatch']}/change/")
    assert "57.69 → 0.01" in page.inner_text(".jd")
    page.get_by_role("link", name="Accept the ERP's values…").click()
    answer(page)
    row = Operation.objects.get(pk=site.ids["mismatch"])
    assert row.takes_erp_values
    assert decided("operation.resolve", row.pk)


def test_held_deletions_are_rejected(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/admin/operations/syncrun/?state=held")
    page.locator("[data-jd-row] th a").first.click()
    page.get_by_role("link", name="Keep these rows…").click()
    answer(page)
    run = SyncRun.objects.get(pk=site.ids["held"])
    assert run.outcome == Outcome.REJECTED
    assert decided("syncrun.reject", run.pk)


def test_an_agent_is_created_and_paused(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/admin/operations/agent/")
    page.get_by_role("link", name="New agent…").click()
    assert page.get_by_label("Password", exact=True).get_attribute("type") == "password"
    answer(page, Key="dora", Login_of_the_ERP="dora", Password="kept to herself")
    assert page.url.endswith("/agent/dora/change/")
    assert "kept to herself" not in page.content()
    page.get_by_role("link", name="Pause…").click()
    answer(page)
    assert "paused spoke with the customer" in " ".join(page.inner_text(".jd").split())
    assert page.get_by_role("link", name="Resume…").count() == 1
    assert page.get_by_role("link", name="Pause…").count() == 0
    made = Agent.objects.get(pk="dora")
    assert (made.tenant, made.erp_login) == ("agent:dora", "dora")


@pytest.fixture
def front(browser: Browser, office: Office) -> Iterator[Front]:
    """The pages on a server of their own, with workers that call the ERP."""
    office.settings |= {"BREAKER_THRESHOLD": 1, "BREAKER_OPEN_FOR": 5}
    office.dispatcher()
    office.worker()
    office.worker("erp-sync")
    found = Front(office, browser)
    yield found
    found.close()


def test_the_board_follows_what_happens_and_keeps_its_rows_in_place(front: Front) -> None:
    office, page = front.office, front.page
    for agent in ("ada", "bea", "cleo"):
        office.do("create_agent", agent, agent, "secret")
    office.erp.slow = 10.0
    front.board()
    order_of = page.locator("tr[data-jd-row] th a")
    assert order_of.all_inner_texts() == ["ada", "bea", "cleo"]
    # What happens to another agent does not move the row under the pointer.
    stop = front.line("ada").get_by_role("link", name="Stop all…")
    stop.hover()
    where = stop.bounding_box()
    office.erp.script("cleo", "slow_export")
    office.do("sync_now", "cleo", "sync-customers")
    expect(front.line("cleo")).to_contain_text("sync-customers", timeout=WAIT)
    assert order_of.all_inner_texts() == ["ada", "bea", "cleo"]
    assert stop.bounding_box() == where
    # It comes to its place when the pointer has left, and the keyboard stays where it was.
    stop.focus()
    page.mouse.move(0, 0)
    expect(order_of).to_have_text(["cleo", "ada", "bea"], timeout=WAIT)
    expect(front.line("ada").get_by_role("link", name="Stop all…")).to_be_focused()
    # By keyboard alone: to the first row, on to its button, and back to the board.
    expect(front.line("cleo").get_by_role("link", name="Stop sync-customers")).to_be_visible()
    page.keyboard.press("j")
    expect(order_of.first).to_be_focused()
    front.tab_to("Stop…")
    page.keyboard.press("Enter")
    page.wait_for_url("**/do/cancel/")
    page.get_by_label("Reason").focus()
    page.keyboard.type(REASON)
    front.tab_to("Cancel")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/do/" not in url)
    front.board()
    expect(front.line("cleo").locator("td").nth(1)).to_have_text("—", timeout=WAIT)
    assert front.complaints == []


def test_all_that_people_come_for(front: Front) -> None:
    """The nine purposes of the app, one after the other."""
    office, page, erp = front.office, front.page, front.office.erp
    erp.slow = 2.0
    # An agent is created and its login tested.
    front.open("agent/")
    front.press("New agent…", Key="ada", Login_of_the_ERP="ada", Password="secret")
    front.press("Test the login…")
    front.board()
    expect(front.line("ada")).to_contain_text("accepted", timeout=WAIT)
    # Two clicks make one order, which is followed to its number.
    answers = front.send("ada", "submit-order", order("P-1"), times=2)
    assert sorted(answer["deduplicated"] for answer in answers) == [False, True]
    [id] = {answer["jobId"] for answer in answers}
    front.operation(id)
    expect(page.locator(".jd-facts")).to_contain_text("4711", timeout=WAIT)
    expect(page.locator(".jd-facts")).to_contain_text("completed", timeout=WAIT)
    assert office.orders == 1
    # A sync steps aside for an order, and continues; the board shows who runs and who waits.
    erp.script("ada", "slow_export")
    front.open("agent/ada/change/")
    front.press("Sync now…", {"Sync": "sync-customers"})
    front.board()
    expect(front.line("ada")).to_contain_text("sync-customers", timeout=WAIT)
    expect(front.line("ada").get_by_text("Stop…")).to_be_visible()
    front.await_words(front.ask("ada", "submit-order", order("P-2")), "completed", "4712")
    front.open("syncrun/")
    page.locator("[data-jd-row] th a").first.click()
    front.await_words(page.url.split("/")[-3], "completed", "preempted")
    assert office.overlaps() == []
    # The mirror is read, and a delivery note downloaded.
    front.open("customer/")
    page.get_by_role("link", name="C-0001", exact=True).click()
    expect(page.locator(".jd")).to_contain_text("Customer 1")
    note = front.ask("ada", "download-ddt-pdf", {"orderId": "4711", "ddtNumber": "D-4711"})
    front.await_words(note, "completed")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes().startswith(b"%PDF-")
    # While the agent is paused, work waits; some is cancelled, and was not saved.
    front.open("agent/ada/change/")
    front.press("Pause…")
    waiting = front.ask("ada", "submit-order", order("P-3"))
    front.await_words(waiting, "queued", "paused")
    front.press("Cancel…")
    front.await_words(waiting, "cancelled")
    other = front.ask("ada", "submit-order", order("P-4"))
    front.open("agent/ada/change/")
    front.press("Stop all…")
    front.await_words(other, "cancelled")
    front.open("agent/ada/change/")
    front.press("Resume…")
    assert office.orders == 2
    # What has failed says that nothing was saved, and is tried again.
    failed = front.ask("ada", "submit-order", order("P-5", customerId="C-7777"))
    front.await_words(failed, "failed", "unknown_customer")
    erp.book.data["customers"]["C-7777"] = dict(erp.book.data["customers"]["C-0001"])
    front.press("Try again…")
    front.await_words(failed, "completed", "4713")
    # Values that differ are decided.
    erp.script("ada", "wrong_total")
    front.await_words(front.ask("ada", "submit-order", order("P-6")), "57.69 → 0.01")
    front.press("Accept the ERP's values…")
    page.reload()
    expect(page.locator(".jd")).to_contain_text("completed", timeout=WAIT)
    # So is a write of which nobody knows whether it happened, because the ERP cannot be searched.
    erp.can_search = False
    erp.script("ada", "hang_after_save")
    doubt = front.ask("ada", "submit-order", order("P-7"))
    office.await_call("operations", 5)
    front.operation(doubt)
    page.get_by_role("link", name="Cancel…").click()
    page.get_by_label("Kill its process").check()
    front.send_form()
    front.await_words(doubt, "in doubt", "a person decides")
    front.press("The ERP has it…", Number_in_the_ERP="4715")
    erp.can_search = True
    front.await_words(doubt, "completed", "4715")
    # An export without rows deletes nothing until somebody has looked at the rows.
    erp.script("ada", "empty")
    front.open("agent/ada/change/")
    front.press("Sync now…", {"Sync": "sync-customers"})
    front.board()
    front.line("ada").get_by_role("link", name="deletions").click()
    expect(page.locator(".jd")).to_contain_text("C-0029")
    front.press("Keep these rows…")
    # An outage: work waits and continues by itself.
    erp.is_down = True
    last = front.ask("ada", "submit-order", order("P-8"))
    front.board()
    expect(front.line("ada")).to_contain_text("the ERP does not answer", timeout=WAIT)
    erp.is_down = False
    front.await_words(last, "completed", "4716")
    assert office.orders == 6
    assert front.complaints == []
