"""`/ws/operations` of a real server: what was, what comes, and who may not look."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from websockets.sync.client import ClientConnection

from tests.integration.fleet import Fleet
from tests.integration.realtime.site import Site, closed, emit, head
from tests.wait import wait_until

pytestmark = pytest.mark.slow
PATH = "/ws/operations"


@pytest.fixture
def site(fleet: Fleet) -> Site:
    fleet.manage("relay-operations", "jobs", "relay", env={"FLEET_APPS": "operations"})
    scope = {"SCOPE": ["operations.access.scope"]}
    return Site(fleet, scope, {"FLEET_APPS": "operations"})


def agents_user(site: Site, name: str) -> str:
    """The cookie of the user of a new agent."""
    key, cookie = site.visitor(name)
    site.fleet.query(
        "INSERT INTO operations_agent "
        "(key, tenant, user_id, erp_login, client, password, login, is_active) "
        "VALUES (%s, %s, %s, %s, 'http', '', 'good', true) "
        "ON CONFLICT (key) DO NOTHING RETURNING 1",
        [name, f"agent:{name}", key, name],
    )
    return cookie


def shown(socket: ClientConnection, count: int) -> list[dict[str, Any]]:
    """Return the next ``count`` events."""
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        message = json.loads(socket.recv(deadline - time.monotonic()))
        if message["type"] != "keep-alive":
            found.append(message)
    return found


def test_an_agents_user_sees_what_was_and_what_comes(fleet: Fleet, site: Site) -> None:
    ada, bob = agents_user(site, "ada"), agents_user(site, "bob")
    _, root = site.visitor("staff")
    for name, tenant in (
        ("JOB_QUEUED", "agent:ada"), ("JOB_QUEUED", "agent:bob"), ("JOB_PROGRESS", "agent:ada"),
        ("JOB_STARTED", "agent:ada"),
    ):  # fmt: skip
        emit(fleet, f"operations.{name}", tenant, jobId=name)
    wait_until(lambda: head(fleet) == 4)
    with (
        site.socket(ada, path=PATH, lastEventId=0) as own,
        site.socket(bob, path=PATH, lastEventId=0) as other,
        site.socket(root, path=PATH, lastEventId=0) as office,
    ):
        # Progress reaches only those who have caught up: it is not replayed.
        assert [one["type"] for one in shown(own, 2)] == ["JOB_QUEUED", "JOB_STARTED"]
        assert [one["type"] for one in shown(other, 1)] == ["JOB_QUEUED"]
        assert [one["eventId"] for one in shown(office, 3)] == [1, 2, 4]
        emit(fleet, "operations.JOB_PROGRESS", "agent:ada", progress=40.0)
        emit(fleet, "operations.JOB_COMPLETED", "agent:ada", jobId="x")
        first, last = shown(own, 2)
        assert (first["type"], first["payload"]) == ("JOB_PROGRESS", {"progress": 40.0})
        assert (last["type"], last["eventId"]) == ("JOB_COMPLETED", 6)
        emit(fleet, "operations.JOB_FAILED", "agent:bob", jobId="y")
        assert [one["type"] for one in shown(other, 1)] == ["JOB_FAILED"]
        assert [one["eventId"] for one in shown(office, 3)] == [5, 6, 7]
    with site.socket(ada, path=PATH, lastEventId=4) as again:
        assert [one["type"] for one in shown(again, 1)] == ["JOB_COMPLETED"]


def test_who_is_not_logged_in_sees_nothing(site: Site) -> None:
    assert closed(site.socket("", path=PATH)) == (4401, "log in first")
    _, stranger = site.visitor("stranger")
    with site.socket(stranger, path=PATH, lastEventId=0) as socket:
        assert json.loads(socket.recv(60))["type"] == "keep-alive"
