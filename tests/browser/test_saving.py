"""A view is kept by whoever asks for it, and is there when he comes back."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Site

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_view_is_saved_and_opened(browser: Browser, own_site: Site) -> None:
    context = own_site.visitor(browser)
    page = context.new_page()
    page.goto(f"{own_site.url}/admin/jobs/job/?q=kind:test.noop&tab=scheduled")
    page.get_by_role("link", name="Save view…").click()
    page.get_by_label("Name").fill("What is to come")
    page.get_by_role("button", name="Save view").click()
    here = page.locator(".jd-views a[aria-current=page]")
    assert "What is to come" in here.inner_text()
    page.goto(f"{own_site.url}/admin/jobs/job/")
    page.get_by_role("link", name="What is to come").click()
    assert page.locator("input[name=q]").input_value() == "kind:test.noop"
    assert page.locator(".jd-tabs a[aria-current]").inner_text().startswith("Scheduled")
    context.close()
