"""Channels: an app's own sockets, streams and pages, in its own words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.routing import URLRouter
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.serializers.json import DjangoJSONEncoder
from django.test import AsyncClient, Client, override_settings

import jobs
from jobs import realtime
from jobs.engine import outbox, rq
from jobs.errors import ConfigError, EventError
from jobs.operate import apikeys
from jobs.principals import Principal, Scope
from jobs.realtime import hub as hubs
from jobs.realtime import seats, staying
from jobs.realtime.hub import hub
from tests.docs.pages import blocks, text
from tests.exampleapp.realtime import board, coach
from tests.exampleapp.urls import websocket_urlpatterns
from tests.test_docs import first_cells
from tests.wait import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.exampleapp.urls"),
]
ANN = Principal(
    "ann", "api", frozenset(), Scope(frozenset({"user:1", "brand:a"})), False, user_id="1"
)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "KEEP_ALIVE", 0.05)


def tell(topic: str, tenant: str, key: str = "", **payload: Any) -> int:
    """Tell an event; return its position in the feed."""
    jobs.emit(topic, payload, tenant=tenant, key=key)
    while outbox.relay_once().moved:
        pass
    return jobs.events.feed_head()


@pytest.fixture
def ann(client: Client) -> str:
    """The cookie of a user who is logged in."""
    user = User.objects.create(username="ann")
    client.force_login(user)
    return client.cookies[django_settings.SESSION_COOKIE_NAME].value


def tenant() -> str:
    return f"user:{User.objects.get(username='ann').pk}"


class Socket:
    """A client of the app's sockets."""

    def __init__(self, path: str, cookie: str = "", headers: dict[str, str] | None = None) -> None:
        place, _, query = path.partition("?")
        given = {"host": "testserver", "origin": "http://testserver", **(headers or {})}
        if cookie:
            given["cookie"] = f"sessionid={cookie}"
        scope = {
            "type": "websocket",
            "path": place,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        make: Any = ApplicationCommunicator
        self._socket = make(URLRouter(websocket_urlpatterns), scope)

    async def open(self) -> Socket:
        await self._socket.send_input({"type": "websocket.connect"})
        assert (await self._socket.receive_output(5))["type"] == "websocket.accept"
        return self

    async def next(self) -> Any:
        """The next message; raises Closed."""
        told = await self._socket.receive_output(5)
        if told["type"] == "websocket.close":
            raise Closed(told["code"], told["reason"])
        return json.loads(told["text"])

    async def event(self) -> Any:
        """The next message that is no keep-alive."""
        while (found := await self.next())["type"] in ("position", "keep-alive"):
            pass
        return found

    async def close(self) -> None:
        await self._socket.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._socket.wait(5)


class Closed(Exception):
    """With this code and reason."""


def play(act: Callable[[], Awaitable[Any]]) -> Any:
    async def played() -> Any:
        try:
            async with asyncio.timeout(60):
                return await act()
        finally:
            hub().end()

    return asyncio.run(played())


def closing(path: str, cookie: str = "", headers: dict[str, str] | None = None) -> tuple[Any, ...]:
    """The code and the reason with which the socket is closed."""

    async def story() -> tuple[Any, ...]:
        socket = await Socket(path, cookie, headers).open()
        try:
            while True:
                await socket.next()
        except Closed as closed:
            return closed.args
        finally:
            await socket.close()

    found: tuple[Any, ...] = play(story)
    return found


# ---- what it shows


def test_a_socket_speaks_the_words_of_its_app(ann: str) -> None:
    mine = tenant()
    first = tell("coach.reflect", mine, number=1)
    tell("coach.reflect", "user:0", number=2)
    tell("order.paid", mine)
    tell("coach.internal", mine)
    second = tell("coach.reflect", mine, number=3)

    async def story() -> None:
        socket = await Socket(f"/ws/coach?lastEventId={first - 1}", ann).open()
        assert await socket.next() == {"type": "position", "eventId": first - 1}
        told = await socket.event()
        assert set(told) == {"type", "eventId", "ts", "v", "payload"}
        assert (told["type"], told["eventId"]) == ("coach.reflect", first)
        assert (await socket.event())["eventId"] == second
        third = await sync_to_async(tell)("coach.reflect", mine, number=4)
        assert (await socket.event())["payload"] == {"number": 4}
        while (quiet := await socket.next()) != {"type": "position", "eventId": third}:
            assert quiet["type"] == "position"
        await socket.close()

    play(story)


def test_what_is_transient_is_shown_as_it_happens_and_not_later(ann: str) -> None:
    mine = tenant()
    start = tell("import.progress", mine, percent=10) - 1
    tell("coach.reflect", mine)

    async def story() -> None:
        socket = await Socket(f"/ws/coach?lastEventId={start}", ann).open()
        assert (await socket.event())["type"] == "coach.reflect"
        await socket.next()  # it has caught up: a keep-alive
        await sync_to_async(tell)("import.progress", mine, percent=20)
        assert (await socket.event())["payload"] == {"percent": 20}
        await socket.close()

    play(story)


def test_an_event_that_cannot_be_shown_is_left_out_and_logged(
    ann: str, caplog: pytest.LogCaptureFixture
) -> None:
    mine = tenant()
    start = tell("coach.reflect", mine, broken=True) - 1
    good = tell("coach.reflect", mine)

    async def story() -> None:
        socket = await Socket(f"/ws/coach?lastEventId={start}", ann).open()
        assert (await socket.event())["eventId"] == good
        await socket.close()

    play(story)
    assert f"channel coach cannot show the event {start + 1}" in caplog.text


def test_a_listener_is_narrowed_by_the_address(ann: str) -> None:
    start = tell("publisher.plan.ready", "brand:a", "post:1") - 1
    tell("publisher.plan.ready", "brand:b", "post:2")
    last = tell("publisher.plan.ready", "brand:a", "post:2")

    def seen(path: dict[str, str], **asked: str) -> list[int]:
        view = board.question({"since": str(start), **asked}, path, ANN).view
        return [e.position for e in jobs.events.feed(since=start) if view.shows(e)]

    assert seen({"brand": "a"}) == [start + 1, last]
    assert seen({"brand": "a"}, post="2") == [last]
    with pytest.raises(realtime.NotFound):
        seen({"brand": "b"})


def test_nobody_is_shown_what_lies_outside_of_his_scope() -> None:
    everything = realtime.Channel(
        "all", topics=["*"], narrow=lambda who, given: realtime.Only(tenants=["brand:a", "other"])
    )
    assert everything.question({}, {}, ANN).view.tenants == frozenset({"brand:a"})


# ---- what is wrong with a question


@pytest.mark.parametrize(
    ("asked", "option"),
    [
        ({"since": "1"}, "since"),
        ({"lastEventId": "x"}, "lastEventId"),
        ({"after": "x"}, "after"),
        ({"topics": "*"}, "topics"),
        ({"limit": "0"}, "limit"),
    ],
)
def test_a_wrong_option_is_named(asked: dict[str, str], option: str, ann: str) -> None:
    with pytest.raises(EventError, match=f"^{option}: "):
        coach.question(asked, {}, ANN)
    answer = Client().get("/internal/events", asked, headers={"Cookie": f"sessionid={ann}"})
    assert (answer.status_code, answer["Content-Type"]) == (422, "application/problem+json")


def test_limits_are_lists() -> None:
    for limits in ({"tenants": "brand:a"}, {"keys": "post:1"}):
        with pytest.raises(TypeError, match="lists"):
            realtime.Only(**limits)


def test_an_option_for_the_app_holds_no_nul() -> None:
    with pytest.raises(EventError, match=r"^post: "):
        board.question({"post": "\0"}, {"brand": "a"}, ANN)
    with pytest.raises(realtime.NotFound):
        board.question({}, {"brand": "\0"}, ANN)


@pytest.mark.parametrize(
    "wrong",
    [
        {"topics": []},
        {"topics": ["a|b"]},
        {"topics": ["a"], "sockets": 0},
        {"topics": ["a"], "options": ["ticket"]},
        {"topics": ["a"], "options": "post"},
        {"topics": ["a"], "since": "last-id"},
        {"topics": ["a"], "page_size": 5000},
        {"topics": ["a"], "transient": ["a b"]},
    ],
)
def test_a_wrong_declaration_is_an_error_that_names_the_channel(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^Channel 'one': "):
        realtime.Channel("one", **wrong)
    with pytest.raises(ConfigError, match="name"):
        realtime.Channel("a name", topics=["a"])


# ---- who may


def test_a_stranger_is_refused_and_a_fault_is_told_as_such(ann: str) -> None:
    assert closing("/ws/coach")[0] == 4401
    assert closing("/ws/brands/b", ann) == (4404, "there is no such brand")
    assert closing("/ws/brands/closed", ann) == (4403, "the brand is closed")
    assert closing("/ws/brands/faulty", ann) == (1011, "internal error")
    assert closing("/ws/coach?lastEventId=x", ann)[0] == 4400
    assert closing(f"/ws/coach?lastEventId={jobs.events.feed_head() + 9}", ann)[0] == 4410


def test_a_key_needs_the_permission_of_the_channel() -> None:
    for permission, code in (("view_job", 4403), ("save_view", None)):
        made = apikeys.create("site", [permission], tenants=["brand:a"], by="test", reason="test")
        headers = {"authorization": f"Bearer {made.text}"}
        answer = Client().get("/brands/a/events", headers=headers)
        assert answer.status_code == (403 if code else 200), answer.content
        if code:
            assert closing("/ws/brands/a", headers=headers)[0] == code


def test_who_loses_his_scope_loses_his_socket(ann: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staying, "CHECK", 0.05)
    path = f"{__name__}.scope"

    async def story() -> Any:
        socket = await Socket("/ws/brands/a", ann).open()
        await socket.next()
        BRANDS.clear()
        try:
            while True:
                await socket.next()
        except Closed as closed:
            return closed.args[0]
        finally:
            await socket.close()

    BRANDS.add("brand:a")
    with override_settings(JOBS={**django_settings.JOBS, "SCOPE": path}):
        assert play(story) == 4404


BRANDS: set[str] = set()


def scope(user: Any) -> Scope:
    return Scope(frozenset(BRANDS))


# ---- pages and streams


def test_a_page_has_the_words_of_the_app(ann: str) -> None:
    mine = tenant()
    start = tell("coach.reflect", mine, number=0) - 1
    for number in range(1, 5):
        tell("coach.reflect", mine, number=number)
    client = Client(headers={"Cookie": f"sessionid={ann}"})
    answer = client.get("/internal/events", {"lastEventId": start})
    found = answer.json()
    assert [one["payload"]["number"] for one in found["data"]] == [0, 1, 2]
    assert (found["next"], answer["Cache-Control"]) == (start + 3, "no-store")
    rest = client.get("/internal/events", {"after": found["next"], "limit": 9}).json()
    assert [one["eventId"] for one in rest["data"]] == [start + 4, start + 5]
    gone = client.get("/internal/events", {"lastEventId": start + 99})
    assert (gone.status_code, gone.json()["code"]) == (410, "feed-gone")
    assert client.post("/internal/events").status_code == 405
    assert Client().get("/internal/events").status_code == 401
    assert client.get("/brands/b/events").status_code == 404


def test_pages_count_against_the_rate_of_reading(ann: str) -> None:
    client = Client(headers={"Cookie": f"sessionid={ann}"})
    rates = {**django_settings.JOBS, "API_RATES": {"read": "2/d"}}
    with override_settings(JOBS=rates):
        codes = [client.get("/internal/events").status_code for _ in range(3)]
    assert codes == [200, 200, 429]


def test_a_stream_has_the_words_of_the_app(ann: str) -> None:
    mine = tenant()
    start = tell("coach.reflect", mine, number=0) - 1

    async def story() -> None:
        client = AsyncClient()
        client.cookies[django_settings.SESSION_COOKIE_NAME] = ann
        answer: Any = await client.get("/coach/stream", headers={"Last-Event-ID": str(start)})
        assert (answer.status_code, answer["Content-Type"]) == (200, "text/event-stream")
        told = b""
        async for line in answer.streaming_content:
            told += line
            if b"data:" in told:
                break
        assert f"id: {start + 1}\nevent: coach.reflect\ndata: {{".encode() in told
        assert b'"eventId"' in told
        await answer.streaming_content.aclose()

    play(story)
    client = Client(headers={"Cookie": f"sessionid={ann}"})
    assert client.get("/coach/stream").status_code == 501


# ---- how many


async def taken(ann: str) -> Socket | int:
    """A socket that is open; the code where it was closed instead."""
    socket = await Socket("/ws/coach", ann).open()
    try:
        await socket.next()
    except Closed as closed:
        await socket.close()
        return int(closed.args[0])
    return socket


async def taken_soon(ann: str) -> Socket:
    async with asyncio.timeout(10):
        while isinstance(found := await taken(ann), int):
            await asyncio.sleep(0.05)
    return found


def test_one_principal_has_so_many_sockets(ann: str) -> None:
    async def story() -> None:
        open_ = [await taken(ann) for _ in range(2)]
        assert all(isinstance(one, Socket) for one in open_)
        assert await taken(ann) == 4429
        assert isinstance(open_[0], Socket) and isinstance(open_[1], Socket)
        await open_[0].close()
        again = await taken_soon(ann)
        for one in (open_[1], again):
            await one.close()

    play(story)


def test_the_bound_holds_over_processes(ann: str) -> None:
    who = User.objects.get(username="ann")
    identity = Principal("ann", "api", frozenset(), user_id=str(who.pk)).identity
    elsewhere = [seats.Seat(f"coach {identity}", 2) for _ in range(2)]
    assert all(seat.take() for seat in elsewhere)

    async def story() -> None:
        assert await taken(ann) == 4429
        await sync_to_async(elsewhere[0].leave)()
        socket = await taken_soon(ann)
        await socket.close()

    play(story)
    elsewhere[1].leave()


def test_the_seats_of_a_dead_process_are_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "SECONDS", 1)
    dead, kept, other = (seats.Seat("a name", 2) for _ in range(3))
    assert dead.take() and kept.take() and not other.take()

    def is_free() -> bool:
        kept.keep()
        return other.take()

    wait_until(is_free, 10, message="the dead one's seat is free")
    assert not seats.Seat("a name", 2).take()
    for seat in (kept, other):
        seat.leave()


def test_without_redis_each_process_counts_for_itself(
    ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> bool:
        raise TimeoutError

    monkeypatch.setattr(rq, "hold_seat", away)
    monkeypatch.setattr(rq, "leave_seat", away)
    test_one_principal_has_so_many_sockets(ann)


# ---- what the documents show


def test_the_channel_of_the_docs_works() -> None:
    space: dict[str, Any] = {}
    for block in blocks("docs/realtime.md", "python"):
        if block.startswith("# shop/"):
            exec(compile(block, "realtime.md", "exec"), space)  # noqa: S102
    start = tell("shop.plan.ready", "brand:a", "plan:7", plan=7) - 1
    tell("shop.plan.ready", "brand:a", "plan:8", plan=8)
    asked = space["board"].question({"plan": "7"}, {"brand": "a"}, ANN)
    [event] = [one for one in jobs.events.feed(since=start) if asked.view.shows(one)]
    assert json.loads(space["board"].text(event)) == {
        "type": "plan.ready",
        "eventId": start + 1,
        "ts": DjangoJSONEncoder().default(event.occurred_at),
        "payload": {"plan": 7},
    }
    assert asked.seat is not None and asked.seat[1] == 5
    [socket] = space["websocket_urlpatterns"]
    assert socket.resolve("ws/shop/a").kwargs == {"brand": "a"}


def test_every_option_of_a_channel_is_documented() -> None:
    _, _, rest = text("docs/realtime.md").partition("\n## Channels\n")
    told = first_cells(rest.partition("\n## How it works\n")[0])
    assert sorted(told) == sorted({one.name for one in fields(realtime.Channel)} - {"name"})
