"""What every test of outgoing calls starts from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jobs import http
from tests.http import servers

Send = Callable[..., http.Response]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.World]:
    with servers.world(monkeypatch) as made:
        yield made


@pytest.fixture(params=["sync", "async"])
def send(request: pytest.FixtureRequest, world: servers.World) -> Send:
    """Makes one call in this world, by either client: ``send("GET", url, total=1, headers={})``."""
    ours = {"headers", "auth", "total", "connect", "step", "max_bytes", "redirects", "resolver"}

    def split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        client = {name: value for name, value in options.items() if name in ours}
        rest = {name: value for name, value in options.items() if name not in ours}
        return {**world.options, **client}, rest

    def in_line(method: str, url: str, **options: Any) -> http.Response:
        client, rest = split(options)
        with http.client(**client) as one:
            return one.request(method, url, **rest)

    def in_loop(method: str, url: str, **options: Any) -> http.Response:
        client, rest = split(options)

        async def run() -> http.Response:
            async with http.async_client(**client) as one:
                return await one.request(method, url, **rest)

        return asyncio.run(run())

    return in_line if request.param == "sync" else in_loop
