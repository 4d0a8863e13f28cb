"""A real browser on a real server with a filled database; where one is missing, tests fail."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from pytest_django import DjangoDbBlocker
from pytest_django.live_server_helper import LiveServer

from tests.browser.asgi import AsgiServer
from tests.browser.filling import fill, furnished

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Site:
    """Where the admin is served, and the ids of what it shows."""

    url: str
    ids: dict[str, Any]

    def visitor(
        self, browser: Browser, *, dark: bool = False, width: int = 1440, name: str = "root"
    ) -> BrowserContext:
        """Somebody logged in, with this taste and this screen."""
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            locale="en-GB",
        )
        client = Client()
        client.force_login(User.objects.get(username=name))
        cookie = client.cookies["sessionid"].value
        context.add_cookies([{"name": "sessionid", "value": cookie, "url": self.url}])
        return context


_running: list[Browser] = []


@pytest.fixture(scope="session")
def browser(django_db_setup: None) -> Iterator[Browser]:
    """One for everybody; where another folder has this fixture as well, they share it."""
    if _running:
        yield _running[0]
        return
    # Playwright keeps an event loop on this thread, in which Django would refuse the database;
    # it begins when the database is there, because connections belong to a loop.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        _running.append(running)
        yield running
        _running.clear()
        running.close()
        connections.close_all()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@contextmanager
def served() -> Iterator[Site]:
    """A server of what there is after filling."""
    with furnished():
        ids = fill()
        server = LiveServer("localhost")
        try:
            yield Site(server.url, ids)
        finally:
            server.stop()


@pytest.fixture(scope="module")
def site(browser: Browser, django_db_blocker: DjangoDbBlocker) -> Iterator[Site]:
    """One server and one filling for all tests of a module, none of which changes anything."""
    with django_db_blocker.unblock():
        with served() as found:
            yield found
        call_command("flush", verbosity=0, interactive=False)
        connections.close_all()


@pytest.fixture
def streaming(browser: Browser, transactional_db: None) -> Iterator[tuple[Site, AsgiServer]]:
    """The same by an ASGI server, so that pages are told what changes."""
    server = AsgiServer()
    with furnished():
        server.start()
        try:
            yield Site(server.url, fill()), server
        finally:
            server.stop()


@pytest.fixture
def own_site(browser: Browser, transactional_db: None) -> Iterator[Site]:
    """A server and a filling for a test that changes something."""
    with served() as found:
        yield found
