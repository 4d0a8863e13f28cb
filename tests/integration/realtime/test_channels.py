"""An app's own sockets, streams and metrics on real servers."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from tests.integration.fleet import Fleet, Program
from tests.integration.realtime.site import Site, _numbers, closed, emit, head
from tests.wait import wait_until

pytestmark = pytest.mark.slow
EXAMPLE = {"FLEET_EXAMPLE": "1"}


def coach(site: Site, cookie: str, since: int | None = None) -> ClientConnection:
    options: dict[str, Any] = {} if since is None else {"lastEventId": since}
    return site.socket(cookie, path="/ws/coach", **options)


def opened(site: Site, cookie: str) -> ExitStack | None:
    """Open a socket that says where it begins; None where it is closed at once."""
    with ExitStack() as stack:
        socket = stack.enter_context(coach(site, cookie))
        try:
            socket.recv(10)
        except ConnectionClosed:
            return None
        return stack.pop_all()


@pytest.fixture
def pair(fleet: Fleet) -> tuple[Site, Site]:
    fleet.manage(f"relay{next(_numbers)}", "jobs", "relay")
    return Site(fleet, env=EXAMPLE), Site(fleet, env=EXAMPLE)


def test_the_bound_of_a_users_sockets_holds_over_servers(pair: tuple[Site, Site]) -> None:
    one, two = pair
    _, ann = one.visitor("ann")
    _, bob = one.visitor("bob")
    first, second = opened(one, ann), opened(two, ann)
    assert first is not None and second is not None
    for site in pair:
        assert closed(coach(site, ann)) == (
            4429, "at most 2 sockets at a time: close another one first",
        )  # fmt: skip
    other = opened(two, bob)
    assert other is not None, "somebody else has seats of his own"
    first.close()
    again = wait_until(lambda: opened(two, ann), message="the seat is free")
    for stack in (second, again, other):
        assert stack is not None
        stack.close()


def test_a_client_goes_on_at_another_server_and_misses_nothing(
    fleet: Fleet, pair: tuple[Site, Site]
) -> None:
    one, two = pair
    key, ann = one.visitor("ann")
    total, seen, since = 60, list[int](), 0

    def follow(site: Site, until: int) -> None:
        nonlocal since
        with coach(site, ann, since) as socket:
            while since < until:
                told = json.loads(socket.recv(10))
                since = told["eventId"]
                if told["type"] == "coach.reflect":
                    seen.append(since)

    def write(count: int) -> None:
        for number in range(count):
            emit(fleet, "coach.reflect", f"user:{key}", number=number)

    write(20)
    wait_until(lambda: head(fleet) == 20)
    with suppress(ConnectionClosed, EOFError, OSError), coach(one, ann, 0) as socket:
        while True:
            told = json.loads(socket.recv(10))
            since = told["eventId"]
            if told["type"] == "coach.reflect":
                seen.append(since)
            if len(seen) == 11:
                one.program.send(signal.SIGKILL)
    write(40)
    wait_until(lambda: head(fleet) == total)
    follow(two, total)
    assert seen == list(range(1, total + 1))


def numbers(site: Site) -> dict[str, float]:
    """The app's metrics as Prometheus reads them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{site.port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        name: float(value) for name, value in re.findall(r"^(exampleapp\S+) (\S+)$", text, re.M)
    }


ENQUEUE = """
import jobs
from tests.exampleapp.handlers import Import
for _ in range({count}): jobs.enqueue(Import(user={user!r}, pages=3, hold={hold}))
"""


def enqueue(fleet: Fleet, user: str, count: int, *, hold: bool = False) -> None:
    code = ENQUEUE.format(user=user, count=count, hold=hold).strip()
    made = fleet.manage(f"enqueue{next(_numbers)}", "shell", "-c", code, env=EXAMPLE)
    assert made.ended(30) == 0, made.logged()


def test_processes_count_together_and_a_page_of_any_server_tells_it(
    fleet: Fleet, pair: tuple[Site, Site]
) -> None:
    key, ann = pair[0].visitor("ann")
    fleet.dispatcher()
    workers = [fleet.worker("--processes=2", env=EXAMPLE) for _ in range(2)]
    with coach(pair[1], ann) as socket:
        socket.recv(10)
        enqueue(fleet, f"user:{key}", 40)
        fleet.await_final()
        kinds = [json.loads(socket.recv(10))["type"] for _ in range(40)]
        assert set(kinds) <= {"position", "import.progress", "coach.reflect"}
    total = 'exampleapp_pages_total{source="broker"}'

    def all_counted() -> bool:
        found = [numbers(site) for site in pair]
        return all(one.get(total) == one["exampleapp_page_seconds_count"] == 120 for one in found)

    wait_until(all_counted, message="both servers tell what all executors have counted")
    assert numbers(pair[0])['exampleapp_page_seconds_bucket{le="+Inf"}'] == 120
    assert numbers(pair[0])["exampleapp_contexts"] in (2, 4, 6, 8)
    end(workers)
    wait_until(
        lambda: "exampleapp_contexts" not in numbers(pair[0]), message="who has left counts no more"
    )


def test_what_a_job_counts_is_told_while_it_runs(fleet: Fleet) -> None:
    site = Site(fleet, env=EXAMPLE)
    fleet.dispatcher()
    fleet.worker(env=EXAMPLE)
    enqueue(fleet, "user:0", 1, hold=True)
    name = 'exampleapp_pages_total{source="broker"}'
    wait_until(lambda: numbers(site).get(name) == 3)
    [(job_id,)] = fleet.query("SELECT id FROM jobs_job")
    assert fleet.state(job_id) == "running"
    fleet.cancel(job_id, reason="test")
    fleet.await_state(job_id, "cancelled")


def end(workers: list[Program]) -> None:
    for worker in workers:
        worker.send(signal.SIGTERM)
    for worker in workers:
        assert worker.ended(20) == 0, worker.logged()


def test_lines_of_the_apps_logger_are_those_of_the_chain(fleet: Fleet) -> None:
    """Only the name of the logger is the app's."""
    fleet.dispatcher()
    env = {**EXAMPLE, "FLEET_LOGGING": "project", "LOG_FORMAT": "json"}
    worker = fleet.worker(env=env)
    enqueue(fleet, "user:0", 1)
    fleet.await_final()
    lines = [json.loads(one) for one in worker.logged().splitlines() if one.startswith("{")]
    [line] = [one for one in lines if one["logger"] == "exampleapp.imports"]
    assert (line["level"], line["message"]) == ("INFO", "imported 3 pages")
    assert line["kind"] == "exampleapp.import" and line["job_id"]
