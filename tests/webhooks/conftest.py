"""A receiver on loopback, and webhooks that may reach it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs import webhooks
from jobs.engine import outbox
from jobs.engine import webhooks as engine
from jobs.models import WebhookDelivery
from jobs.operate import webhooks as desk
from tests.http.servers import Reply, Server, answer
from tests.privacy import vault

PATH = "/hook"


class Receiver:
    """What came in, and what is answered; verifies by the secret as a receiver would."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.say(answer())
        self.url = f"http://127.0.0.1:{server.port}{PATH}"

    def say(self, reply: Reply) -> None:
        """Every delivery is answered so from now on."""
        self.server.replies[PATH] = reply

    @property
    def bodies(self) -> list[bytes]:
        return [data.partition(b"\r\n\r\n")[2] for data in self.server.seen]

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]

    def verified(self, secret: str | list[str], number: int = -1) -> dict[str, Any]:
        header = self.server.headers(number)["x-signature"]
        return webhooks.verify(self.bodies[number], header, secret, None)


@pytest.fixture
def on(settings: Any) -> Iterator[Any]:
    """Webhooks are on, and may reach this machine."""
    settings.JOBS = {**vault.KEYS, "WEBHOOKS": True, "HTTP_ALLOW": ["127.0.0.0/8"]}
    engine.register()
    yield settings
    engine.unregister()


@pytest.fixture
def receiver(on: Any) -> Iterator[Receiver]:
    server = Server()
    yield Receiver(server)
    server.close()


@pytest.fixture
def webhook(receiver: Receiver) -> desk.Made:
    """A webhook of acme's for everything that it is told."""
    return desk.create(receiver.url, tenant="acme", by="test", reason="test")


@pytest.fixture
def tell() -> Callable[..., UUID]:
    """Tells an event and relays it."""

    def emit(topic: str = "order.paid", key: str = "", tenant: str = "acme", **data: Any) -> UUID:
        found = jobs.emit(topic, data, key=key, tenant=tenant)
        while outbox.relay_once().moved:
            pass
        return found

    return emit


def the_delivery() -> WebhookDelivery:
    """The only one."""
    return WebhookDelivery.objects.get()
