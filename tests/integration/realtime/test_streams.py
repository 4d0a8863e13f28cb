"""Streams of real servers, and clients too slow for them."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from http.client import HTTPException
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.integration.fleet import Fleet, is_alive
from tests.integration.realtime.site import Site, closed, emit, head, received
from tests.wait import wait_until

pytestmark = pytest.mark.slow


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


def test_streams_hold_no_connections_to_the_database(fleet: Fleet, site: Site) -> None:
    _, staff = site.visitor("staff")
    request = urllib.request.Request(
        f"http://127.0.0.1:{site.port}/api/v1/events/stream", headers={"Cookie": staff}
    )

    def connections() -> int:
        own = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        return int(fleet.query(own)[0][0])

    with ExitStack() as open_streams:
        for _ in range(20):
            answer = open_streams.enter_context(urllib.request.urlopen(request, timeout=30))  # noqa: S310 - our own
            lines(answer, ": on")
        wait_until(lambda: connections() < 12, message="the requests give theirs back")


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
