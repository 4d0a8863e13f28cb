"""``manage.py jobs run --web``: what the web server lacks is said before anything starts."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from jobs.cli import web


def test_a_missing_application_is_named_with_that_of_the_project(settings: Any) -> None:
    settings.ASGI_APPLICATION = None
    settings.ROOT_URLCONF = "shop.urls"
    with pytest.raises(CommandError, match=r"ASGI_APPLICATION, such as 'shop\.asgi\.application'"):
        call_command("jobs", "run", "--web=127.0.0.1:1")


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def statuses(app: Any, path: str) -> list[int]:
    """Return the status of a GET of the path."""
    asked: list[dict[str, Any]] = [{"type": "http.request", "body": b""}]
    told: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return asked.pop() if asked else await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"",
             "headers": [(b"host", b"localhost")]}  # fmt: skip
    await app(scope, receive, send)
    return [message["status"] for message in told if "status" in message]


def test_static_files_are_served_with_debug_only(settings: Any) -> None:
    name = f"{__name__}.application"
    settings.DEBUG = True
    assert asyncio.run(statuses(web.served(name), "/static/nothing.css")) == [404]
    assert asyncio.run(statuses(web.served(name), "/jobs/")) == [418]
    settings.DEBUG = False
    assert web.served(name) == f"{__name__}:application"


def test_an_address_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"another program listens at 127.0.0.1:{port}"):
            call_command("jobs", "run", f"--web={port}")
