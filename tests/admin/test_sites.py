"""The pages on an admin site of the project's own."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.sites import AdminSite
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import path

import jobs.admin
from tests.admin.screens import NAMES, screens

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def urls() -> ModuleType:
    """A URLconf without the default site."""
    desk = AdminSite(name="desk")
    jobs.admin.register(desk, "emailgw")
    found: Any = ModuleType("urls_of_desk")
    found.urlpatterns = [path("desk/", desk.urls)]
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_every_screen_works_and_links_to_its_own_site(
    urls: ModuleType, ids: dict[str, Any], client: Client, name: str
) -> None:
    with override_settings(ROOT_URLCONF=urls):
        client.force_login(User.objects.get(username="root"))
        answer = client.get(f"/desk/jobs/{screens(ids)[name]}")
    assert answer.status_code == 200
    assert not re.findall(r'(?:href|action)="/admin/', answer.content.decode())


def test_the_index_names_the_pages_of_the_given_apps(
    urls: ModuleType, ids: dict[str, Any], client: Client
) -> None:
    with override_settings(ROOT_URLCONF=urls):
        client.force_login(User.objects.get(username="root"))
        text = client.get("/desk/").content.decode()
    assert "/desk/jobs/job/" in text and "/desk/emailgw/" in text
    assert "/publisher/" not in text


def test_registering_twice_changes_nothing() -> None:
    desk = AdminSite(name="desk")
    jobs.admin.register(desk)
    before = dict(desk._registry)
    jobs.admin.register(desk)
    assert desk._registry == before
    assert set(desk._registry) < set(admin.site._registry)
