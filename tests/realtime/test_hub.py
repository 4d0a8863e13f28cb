"""The hub: no gap, no double and no other order, wherever a listener joins."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from django.db import connections

import jobs
from jobs.engine import feed, outbox, rq
from jobs.errors import FeedGone
from jobs.realtime import hub as hubs
from jobs.realtime.hub import Hub, TooMany, TooSlow
from jobs.realtime.parcels import Item, Parcel
from jobs.realtime.questions import Question, View
from tests.jobs.factories import sql
from tests.wait import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
ALL = View(is_staff=True)


def tell(count: int, topic: str = "told", **options: Any) -> int:
    """So many events more are in the feed; answers its head."""
    for number in range(count):
        jobs.emit(topic, {"number": number}, **options)
    while outbox.relay_once().moved:
        pass
    return jobs.events.feed_head()


def play(act: Callable[[Hub], Coroutine[Any, Any, Any]]) -> Any:
    """What the coroutine answers, on a loop and a hub of its own."""

    async def played() -> Any:
        hub = Hub()
        try:
            async with asyncio.timeout(60):
                return await act(hub)
        finally:
            hub.end()

    return asyncio.run(played())


async def positions(hub: Hub, question: Question, last: int) -> list[int]:
    """The positions of what one listener is told, until he has been told of ``last``."""
    seen: list[int] = []
    reached = -1
    stream = hub.listen(question)
    async for parcel in stream:
        assert parcel.position >= reached, "it went backwards"
        reached = parcel.position
        seen += [item.event.position for item in parcel.items]
        assert not seen or seen[-1] <= reached
        if reached >= last:
            break
    await stream.aclose()
    return seen


def test_what_was_and_what_comes_is_one() -> None:
    start = jobs.events.feed_head()
    tell(5)

    async def act(hub: Hub) -> list[int]:
        listening = asyncio.create_task(positions(hub, Question(ALL, start), start + 10))
        await asyncio.to_thread(in_thread, lambda: tell(5))
        hub.ring()
        return await listening

    assert play(act) == list(range(start + 1, start + 11))


def in_thread(act: Callable[[], Any]) -> Any:
    try:
        return act()
    finally:
        connections.close_all()


@pytest.mark.parametrize("seed", range(4))
def test_listeners_join_and_leave_at_any_moment(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is remembered, so that each joins at the edge of it; reads are slow and overlap."""
    draw = random.Random(seed)
    monkeypatch.setattr(hubs, "KEPT_EVENTS", 7)
    monkeypatch.setattr(hubs, "GAP", 0.001)
    monkeypatch.setattr(hubs, "LOOK", 0.005)
    monkeypatch.setattr(hubs, "LOOK_WITHOUT_BELL", 0.005)
    monkeypatch.setattr(hubs, "_PAGE", 11)
    start, total = jobs.events.feed_head(), 400
    real = feed.feed

    def slow(*arguments: Any) -> Any:
        page = real(*arguments)
        if draw.random() < 0.3:
            sql("SELECT pg_sleep(%s)", [draw.random() * 0.01])
        return page

    monkeypatch.setattr(feed, "feed", slow)

    def write() -> None:
        for _ in range(total // 20):
            tell(20)

    async def client(hub: Hub, view: View) -> list[int]:
        """Comes and goes, and reads on from where he was."""
        seen: list[int] = []
        place = start
        while place < start + total:
            stream = hub.listen(Question(view, place))
            patience = draw.randint(1, 8)
            async for parcel in stream:
                seen += [item.event.position for item in parcel.items]
                place = parcel.position
                patience -= 1
                if not patience or place >= start + total:
                    break
            await stream.aclose()
        return seen

    async def act(hub: Hub) -> list[list[int]]:
        writing = asyncio.create_task(asyncio.to_thread(in_thread, write))
        views = [ALL, ALL, View(is_staff=True, topics=("to*",))] * 2
        seen = await asyncio.gather(*(client(hub, view) for view in views))
        await writing
        return seen

    for seen in play(act):
        assert seen == list(range(start + 1, start + total + 1)), f"seed {seed}"


def test_one_who_has_read_further_than_the_hub_is_told_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hubs, "LOOK", 60.0)
    monkeypatch.setattr(hubs, "LOOK_WITHOUT_BELL", 60.0)
    monkeypatch.setattr(rq, "hear_rings", lambda over, rung: None)  # it looks when it is told to
    start = jobs.events.feed_head()

    async def act(hub: Hub) -> list[int]:
        waiting = hub.listen(Question(ALL))
        await anext(waiting)  # the hub has begun, and rests at ``start``
        await asyncio.to_thread(in_thread, lambda: tell(3))
        ahead = hub.listen(Question(ALL, start + 1))
        found = [await anext(ahead), await anext(ahead)]
        await asyncio.to_thread(in_thread, lambda: tell(2))
        hub.ring()
        while found[-1].position < start + 5:
            found.append(await anext(ahead))
        return [item.event.position for parcel in found for item in parcel.items]

    assert play(act) == [start + 2, start + 3, start + 4, start + 5]


