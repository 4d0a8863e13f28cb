"""Subscribers and the relay: in order, and none is lost or skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import jobs
from jobs import events
from jobs.engine import outbox
from jobs.engine.relay import Relay
from jobs.models import Feed, Outbox
from jobs.operate import outbox as desk
from tests.jobs.outbox.telling import relay
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


@pytest.fixture
def subscribe() -> Iterator[Callable[..., None]]:
    names: list[str] = []

    def register(function: Callable[[jobs.events.Event], object], *topics: str) -> None:
        names.append(f"test-{len(names)}")
        events.subscriber(*topics, name=names[-1])(function)

    yield register
    for name in names:
        events.unsubscribe(name)


# ---- subscribers


def test_a_subscriber_is_told_its_topics_with_their_positions(subscribe: Any) -> None:
    heard: list[jobs.events.Event] = []
    subscribe(heard.append, "order.*", "user.made")
    for topic in ("order.paid", "price.up", "user.made", "user.gone"):
        jobs.emit(topic, {"t": topic})
    assert relay() == ["order.paid", "price.up", "user.made", "user.gone"]
    assert heard == list(jobs.events.feed(topics=["order.*", "user.made"]))


def test_what_a_subscriber_writes_is_written_with_the_event(subscribe: Any) -> None:
    def enqueue(event: jobs.events.Event) -> None:
        jobs.enqueue(Noop(data=str(event.id)))
        if event.payload["n"] == 1 and Outbox.objects.get(event_id=event.id).tries == 0:
            raise ValueError("not now")

    subscribe(enqueue)
    ids = [jobs.emit("order.paid", {"n": n}) for n in range(2)]
    assert outbox.relay_once() == outbox.Relayed(published=1, failed=1)
    assert [job.payload["data"] for job in jobs.Job.objects.all()] == [str(ids[0])]


def test_a_failing_event_holds_back_its_own_key_only(
    subscribe: Any, set_clock: Callable[[datetime | None], None]
) -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    set_clock(now)
    broken = True
    heard: list[str] = []

    def hear(event: jobs.events.Event) -> None:
        if event.topic == "a.1" and broken:
            raise ValueError("no")
        heard.append(f"{event.tenant}{event.topic}")

    subscribe(hear)
    for topic, key, tenant in [
        ("a.1", "a", ""),
        ("a.2", "a", ""),
        ("b.1", "b", ""),
        ("c.1", "", ""),
        ("a.1x", "a", "acme"),
    ]:
        jobs.emit(topic, {}, key=key, tenant=tenant)
    assert relay() == ["b.1", "c.1", "a.1x"]
    jobs.emit("a.3", {}, key="a")
    assert relay() == ["b.1", "c.1", "a.1x"]
    assert Outbox.objects.filter(held=True).count() == 2
    [stuck] = desk.events()
    assert (stuck.topic, stuck.state, stuck.tries, stuck.holds_back) == ("a.1", "failed", 1, 2)
    assert stuck.error == "ValueError: no"
    broken = False
    assert outbox.relay_once().moved == 0, "its time has not come"
    jobs.emit("a.4", {}, key="a")
    set_clock(now + timedelta(seconds=1))
    assert relay() == ["b.1", "c.1", "a.1x", "a.1", "a.2", "a.3", "a.4"]
    assert heard == ["b.1", "c.1", "acmea.1x", "a.1", "a.2", "a.3", "a.4"]


def test_an_event_that_fails_too_often_is_parked_and_says_so(
    subscribe: Any, set_clock: Callable[[datetime | None], None], caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def refuse(event: jobs.events.Event) -> None:
        raise ValueError("never")

    subscribe(refuse, "a.*")
    jobs.emit("a.1", {}, key="a")
    jobs.emit("a.2", {}, key="a")
    pauses = []
    for _ in range(outbox.TRIES):
        set_clock(now)
        assert outbox.relay_once().failed == 1
        row = Outbox.objects.get(topic="a.1")
        if row.due_at:
            pauses.append((row.due_at - now).total_seconds())
            now = row.due_at
    assert pauses == [1, 2, 4, 8, 16, 32, 64]
    assert relay() == ["jobs.event.parked"]
    [parked] = desk.events()
    assert (parked.state, parked.tries, parked.holds_back) == ("parked", 8, 1)
    assert "parked after 8 tries; events of key 'a' wait behind it" in caplog.text
    history = [move[1:3] for move in Outbox.objects.get(topic="a.1").history]
    assert history[:2] == [["pending", "failed"], ["failed", "pending"]]
    assert history[-1] == ["pending", "parked"]


# ---- the relay


def test_a_relay_moves_all_of_a_backlog_in_order() -> None:
    for n in range(outbox.PORTION + 20):
        jobs.emit("a.1", {"n": n})
    one, other = Relay(), Relay()
    assert one.work(10) == outbox.PORTION + 20
    assert (one.is_lively, other.is_lively) == (True, False)
    found = list(Feed.objects.order_by("position").values_list("position", "payload__n"))
    assert [n for _, n in found] == list(range(outbox.PORTION + 20))
    positions = [position for position, _ in found]
    assert positions == list(range(positions[0], positions[0] + len(positions)))
