"""The way out with real processes: sockets, streams and pages, while relay and server die."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import psycopg
import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from tests.integration.fleet import CHECKOUT, Fleet, Program, is_alive
from tests.jobs.ports import free_port
from tests.wait import wait_until

pytestmark = pytest.mark.slow
_numbers = itertools.count()

SESSIONS = """
import sys
from importlib import import_module
from django.conf import settings
import django; django.setup()
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
user, _ = User.objects.get_or_create(username=sys.argv[1], is_staff=sys.argv[1] == "staff")
store = import_module(settings.SESSION_ENGINE).SessionStore()
store[SESSION_KEY] = str(user.pk)
store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
store[HASH_SESSION_KEY] = user.get_session_auth_hash()
store.save()
print(user.pk, store.session_key)
"""


class Site:
    """A web server of the fleet, and its visitors."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.port = fleet, free_port()
        self.program = self.start()

    def start(self) -> Program:
        self.program = self.fleet.manage(
            f"web{next(_numbers)}", "jobs", "web", str(self.port), env={"HTTPS": "off"}
        )
        wait_until(self._answers, 30, message="the server answers")
        return self.program

    def _answers(self) -> bool:
        try:
            return self.get("/api/v1/events", "")[0] == 401
        except OSError:
            return False

    def visitor(self, name: str) -> tuple[int, str]:
        """The primary key of a user, and the cookie with which he is logged in."""
        said = subprocess.run(
            [sys.executable, "-c", SESSIONS, name],
            env=self.fleet._environment({}),
            cwd=CHECKOUT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        key, session = said.split()
        return int(key), f"sessionid={session}"

    def get(self, path: str, cookie: str, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Cookie": cookie, **headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def socket(self, cookie: str, origin: str | None = "", **options: Any) -> ClientConnection:
        return connect(
            f"ws://127.0.0.1:{self.port}/ws/events?{urlencode(options)}",
            additional_headers={"Cookie": cookie} if cookie else {},
            origin=(origin or f"http://127.0.0.1:{self.port}") if origin is not None else None,  # type: ignore[arg-type]
            proxy=None,
            max_size=None,
        )


@pytest.fixture
def site(fleet: Fleet) -> Site:
    fleet.manage(f"relay{next(_numbers)}", "jobs", "relay")
    return Site(fleet)


def emit(
    fleet: Fleet, topic: str, tenant: str = "", audience: str = "tenant", **payload: Any
) -> None:
    fleet.query(
        "SELECT jobs_emit(gen_random_uuid(), %s, '', %s, %s, %s)",
        [topic, tenant, audience, json.dumps(payload)],
    )


def head(fleet: Fleet) -> int:
    found = fleet.query("SELECT position FROM jobs_feed_head")
    return int(found[0][0]) if found else 0


def received(socket: ClientConnection, count: int) -> list[dict[str, Any]]:
    """The next so many events."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        found += json.loads(socket.recv(10))["events"]
    return found


def closed(socket: ClientConnection) -> tuple[int, str]:
    """The code and the reason with which it is closed."""
    with socket, pytest.raises(ConnectionClosed) as error:
        while True:
            socket.recv(15)
    assert error.value.rcvd is not None
    return error.value.rcvd.code, error.value.rcvd.reason


def test_a_socket_tells_what_was_and_what_comes(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    for number in range(3):
        emit(fleet, "shop.sold", "acme", number=number)
    wait_until(lambda: head(fleet) == 3)
    with site.socket(staff, since=1) as socket:
        assert json.loads(socket.recv(10)) == {"type": "events", "position": 1, "events": []}
        assert [e["position"] for e in received(socket, 2)] == [2, 3]
        emit(fleet, "shop.sold", "acme", number=3)
        [event] = received(socket, 1)
        assert (event["position"], event["topic"], event["tenant"]) == (4, "shop.sold", "acme")
        assert event["payload"] == {"number": 3} and UUID(event["id"])


def test_each_sees_his_own(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    key, user = site.visitor("ann")
    emit(fleet, "a.mine", f"user:{key}")
    emit(fleet, "a.secret", f"user:{key}", "staff")
    emit(fleet, "a.other", "acme")
    emit(fleet, "a.nobody")
    emit(fleet, "b.mine", f"user:{key}")
    wait_until(lambda: head(fleet) == 5)

    def topics(cookie: str, **options: Any) -> list[str]:
        query = urlencode({"since": 0, **options})
        status, page = site.get(f"/api/v1/events?{query}", cookie)
        assert status == 200 and page["next"] == 5, page
        with site.socket(cookie, since=0, **options) as socket:
            expected = [e["topic"] for e in page["data"]]
            assert [e["topic"] for e in received(socket, len(expected))] == expected
        return expected

    assert topics(staff) == ["a.mine", "a.secret", "a.other", "a.nobody", "b.mine"]
    assert topics(staff, tenant="acme") == ["a.other"]
    assert topics(user) == ["a.mine", "b.mine"]
    assert topics(user, topics="b.*") == ["b.mine"]
    assert topics(user, tenant="acme") == []


@pytest.mark.parametrize(
    ("options", "status", "code", "words"),
    [
        ({"since": "7"}, 410, 4410, "never reached"),
        ({"since": "x"}, 400, 4400, "since"),
        ({"topics": "a|b"}, 400, 4400, "topics"),
        ({"batch": "x"}, 400, 4400, "batch"),
        ({"form": "1"}, 400, 4400, "form"),
    ],
)
def test_a_wrong_question_is_answered(
    site: Site, options: dict[str, str], status: int, code: int, words: str
) -> None:
    _, staff = site.visitor("staff")
    for path in ("/api/v1/events", "/api/v1/events/stream"):
        told, page = site.get(f"{path}?{urlencode(options)}", staff)
        assert (told, page["status"]) == (status, status) and words in page["detail"]
    told, reason = closed(site.socket(staff, **options))
    assert told == code and words in reason


def test_strangers_are_told_nothing(site: Site) -> None:
    _, staff = site.visitor("staff")
    assert closed(site.socket(""))[0] == 4401
    assert closed(site.socket("sessionid=made-up"))[0] == 4401
    assert closed(site.socket(staff, origin="http://evil.example"))[0] == 4403
    assert closed(site.socket(staff, origin=None))[0] == 4403
    for path in ("/api/v1/events", "/api/v1/events/stream"):
        status, page = site.get(path, "")
        assert (status, page["title"]) == (401, "Not authenticated")


def test_only_what_concerns_a_batch(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    batch = "01234567-89ab-7def-8123-456789abcdef"
    emit(fleet, "a", batch="somebody else's")
    emit(fleet, "b", batch=batch)
    with site.socket(staff, since=0, batch=batch) as socket:
        assert [e["topic"] for e in received(socket, 1)] == ["b"]


def lines(answer: Any, until: str) -> list[str]:
    found: list[str] = []
    while until not in "".join(found[-1:]):
        found.append(answer.readline().decode())
    return found


def test_a_stream_goes_on_where_it_was_left(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    emit(fleet, "a.first")
    emit(fleet, "a.second")
    wait_until(lambda: head(fleet) == 2)
    request = urllib.request.Request(
        f"http://127.0.0.1:{site.port}/api/v1/events/stream?since=0",
        headers={"Cookie": staff, "Last-Event-ID": "1"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.headers["X-Accel-Buffering"] == "no"
        told = lines(answer, "data:")
        assert told[:3] == ["retry: 2000\n", ": on\n", "id: 1\n"]
        assert told[-3:-1] == ["id: 2\n", "event: a.second\n"]
        emit(fleet, "a.third")
        assert lines(answer, "data:")[-3:-1] == ["id: 3\n", "event: a.third\n"]


def test_a_slow_reader_of_a_stream_is_told_so_and_cut(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    request = urllib.request.Request(
        f"http://127.0.0.1:{site.port}/api/v1/events/stream?since=0", headers={"Cookie": staff}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own
        lines(answer, ": on")
        # It reads no more, and more comes than the buffers of both sides hold.
        for _ in range(12):
            fleet.query(
                "SELECT jobs_emit(gen_random_uuid(), 'a', '', '', 'tenant', "
                "jsonb_build_object('text', repeat('x', 16000))::text) FROM generate_series(1, 100)"
            )
        wait_until(lambda: head(fleet) == 1200, 30)
        time_for_the_hub(site, staff, 1200)
        told = answer.read().decode().splitlines()
    assert told[-3:-1] == ["event: closed", 'data: {"code":4408,"reason":"too-slow"}']
    seen = [int(line[4:]) for line in told if line.startswith("id: ") and line != "id: 0"]
    assert seen == list(range(1, len(seen) + 1)) and len(seen) < 1200


def test_a_server_that_ends_leaves_nobody_hanging(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    request = urllib.request.Request(
        f"http://127.0.0.1:{site.port}/api/v1/events/stream", headers={"Cookie": staff}
    )
    family = site.program.family()
    with urllib.request.urlopen(request, timeout=30) as answer, site.socket(staff) as socket:  # noqa: S310
        lines(answer, ": on")
        socket.recv(10)
        site.program.send(signal.SIGTERM)
        assert site.program.ended(10) in (0, -signal.SIGTERM), site.program.logged()
        assert closed(socket)[0] == 1012
        with suppress(OSError, HTTPException):
            answer.read()
    assert not any(map(is_alive, family))
    site.start()
    assert site.get("/api/v1/events", staff)[0] == 200


def test_keys_and_tickets_open_sockets(fleet: Fleet, site: Site) -> None:
    made = fleet.manage(
        "key", "jobs", "api-keys", "create", "site", "view_job", "--tenants=acme",
        "--reason=test", "--json",
    )  # fmt: skip
    assert made.ended(20) == 0, made.logged()
    key = json.loads(made.logged())["text"]
    emit(fleet, "a.mine", "acme")
    emit(fleet, "a.other", "other")
    wait_until(lambda: head(fleet) == 2)

    def ticket() -> str:
        request = urllib.request.Request(
            f"http://127.0.0.1:{site.port}/api/v1/events/ticket",
            headers={"Authorization": f"Bearer {key}"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own
            return str(json.load(answer)["ticket"])

    one = ticket()
    with site.socket("", origin="http://elsewhere.example", since=0, ticket=one) as socket:
        assert [e["topic"] for e in received(socket, 1)] == ["a.mine"]
        emit(fleet, "a.later", "acme")
        assert [e["topic"] for e in received(socket, 1)] == ["a.later"]
    assert closed(site.socket("", since=0, ticket=one))[0] == 4401


def test_a_slow_client_is_cut_and_resumes(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    seen: list[int] = []
    with site.socket(staff, since=0) as socket, pytest.raises(ConnectionClosed) as cut:
        place = json.loads(socket.recv(10))["position"]
        # It reads no more, and more comes than the buffers of both sides hold.
        for _ in range(12):
            fleet.query(
                "SELECT jobs_emit(gen_random_uuid(), 'a', '', '', 'tenant', "
                "jsonb_build_object('text', repeat('x', 16000))::text) FROM generate_series(1, 100)"
            )
        wait_until(lambda: head(fleet) == 1200, 30)
        time_for_the_hub(site, staff, 1200)
        while True:
            message = json.loads(socket.recv(20))
            seen += [event["position"] for event in message["events"]]
            place = message["position"]
    assert cut.value.rcvd is not None and cut.value.rcvd.code == 4408
    assert "too slow" in cut.value.rcvd.reason and place < 1200
    with site.socket(staff, since=place) as again:
        seen += [event["position"] for event in received(again, 1200 - place)]
    assert seen == list(range(1, 1201))


def time_for_the_hub(site: Site, cookie: str, last: int) -> None:
    """Another listener has been told all, so that the slow one would have been, too."""
    with site.socket(cookie, since=last - 1) as other:
        assert received(other, 1)[0]["position"] == last


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