def test_a_position_that_is_not_there_is_an_error() -> None:
    head = tell(1)
    with pytest.raises(FeedGone):
        play(lambda hub: positions(hub, Question(ALL, head + 1), head + 2))


def test_a_feed_that_is_gone_is_told_to_all() -> None:
    tell(3)

    async def act(hub: Hub) -> None:
        stream = hub.listen(Question(ALL))
        await anext(stream)

        def lose() -> None:
            sql("UPDATE jobs_feed_head SET position = position + 5, floor = position + 5")

        await asyncio.to_thread(in_thread, lose)
        await anext(stream)

    with pytest.raises(FeedGone):
        play(act)


def test_a_slow_listener_is_cut_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "QUEUE_SIZE", 3000)
    start = jobs.events.feed_head()

    async def act(hub: Hub) -> tuple[int, list[int]]:
        slow = hub.listen(Question(ALL, start))
        place = (await anext(slow)).position
        later = asyncio.create_task(anext(slow))  # he has joined, and then takes nothing
        quick = hub.listen(Question(ALL, start))
        seen: list[int] = []
        told = 0
        while len(seen) < 40:
            if len(seen) == told:
                await asyncio.to_thread(in_thread, lambda: tell(5))
                told += 5
                hub.ring()
            seen += [item.event.position for item in (await anext(quick)).items]
        await quick.aclose()
        place = max(place, (await later).position)
        with pytest.raises(TooSlow):
            while True:
                place = (await anext(slow)).position
        return place, [*seen, *await positions(hub, Question(ALL, place), start + 40)]

    place, seen = play(act)
    assert seen == [*range(start + 1, start + 41), *range(place + 1, start + 41)]


def test_there_is_a_most_of_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "MOST_LISTENERS", 1)

    async def act(hub: Hub) -> None:
        first = hub.listen(Question(ALL))
        await anext(first)
        with pytest.raises(TooMany):
            await anext(hub.listen(Question(ALL)))
        await first.aclose()
        await anext(hub.listen(Question(ALL)))

    play(act)


def test_nobody_listens_and_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(hub: Hub) -> None:
        stream = hub.listen(Question(ALL))
        await anext(stream)
        assert hub._reader is not None
        await stream.aclose()
        assert (hub._reader, hub.count) == (None, 0)  # type: ignore[comparison-overlap]

    play(act)
    wait_until(lambda: not any(t.name.startswith("jobs-hub") for t in threading.enumerate()))


def test_without_redis_the_feed_is_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(over: threading.Event, rung: Callable[[bool], object]) -> None:
        rung(False)

    monkeypatch.setattr(rq, "hear_rings", deaf)
    start = jobs.events.feed_head()

    async def act(hub: Hub) -> list[int]:
        listening = asyncio.create_task(positions(hub, Question(ALL, start), start + 3))
        await asyncio.to_thread(in_thread, lambda: tell(3))
        return await listening

    assert play(act) == [start + 1, start + 2, start + 3]


def test_a_broken_connection_loses_nothing() -> None:
    start = jobs.events.feed_head()
    [(mine,)] = sql("SELECT pg_backend_pid()")

    async def act(hub: Hub) -> list[int]:
        listening = asyncio.create_task(positions(hub, Question(ALL, start), start + 6))
        broken = 0
        for _ in range(3):
            await asyncio.to_thread(in_thread, lambda: tell(2))
            broken += await asyncio.to_thread(in_thread, lambda: break_others(mine))
        assert broken
        return await listening

    assert play(act) == list(range(start + 1, start + 7))


def break_others(mine: int) -> int:
    """Every connection but that of the test itself is gone."""
    found = sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
        "current_database() AND backend_type = 'client backend' "
        "AND pid NOT IN (pg_backend_pid(), %s)",
        [mine],
    )
    return len(found)


def test_a_parcel_names_the_position_behind_it() -> None:
    start = jobs.events.feed_head()
    tell(2)
    items = [Item(event) for event in jobs.events.feed(start)]
    parcel = Parcel(items, start + 9)
    assert f'"position":{start + 9},"events":[{{"position":{start + 1},' in parcel.message
    assert parcel.lines.startswith(f"id: {start + 1}\nevent: told\ndata: {{".encode())
    assert parcel.lines.endswith(f": on\nid: {start + 9}\n\n".encode())
