"""The whole way over HTTP on real servers, followed by a socket that is cut and resumed."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from websockets.exceptions import ConnectionClosed

from config.standins.trading import Coinbase
from config.standins.trading.market import PLAN
from tests.integration.conftest import fleet, servers
from tests.integration.fleet import Fleet
from tests.integration.realtime.site import Site
from tests.trading.desk import Desk
from tests.wait import wait_until

__all__ = ["fleet", "servers"]  # fixtures
pytestmark = pytest.mark.slow
BASE = "/api/v1/trading"
CSRF = "a" * 32


@pytest.fixture
def desk(fleet: Fleet, tmp_path: Path) -> Iterator[Desk]:
    venue = Coinbase().start()
    venue.page = 5
    yield Desk(fleet, venue, tmp_path)
    fleet.end_programs()
    venue.stop()


class Visitor:
    """A logged-in trader, who asks any of the servers."""

    def __init__(self, site: Site, name: str = "ann") -> None:
        self.key, session = site.visitor(name)
        self.cookie = f"{session}; csrftoken={CSRF}"
        self._count = 0

    def ask(self, site: Site, path: str, body: Any = None) -> tuple[int, Any]:
        """GET without a body, else POST; return the status and the answer."""
        headers = {"Cookie": self.cookie, "X-CSRFToken": CSRF, "Content-Type": "application/json"}
        self._count += 1
        headers["Idempotency-Key"] = f"{self.key}-{self._count}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{site.port}{path}", data, headers=headers
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own
                return answer.status, json.load(answer)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)


def test_the_whole_way_over_http_with_a_socket_that_is_cut(desk: Desk) -> None:
    service = desk.web()
    other = Site(desk.fleet, jobs=desk.jobs, env=desk.env)
    desk.start()
    ann, account = Visitor(service), desk.account()
    given = {"keyName": account.name, "secret": account.secret}
    status, made = ann.ask(other, f"{BASE}/brokers/coinbase/connect", given)
    assert (status, made["status"]) == (201, "active")

    seen: list[dict[str, Any]] = []
    since = 0

    def follow(site: Site, until: int, *, cut: bool = False) -> None:
        nonlocal since
        with site.socket(ann.cookie, path="/ws/coach", lastEventId=since) as socket:
            while len(seen) < until or cut:
                told = json.loads(socket.recv(30))
                since = told["eventId"]
                if told["type"] != "position":
                    seen.append(told)
                if cut and len(seen) == until:
                    site.program.send(signal.SIGKILL)

    status, started = ann.ask(other, f"{BASE}/trades/import", {})
    assert status == 202
    with suppress(ConnectionClosed, EOFError, OSError):
        follow(other, 2, cut=True)
    assert len(seen) >= 2
    follow(service, 15)
    ids = [told["eventId"] for told in seen]
    assert ids == sorted(set(ids)), "no event twice, and none out of order"
    kinds = [told["type"] for told in seen]
    assert kinds == ["import.progress"] * 3 + ["coach.reflect"] * 12
    status, page = ann.ask(service, "/internal/events?since=0")
    assert (status, page["data"]) == (200, seen), "the replay is what the socket has sent"

    status, run = ann.ask(service, f"{BASE}/imports/{started['jobId']}")
    assert (run["state"], run["percent"], run["stored"]) == ("DONE", 100, 12)
    status, found = ann.ask(service, f"{BASE}/trades?limit=100")
    assert tuple(one["label"] for one in reversed(found["data"])) == PLAN
    told = {told["payload"]["tradeId"] for told in seen if told["type"] == "coach.reflect"}
    assert told == {one["id"] for one in found["data"]}

    asked = {"tradeId": found["data"][-1]["id"], "horizonDays": 2}
    status, pending = ann.ask(service, f"{BASE}/simulations/simple", asked)
    assert (status, pending["status"]) == (202, "pending")
    path = f"{BASE}/simulations/{asked['tradeId']}/2"
    wait_until(lambda: ann.ask(service, path)[1]["status"] == "fresh", 60, 0.2, "it is compared")

    with service.socket(ann.cookie, path="/ws/coach", lastEventId=since) as socket:
        start, end = desk.stage("week", ann.key)
        while (last := json.loads(socket.recv(30)))["type"] == "position":
            pass
    assert last["type"] == "digest.ready"
    assert last["payload"]["period"] == {"start": start, "end": end}
    status, digest = ann.ask(service, f"{BASE}/digests/weekly/latest")
    assert (digest["id"], digest["periodStart"]) == (last["payload"]["digestId"], start)
    request = urllib.request.Request(
        f"http://127.0.0.1:{service.port}/internal/events/subscribe",
        headers={"Cookie": ann.cookie, "Last-Event-ID": str(ids[-2])},
    )
    with urllib.request.urlopen(request, timeout=30) as stream:  # noqa: S310 - our own
        data = (line[6:] for line in stream if line.startswith(b"data: "))
        assert [json.loads(next(data)) for _ in range(2)] == [seen[-1], last]

    bob = Visitor(service, "bob")
    with service.socket(bob.cookie, path="/ws/coach", lastEventId=0) as socket:
        desk.stage("week", bob.key)
        while (his := json.loads(socket.recv(30)))["type"] == "position":
            pass
    assert his["type"] == "digest.ready", "nothing of others came before it"
    assert his["payload"]["digestId"] != digest["id"]

    gone = ann.ask(service, f"/internal/events?since={10**12}")
    assert gone[0] == 410
