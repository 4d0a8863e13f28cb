"""Listeners: their topics cost little, and nobody takes the places of others."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from django.db import connections, transaction
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

import jobs
from jobs import events
from jobs.engine import outbox
from jobs.errors import EventError
from jobs.principals import Principal, Scope
from jobs.realtime import questions
from jobs.realtime.hub import Hub, TooMany
from jobs.realtime.questions import Question, View, question
from tests.api.conftest import Caller
from tests.attack.slow import MOMENT
from tests.jobs.factories import sql

LONG = "a" * 120
"""As long as a topic may be."""
HOSTILE = {
    "stars": "*" * 200 + "x",
    "letters between stars": "a*" * 200 + "x",
    "stars between letters": "*a" * 100 + "*x*" + "a*" * 100,
    "pairs": "*aa" * 66 + "x",
    "a late match": "*a" * 119 + "*x",
}
MANY_STARS = ["a" + "*b" * 9, "*-" * 9]


def milliseconds(act: Any, times: int = 50) -> float:
    """The shortest of some runs: what the act costs by itself."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        act()
        found.append(time.perf_counter() - begun)
    return min(found) * 1000


@pytest.mark.parametrize("glob", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("topic", [LONG, "ab" * 60, LONG[:-1] + "y"])
def test_a_glob_of_many_stars_is_matched_in_a_moment(glob: str, topic: str) -> None:
    assert milliseconds(lambda: events._matches(glob, topic)) < 1


@pytest.mark.django_db
@pytest.mark.parametrize("glob", HOSTILE.values(), ids=HOSTILE)
def test_so_it_is_in_the_database(glob: str) -> None:
    [like] = events.likes([glob])
    matching = "SELECT count(*) FROM generate_series(1, 100) n WHERE %s || left(n::text, 0) LIKE %s"

    assert milliseconds(lambda: sql(matching, [LONG, like]), 5) < 100 * 2


SIMPLE = st.text("ab_.*", max_size=8)


@given(SIMPLE, st.text("ab_.", max_size=10))
def test_a_glob_means_what_its_parts_say(glob: str, topic: str) -> None:
    def means(glob: str, topic: str) -> bool:
        if not glob:
            return not topic
        if glob[0] == "*":
            return any(means(glob[1:], topic[n:]) for n in range(len(topic) + 1))
        return topic[:1] == glob[0] and means(glob[1:], topic[1:])

    assert events._matches(glob, topic) == means(glob, topic)


@pytest.mark.django_db
def test_the_database_understands_globs_as_python_does() -> None:
    globs = ["a_b", "a*", "*_*", "a.b*", "*a*b", "a-*:b", "*", "a*a"]
    topics = ["a_b", "axb", "a", "ab", "a.b", "a.bc", "acab", "a-x:b", "aa", "aba"]
    for glob in globs:
        [like] = events.likes([glob])
        for topic in topics:
            assert sql("SELECT %s LIKE %s", [topic, like]) == [(events._matches(glob, topic),)]


def test_adjacent_stars_are_one_and_there_are_few_others() -> None:
    assert events.patterns("a**b***") == ("a*b*",)
    assert events.patterns(["**"]) == ()
    for glob in MANY_STARS:
        with pytest.raises(EventError, match="more than 8 stars"):
            events.patterns(glob)
    with pytest.raises(EventError, match="1 to 50"):
        events.patterns(f"a{number}" for number in range(10**9))
    with pytest.raises(EventError, match="is no topic") as caught:
        events.patterns("a" * 10**6)
    assert len(str(caught.value)) < 400


WHO = Principal("ann", "api", scope=Scope(tenants=frozenset({"acme"})), user_id="7")


@pytest.mark.parametrize(
    ("topics", "problem"),
    [
        ("*a" * 9, "stars"),
        (",".join(f"a{number}" for number in range(51)), "1 to 50"),
        ("a" * 201, "is no topic"),
        ("a," * 1001, "longer than 2000"),
    ],
)
def test_what_is_asked_for_is_bounded_on_every_way(
    db: None, client: Client, root: Caller, topics: str, problem: str
) -> None:
    with pytest.raises(EventError, match=problem):  # as a socket asks
        question({"topics": topics}, WHO)
    for path in ("/events", "/events/stream"):
        assert root("GET", f"{path}?topics={topics}").status_code in (422, 501)
    named = {"url": "https://a.example.com/", "tenant": "*", "topics": topics.split(","),
             "reason": "a test"}  # fmt: skip
    assert root("POST", "/webhooks", named).status_code == 422
    made = root("POST", "/webhooks", {**named, "topics": ["a"]}).data["id"]
    patch = {"topics": topics.split(","), "reason": "a test"}
    assert root("PATCH", f"/webhooks/{made}", patch, If_Match="*").status_code == 422


def test_a_list_of_tenants_is_bounded() -> None:
    with pytest.raises(EventError, match="longer than 2000"):
        question({"tenant": "a," * 1001}, WHO)


@pytest.mark.django_db(transaction=True)
def test_an_event_for_many_costly_listeners_leaves_the_loop_to_others() -> None:
    """Each of many listeners has a view of its own, with as many topics as it may have."""
    views = [
        View((*(f"*{n}*a*a*a*a*a*a*{glob}" for glob in range(49)), "told"), is_staff=True)
        for n in range(150)
    ]

    async def act() -> tuple[float, list[int]]:
        hub = Hub()
        try:
            streams = [hub.listen(Question(view)) for view in views]
            for stream in streams:
                await anext(stream)
            waiting = [asyncio.create_task(_first(stream)) for stream in streams]
            worst = 0.0
            await asyncio.to_thread(_tell_many)
            hub.ring()
            while not all(task.done() for task in waiting):
                begun = time.monotonic()
                await asyncio.sleep(0.005)
                worst = max(worst, time.monotonic() - begun)
            return worst, [await task for task in waiting]
        finally:
            hub.end()

    async def _first(stream: Any) -> int:
        found = 0
        async for parcel in stream:
            found += len(parcel.items)
            if found >= 100:
                await stream.aclose()
                break
        return found

    def _tell_many() -> None:
        with transaction.atomic():
            for number in range(100):
                jobs.emit("told", {"n": number})
                # Of other topics as well, each of which is looked at for every listener.
                jobs.emit(f"{'a' * 100}.{number}", {})
        while outbox.relay_once().moved:
            pass
        connections.close_all()

    worst, found = asyncio.run(act())
    assert set(found) == {100}
    assert worst < MOMENT


def test_one_principal_takes_a_part_of_the_places(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MOST_OF_ONE", 3)
    monkeypatch.setattr(questions, "MOST_OF_TENANT", 5)
    scope = Scope(tenants=frozenset({"acme"}))
    people = [Principal(f"p{number}", "api", scope=scope, user_id=str(number)) for number in (1, 2)]
    other = Principal("p3", "api", scope=Scope(tenants=frozenset({"other"})), user_id="3")

    async def act() -> None:
        hub = Hub()

        async def listen(who: Principal, **asked: str) -> Any:
            stream = hub.listen(question(asked, who))
            await anext(stream)
            return stream

        try:
            opened = [await listen(people[0]) for _ in range(3)]
            with pytest.raises(TooMany):
                await listen(people[0], topics="a.*")
            opened += [await listen(people[1]) for _ in range(2)]
            with pytest.raises(TooMany):  # its tenant has no place left
                await listen(people[1])
            opened += [await listen(other)]
            await opened.pop(0).aclose()
            opened += [await listen(people[0])]
            for stream in opened:
                await stream.aclose()
            assert not hub._places
        finally:
            hub.end()

    asyncio.run(act())


def test_pages_with_tickets_of_one_key_are_many() -> None:
    [(_, most), *_rest] = question({"ticket": "x"}, WHO).places

    assert most == questions.MOST_OF_TENANT


def test_names_alone_are_nobodys_identity() -> None:
    shops = [
        Principal("storefront", "api", scope=Scope(tenants=frozenset({name}))) for name in "ab"
    ]

    assert len({who.identity for who in (*shops, WHO)}) == 3
