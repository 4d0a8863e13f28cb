"""The page for uploads in a real browser, on a real server with real workers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import browser
from tests.browser.looking import PICTURES, RULES, complaints
from tests.fileproc import documents
from tests.fileproc.site import FAST, Site
from tests.integration.fleet import Fleet
from tests.wait import wait_until

__all__ = ["browser"]  # a fixture
PATIENCE = 120_000


def folder_of(root: Path, count: int) -> Path:
    """A folder with documents in folders, one that is broken, and one that is left out."""
    folder = root / "papers"
    for n in range(count):
        place = folder / f"part{n % 3}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"note{n}.md").write_text(f"# Note {n}\n\nThe lamp number {n} burns.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    (folder / "keeper.pdf").write_bytes(documents.pdf())
    (folder / "program.exe").write_bytes(b"MZ")
    return folder


def log_in(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/uploads/")
    page.get_by_label("Username").fill("ana")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("Please enter a correct username and password")).to_be_visible()
    page.get_by_label("Username").fill("ana")
    page.get_by_label("Password").fill("lighthouse")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("There is no upload yet.")).to_be_visible()


@pytest.mark.parametrize(
    ("width", "count"),
    [
        pytest.param(390, 60, marks=pytest.mark.browser),
        pytest.param(1440, 600, marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
    ],
)
def test_a_folder_is_uploaded_again_after_a_reload_and_searched(
    browser: Browser, fleet: Fleet, tmp_path: Path, width: int, count: int
) -> None:
    site = Site(fleet, tmp_path, debug="on", settings=FAST)
    site.worker()
    folder = folder_of(tmp_path, count)
    context = browser.new_context(viewport={"width": width, "height": 900}, locale="en-GB")
    context.set_default_timeout(30_000)
    page = context.new_page()
    found = complaints(page)
    log_in(page, site)
    page.locator("#folder").set_input_files(folder)
    page.get_by_text("left out").wait_for()
    wait_until(lambda: page.evaluate("document.getElementById('bar').value") > 8)
    page.reload()  # in the middle of it
    page.locator("#folder").set_input_files(folder)
    patience = PATIENCE * count / 60
    expect(page.locator("#told")).to_contain_text("Everything has been uploaded", timeout=patience)
    batches = page.locator("#batches summary")
    expect(batches).to_have_count(-(-(count + 2) // 500))
    for summary in batches.all():
        expect(summary).to_contain_text(re.compile(r"(\d+) / \1\b"), timeout=patience)
    summary = batches.filter(has_text="1 failed")
    if count == 60:
        expect(summary).to_contain_text("62 / 62")
        expect(summary).to_contain_text("61 ready")
    summary.click()
    expect(page.get_by_text("the document is damaged and cannot be read (DAMAGED)")).to_be_visible()
    page.get_by_label("What to look for").fill("who repairs the lamp before a storm?")
    page.locator("#search button").click()
    hit = page.locator("#hits li").first
    # The first search loads the model.
    expect(hit).to_contain_text("keeper.pdf · page 1", timeout=PATIENCE)
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"fileproc-{width}-{count}.png", full_page=True)
    wrong = [one["id"] for one in Axe().run(page, options=RULES).response["violations"]]
    context.close()
    assert wide <= 0
    assert wrong == []
    assert found == []
    rows = fleet.query("SELECT status, count(*) FROM fileproc_file GROUP BY 1 ORDER BY 1")
    assert rows == [("failed", 1), ("ready", count + 1)]
    assert fleet.value("SELECT count(DISTINCT (path, name)) FROM fileproc_file") == count + 2


@pytest.mark.browser
def test_what_could_not_be_uploaded_is_named_and_goes_up_the_next_time(
    browser: Browser, fleet: Fleet, tmp_path: Path
) -> None:
    site = Site(fleet, tmp_path, debug="on", settings=FAST)
    folder = folder_of(tmp_path, 2)
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    log_in(page, site)
    problem = '{"detail": "the disk is full"}'
    page.route("**/blobs/**", lambda route: route.fulfill(status=507, body=problem))
    page.locator("#folder").set_input_files(folder)
    left, told = page.locator("#left"), page.locator("#told")
    expect(told).to_contain_text("4 could not be uploaded", timeout=PATIENCE)
    left.locator("summary").click()
    expect(left).to_contain_text("papers/keeper.pdf: the disk is full")
    expect(left).to_contain_text("papers/program.exe: this type is not read")
    page.unroute("**/blobs/**")
    page.locator("#folder").set_input_files(folder)
    expect(told).to_contain_text("Everything has been uploaded", timeout=PATIENCE)
    expect(left.locator("li")).to_have_count(1)
    context.close()
    assert fleet.value("SELECT count(*) FROM fileproc_file WHERE status = 'queued'") == 4


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_a_document_is_reprocessed_replaced_and_deleted(
    browser: Browser, fleet: Fleet, tmp_path: Path, width: int, scheme: Any
) -> None:
    site = Site(fleet, tmp_path, debug="on", settings=FAST)
    site.worker()
    old, new = tmp_path / "duties.md", tmp_path / "rules.md"
    old.write_text("# Duties\n\nThe keeper lights the lamp at dusk.\n")
    new.write_text("# Rules\n\nNobody may row to the island in fog.\n")
    context = browser.new_context(
        viewport={"width": width, "height": 900}, locale="en-GB", color_scheme=scheme
    )
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    found = complaints(page)
    log_in(page, site)
    page.locator("#files").set_input_files(old)
    first = page.locator("#batches details").first
    expect(first.locator("summary")).to_contain_text("1 ready", timeout=PATIENCE)
    first.locator("summary").click()
    item = page.locator("#batches li").filter(has_text="duties.md")
    item.get_by_role("button", name="Reprocess").click()
    expect(page.locator("#told")).to_contain_text("has been processed again", timeout=PATIENCE)
    assert fleet.query("SELECT generation, status FROM fileproc_file") == [(2, "ready")]
    with page.expect_file_chooser() as chosen:
        item.get_by_role("button", name="Replace").click()
    chosen.value.set_files(new)
    expect(page.locator("#batches summary").first).to_contain_text("1 ready", timeout=PATIENCE)
    expect(item).to_have_count(0)
    page.get_by_label("What to look for").fill("may I row in fog?")
    page.locator("#search button").click()
    expect(page.locator("#hits li")).to_have_count(1, timeout=PATIENCE)
    expect(page.locator("#hits li")).to_contain_text("rules.md · Rules")
    page.locator("#batches summary").first.click()
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"fileproc-{width}-{scheme}.png", full_page=True)
    wrong = [one["id"] for one in Axe().run(page, options=RULES).response["violations"]]
    item = page.locator("#batches li").filter(has_text="rules.md")
    item.get_by_role("button", name="Delete").click()
    expect(item).to_have_count(0)
    context.close()
    assert (wide <= 0, wrong, found) == (True, [], [])
    wait_until(lambda: fleet.query("SELECT id FROM fileproc_file") == [], 60)


@pytest.mark.browser
def test_everything_can_be_done_by_keyboard(browser: Browser, fleet: Fleet, tmp_path: Path) -> None:
    site = Site(fleet, tmp_path, debug="on", settings=FAST)
    site.worker()
    (note := tmp_path / "duties.md").write_text("# Duties\n\nThe keeper lights the lamp.\n")
    context = browser.new_context(locale="en-GB")
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    log_in(page, site)
    page.reload()

    def tab_to(name: str) -> None:
        """Press Tab until what has the focus says so."""
        seen = []
        for _ in range(40):
            page.keyboard.press("Tab")
            text = page.evaluate(
                "(e => e.ariaLabel || e.closest('label')?.textContent || e.textContent)"
                "(document.activeElement)"
            )
            seen.append(text.strip()[:40])
            if name in text:
                return
        raise AssertionError(f"{name!r} cannot be reached: {seen}")

    tab_to("Choose files")
    with page.expect_file_chooser() as chosen:
        page.keyboard.press("Enter")
    chosen.value.set_files(note)
    expect(page.locator("#batches summary")).to_contain_text("1 ready", timeout=PATIENCE)
    tab_to("1 ready")
    page.keyboard.press("Enter")
    expect(page.locator("#batches li")).to_contain_text("duties.md")
    page.locator("h1").click()
    tab_to("What to look for")
    page.keyboard.type("who lights the lamp?")
    page.keyboard.press("Enter")
    expect(page.locator("#hits li")).to_contain_text("duties.md · Duties", timeout=PATIENCE)
    tab_to("Delete")
    page.keyboard.press("Enter")
    expect(page.locator("#batches li")).to_have_count(0)
    context.close()


LANGUAGES = {
    "en-GB": ("Your uploads", "ready", "is damaged"),
    "it-IT": ("I tuoi caricamenti", "pront", "è danneggiato"),
    "pt-BR": ("Seus envios", "pront", "está danificado"),
}  # fmt: skip


@pytest.mark.browser
def test_the_page_speaks_three_languages_in_every_look(
    browser: Browser, fleet: Fleet, tmp_path: Path
) -> None:
    site = Site(fleet, tmp_path, debug="on", settings=FAST)
    site.worker()
    folder = folder_of(tmp_path, 2)
    with browser.new_context(locale="en-GB") as context:
        context.set_default_timeout(30_000)
        page = context.new_page()
        log_in(page, site)
        page.locator("#folder").set_input_files(folder)
        expect(page.locator("#batches summary")).to_contain_text("4 / 4", timeout=PATIENCE)
        cookies = context.cookies()
    PICTURES.mkdir(parents=True, exist_ok=True)
    for locale, (heading, ready, damaged) in LANGUAGES.items():
        for width, scheme in ((1440, "light"), (390, "dark")):
            look: Any = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
            with browser.new_context(locale=locale, **look) as context:
                context.add_cookies(cookies)  # type: ignore[arg-type]
                page = context.new_page()
                found = complaints(page)
                page.goto(f"{site.url}/uploads/")
                expect(page.get_by_role("heading", name=heading)).to_be_visible()
                page.locator("#batches summary").click()
                expect(page.locator("#batches li").first).to_contain_text(ready)
                expect(page.locator("#batches li .bad").last).to_contain_text(damaged)
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                page.screenshot(
                    path=PICTURES / f"fileproc-{locale}-{width}-{scheme}.png", full_page=True
                )
                wrong = Axe().run(page, options=RULES).response["violations"]
                assert (wide <= 0, [one["id"] for one in wrong], found) == (True, [], [])
