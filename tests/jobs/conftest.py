"""What every test of the engine starts from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from jobs import conf
from jobs.engine import pushes, rq, wire
from tests.jobs.ports import free_port
from tests.redis import redis_at


@pytest.fixture(autouse=True)
def closed_queues() -> Iterator[None]:
    """No queue is believed to be open, so that jobs are born pending unless a test says else."""
    pushes.open_queues._believed.clear()
    yield
    pushes.open_queues._believed.clear()


@pytest.fixture(autouse=True)
def prompt_wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is pushed has arrived when the commit returns, so that a test can look at once."""
    send = wire.Wire.run

    def send_and_wait(self: wire.Wire, *arguments: Any) -> None:
        send(self, *arguments)
        self.look(wait=True)

    monkeypatch.setattr(wire.Wire, "run", send_and_wait)
    yield
    wire.forget()


@pytest.fixture
def queue() -> Iterator[str]:
    """The name of a queue that is this test's own, also in Redis."""
    name = f"test.{uuid4().hex[:12]}"
    yield name
    rq.client().delete(rq.queue_key(name), rq._seq_key(name), rq._open_key(name))


@pytest.fixture
def set_clock() -> Iterator[Callable[[datetime | None], None]]:
    """Sets the database's clock for this test's connection; None lets it run again."""

    def set_to(moment: datetime | None) -> None:
        text = moment.isoformat() if moment else ""
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('jobs.now', %s, false)", [text])

    yield set_to
    if connection.connection is not None and not connection.needs_rollback:
        set_to(None)


@pytest.fixture
def no_redis() -> Iterator[None]:
    """Redis refuses every connection."""
    with redis_at(f"redis://127.0.0.1:{free_port()}"):
        yield


@pytest.fixture
def lease_seconds() -> float:
    """How long a lease lasts."""
    return conf.settings().LEASE
