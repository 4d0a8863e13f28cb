"""A platform on its first day: every list says that there is nothing, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser
from pytest_django.live_server_helper import LiveServer

from tests.admin.screens import EMPTY, IDS, NAMES, screens
from tests.browser.conftest import Site
from tests.browser.looking import check

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def bare(browser: Browser, transactional_db: None) -> Iterator[Site]:
    User.objects.create_superuser("root", password="let me in please")
    server = LiveServer("localhost")
    yield Site(server.url, {})
    server.stop()


def test_lists_of_nothing(browser: Browser, bare: Site) -> None:
    context = bare.visitor(browser)
    paths = screens(dict.fromkeys(IDS, ""))
    for name in EMPTY:
        assert name in NAMES
        check(context, bare, f"jobs/{paths[name]}", f"empty-{name}.png")
    context.close()
