"""Everybody is told everything once, while relay and servers die."""

from __future__ import annotations

import json
import random
import signal
import threading
from collections.abc import Callable
from functools import partial

import psycopg
import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.integration.fleet import Fleet
from tests.integration.realtime.site import Site, _numbers, head
from tests.wait import wait_until

pytestmark = pytest.mark.slow


class Client:
    """Follows the feed through any break, always on from where he was."""

    def __init__(self, site: Site, cookie: str) -> None:
        self.site, self.cookie = site, cookie
        self.seen: list[int] = []
        self.place = 0
        self.breaks = 0
        self.over = threading.Event()

    def follow(self) -> None:
        while not self.over.is_set():
            try:
                with self.site.socket(self.cookie, since=self.place) as socket:
                    while not self.over.is_set():
                        message = json.loads(socket.recv(1))
                        self.seen += [event["position"] for event in message["events"]]
                        self.place = message["position"]
            except TimeoutError:
                continue
            except (ConnectionClosed, InvalidHandshake, OSError, EOFError):
                self.breaks += 1
                self.over.wait(0.1)

    def poll(self) -> None:
        """The same with pages."""
        while not self.over.is_set():
            try:
                status, page = self.site.get(
                    f"/api/v1/events?since={self.place}&limit=200", self.cookie
                )
            except (OSError, ValueError):
                self.breaks += 1
                self.over.wait(0.1)
                continue
            assert status == 200, page
            self.seen += [event["position"] for event in page["data"]]
            self.place = page["next"]
            if not page["data"]:
                self.over.wait(0.02)


def attack(fleet: Fleet, site: Site, total: int, seed: int, kills: int) -> None:
    """8 writers with overlapping transactions; relay, server and Redis die in between."""
    draw = random.Random(seed)
    _, staff = site.visitor("staff")
    clients = [Client(site, staff) for _ in range(4)]
    left = [8]

    def write(number: int) -> None:
        own = random.Random(seed * 100 + number)
        with psycopg.connect(fleet.postgres.url) as connection:
            remaining = total // 8
            while remaining:
                size = min(remaining, own.randint(1, 40))
                connection.execute(
                    "SELECT jobs_emit(gen_random_uuid(), 'w', %s, '', 'tenant', '{}') "
                    "FROM generate_series(1, %s)",
                    [f"writer-{number}", size],
                )
                connection.execute("SELECT pg_sleep(%s)", [own.random() * 0.03])
                if own.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                    remaining -= size
        left[0] -= 1

    acts: list[Callable[[], object]] = [client.follow for client in clients[:3]]
    acts += [clients[3].poll, *(partial(write, number) for number in range(8))]
    threads = [threading.Thread(target=act, daemon=True) for act in acts]
    for thread in threads:
        thread.start()
    for turn in range(kills):
        before = head(fleet)
        wait_until(lambda at=before: head(fleet) > at + total // (kills * 4) or not left[0], 60)  # type: ignore[misc]
        if turn % 3 == 2:
            fleet.valkey.kill()
            fleet.valkey.start()
        elif turn % 3:
            site.program.send(signal.SIGKILL)
            site.start()
        else:
            relays = [p for p in fleet.programs if p.name.startswith("relay") and p.alive]
            draw.choice(relays).send(signal.SIGKILL)
            fleet.manage(f"relay{next(_numbers)}", "jobs", "relay")
    wait_until(lambda: left[0] == 0 and head(fleet) == total, 600)
    wait_until(lambda: all(client.place == total for client in clients), 60)
    for client in clients:
        client.over.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    for client in clients:
        assert client.seen == list(range(1, total + 1)), f"seed {seed}"
        assert client.breaks > 0


@pytest.mark.timeout(300)
def test_whatever_dies_everybody_is_told_everything_once(fleet: Fleet, site: Site) -> None:
    attack(fleet, site, total=4000, seed=3, kills=6)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_events_reach_everybody_once(fleet: Fleet, site: Site) -> None:
    attack(fleet, site, total=100_000, seed=11, kills=15)
