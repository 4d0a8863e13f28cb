"""Webhooks with real processes: a worker dies after it has sent, and before it could say so."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http.servers import Server, answer
from tests.integration.fleet import Fleet
from tests.privacy import vault
from tests.wait import wait_until

pytestmark = pytest.mark.slow
HOOKS: dict[str, Any] = {**vault.KEYS, "WEBHOOKS": True, "HTTP_ALLOW": ["127.0.0.0/8"]}


@pytest.fixture
def receiver() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_a_delivery_whose_worker_dies_after_sending_is_sent_again_and_done_once(
    fleet: Fleet, receiver: Server
) -> None:
    made = fleet.manage(
        "hook", "jobs", "webhooks", "create", f"http://127.0.0.1:{receiver.port}/hook",
        "--tenant=acme", "--reason=test", "--json", jobs=HOOKS,
    )  # fmt: skip
    assert made.ended(20) == 0, made.logged()
    assert json.loads(made.logged())["secret"].startswith("whsec_")
    fleet.manage("relay", "jobs", "relay", jobs=HOOKS)
    fleet.dispatcher(jobs=HOOKS)
    worker = fleet.worker("--queues=jobs.webhooks", jobs=HOOKS)
    killed: list[int] = []

    def take_and_kill(line: socket.socket, closing: threading.Event) -> None:
        """The delivery is taken, and its sender dead before it hears so."""
        receiver.replies["/hook"] = answer()
        killed.extend(fleet.executors(worker))
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    receiver.replies["/hook"] = take_and_kill
    fleet.query(
        "SELECT jobs_emit(gen_random_uuid(), 'order.paid', 'order:1', 'acme', 'tenant', %s)",
        ['{"n": 1}'],
    )

    def delivery() -> tuple[Any, ...]:
        found = fleet.query("SELECT state, tries, event_id, job_id FROM jobs_webhookdelivery")
        return found[0] if found else ("", 0, None, None)

    wait_until(lambda: delivery()[0] == "delivered", 30, message="it is delivered")
    _, tries, event, job = delivery()
    assert killed and tries == 2 and len(receiver.seen) == 2
    headers = [receiver.headers(number) for number in (0, 1)]
    assert {one["x-event-id"] for one in headers} == {str(event)}
    assert [one["x-retry-count"] for one in headers] == ["0", "1"]
    fleet.await_state(job, "succeeded")
    assert fleet.value("SELECT count(*) FROM jobs_job WHERE kind = 'jobs.webhook'") == 1
    assert fleet.value("SELECT jsonb_array_length(log) FROM jobs_webhookdelivery") == 1
