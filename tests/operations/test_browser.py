"""The pages in a real browser: nothing is complained about, and the decisions are clicked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.conf import settings as django_settings
from playwright.sync_api import Browser, BrowserContext, Page
from pytest_django import DjangoDbBlocker

from config.standins.erp.server import Erp
from jobs.models import Audit, Effect
from operations.models import Agent, Operation, Outcome, Phase, SyncRun
from tests.browser.conftest import Site, browser
from tests.browser.looking import check, complaints, filled, looker, marked, violations, visitor
from tests.operations.filling import DIFFERING, NAMES, fill, screens

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


@pytest.fixture
def page(visitor: BrowserContext) -> Iterator[Page]:
    made = visitor.new_page()
    yield made
    made.close()


@pytest.mark.parametrize("name", marked(NAMES, DIFFERING))
def test_a_screen(looker: BrowserContext, site: Site, name: str) -> None:
    content = check(looker, site, screens(site.ids)[name], f"operations-{name}.png")
    assert "Rossi" not in content


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ("In the way", "New agent")),
        ("it", ("Che cosa lo ferma", "Nuovo agente")),
        ("pt-BR", ("O que o impede", "Novo agente")),
    ],
)
def test_the_pages_speak_the_language_of_the_visitor(
    page: Page, site: Site, language: str, words: tuple[str, ...]
) -> None:
    cookie: Any = {"name": "django_language", "value": language.lower(), "url": site.url}
    page.context.add_cookies([cookie])
    found = complaints(page)
    page.goto(f"{site.url}/admin/operations/agent/", wait_until="load")
    content = page.inner_text("body")
    wrong = violations(page)
    page.context.clear_cookies(name="django_language")
    assert [one for one in words if one.lower() not in content.lower()] == []
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
