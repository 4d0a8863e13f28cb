"""Addresses of pages that nobody's link has: they lead nowhere, and crash nothing."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from jobs.admin.acting import Acting

pytestmark = pytest.mark.django_db
KEYS = ["%00", "zz", "9" * 40]


def pages() -> list[str]:
    """The addresses of all lists whose rows have pages or acts."""
    found = [
        (page.admin_site.name, page.view_name("changelist"))
        for page in admin.site._registry.values()
        if isinstance(page, Acting)
    ]
    return sorted(reverse(f"{site}:{view}") for site, view in found)


@pytest.mark.parametrize("address", pages())
def test_what_is_in_no_link_leads_nowhere(admin_client: Client, address: str) -> None:
    names = ("q", "state", "page")
    for key in KEYS:
        for path in (
            f"{address}{key}/change/",
            f"{address}{key}/do/retry/",
            f"{address}do/{key}/",
            *(f"{address}?{name}={key}" for name in names),
        ):
            answer = admin_client.get(path, follow=True)
            assert answer.status_code < 500, path
