"""The feed: read from a position to its end it misses nothing, doubles nothing, and never lies."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test import override_settings

import jobs
from jobs import events
from jobs.engine import feed, outbox, rq
from jobs.errors import EventError, FeedGone
from tests.jobs.crowd import at_once
from tests.jobs.factories import sql
from tests.wait import wait_until

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def told(*topics: str, **options: Any) -> list[int]:
    """The positions of the events that are now in the feed."""
    before = jobs.feed_head()
    for topic in topics:
        jobs.emit(topic, {"topic": topic}, **options)
    while outbox.relay_once().moved:
        pass
    return list(range(before + 1, jobs.feed_head() + 1))


def topics(found: list[jobs.Event]) -> list[str]:
    return [event.topic for event in found]


# ---- reading


@pytest.mark.django_db
def test_the_feed_is_read_on_from_where_one_was() -> None:
    start = jobs.feed_head()
    positions = told("a", "b", "c", "d", "e")
    first = jobs.feed(start, limit=2)
    assert [e.position for e in first] == positions[:2]
    assert (first.position, first.head, first.is_end) == (positions[1], positions[-1], False)
    rest = jobs.feed(first.position)
    assert topics(rest) == ["c", "d", "e"] and rest.is_end
    assert jobs.feed(rest.position) == [] and jobs.feed(rest.position).position == positions[-1]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("globs", "found"),
    [
        (None, ["order.paid", "order.sent", "user-1.made", "userx1.made"]),
        ("*", ["order.paid", "order.sent", "user-1.made", "userx1.made"]),
        ("order.*", ["order.paid", "order.sent"]),
        (["order.paid", "*.made"], ["order.paid", "user-1.made", "userx1.made"]),
        ("user-1.made", ["user-1.made"]),
        ("order", []),
        ("orderx*", []),
    ],
)
def test_topics_are_globs(globs: Any, found: list[str]) -> None:
    start = jobs.feed_head()
    told("order.paid", "order.sent", "user-1.made", "userx1.made")
    assert topics(jobs.feed(start, globs)) == found


@pytest.mark.django_db
def test_a_tenant_sees_his_own_and_nothing_of_the_staff() -> None:
    start = jobs.feed_head()
    told("a.mine", tenant="acme")
    told("a.staff", tenant="acme", audience="staff")
    told("a.other", tenant="other")
    told("a.nobody")
    assert topics(jobs.feed(start, tenant="acme")) == ["a.mine"]
    assert topics(jobs.feed(start, tenant=["acme", "other"])) == ["a.mine", "a.other"]
    assert topics(jobs.feed(start, tenant="")) == ["a.nobody"]
    assert jobs.feed(start, tenant=[]) == []
    assert len(jobs.feed(start)) == 4


@pytest.mark.django_db
def test_a_reader_of_something_rare_gets_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "SCAN", 3)
    start = jobs.feed_head()
    positions = told(*["common"] * 7, "rare")
    place, calls = start, 0
    found: list[jobs.Event] = []
    while True:
        page = jobs.feed(place, "rare")
        found += page
        place, calls = page.position, calls + 1
        if page.is_end:
            break
    assert (topics(found), place, calls) == (["rare"], positions[-1], 3)


@pytest.mark.django_db
@pytest.mark.parametrize("since", [1, 10**6, 2**62])
def test_a_position_that_was_never_reached_is_an_error(since: int) -> None:
    with pytest.raises(FeedGone, match="was never reached"):
        jobs.feed(jobs.feed_head() + since)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"since": -1}, "since"),
        ({"since": "7"}, "since"),
        ({"since": True}, "since"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"topics": ""}, "topics"),
        ({"topics": []}, "topics"),
        ({"topics": ["a", 7]}, "topics"),
        ({"topics": "a|b"}, "topics"),
        ({"topics": ["a"] * 51}, "topics"),
        ({"tenant": "a\0b"}, "tenant"),
        ({"tenant": [7]}, "tenant"),
    ],
)
def test_a_bad_question_names_its_option(options: dict[str, Any], name: str) -> None:
    with pytest.raises(EventError, match=f"^{name}: "):
        jobs.feed(**options)


def test_a_glob_matches_the_same_here_and_in_the_database() -> None:
    assert events.expression(["a.*", "b-c"]) == r"^(a\..*|b\-c)$"


# ---- it stays as it is


@pytest.mark.django_db
@pytest.mark.parametrize("write", ["UPDATE jobs_feed SET topic = 'x'", "DELETE FROM jobs_feed"])
def test_the_feed_is_append_only(write: str) -> None:
    told("a")
    with pytest.raises(IntegrityError, match="stays as it is"), transaction.atomic():
        sql(write)


@pytest.mark.django_db
def test_a_lost_head_does_not_give_positions_twice() -> None:
    positions = told("a", "b")
    sql("DELETE FROM jobs_feed_head")
    told("c")
    assert jobs.feed_head() == positions[-1] + 1
    assert topics(jobs.feed(positions[-1])) == ["c"]


# ---- days come and go


@pytest.fixture
def day(set_clock: Callable[[datetime | None], None]) -> Iterator[Callable[[int], None]]:
    def set_day(number: int) -> None:
        set_clock(NOON + timedelta(days=number))

    set_day(0)
    yield set_day


def partitions() -> set[str]:
    return {
        name
        for (name,) in sql(
            "SELECT relname FROM pg_class WHERE relname ~ '^jobs_feed_[0-9]{8}$' AND relispartition"
        )
    }


@pytest.mark.django_db
def test_there_is_a_partition_for_every_day_to_come(day: Callable[[int], None]) -> None:
    feed.keep_up()
    assert {f"jobs_feed_2026050{n}" for n in (1, 2, 3, 4)} <= partitions()


@pytest.mark.django_db
def test_an_event_of_a_day_for_which_nobody_has_made_a_partition_is_told(
    day: Callable[[int], None],
) -> None:
    day(1000)
    assert len(told("a")) == 1
    assert "jobs_feed_20290125" in partitions()


@pytest.mark.django_db
@override_settings(JOBS={"KEEP_FEED": timedelta(days=2)})
def test_old_days_go_and_whoever_reads_on_from_there_is_told_so(
    day: Callable[[int], None],
) -> None:
    start = jobs.feed_head()
    first = told("old", "old")
    day(1)
    second = told("new")
    day(2)
    assert feed.keep_up() == 0 and topics(jobs.feed(start)) == ["old", "old", "new"]
    day(3)
    assert feed.keep_up() >= 1
    for since in (start, first[0]):
        with pytest.raises(FeedGone, match="has been pruned") as gone:
            jobs.feed(since)
        assert (gone.value.floor, gone.value.head) == (first[-1], second[-1])
    assert topics(jobs.feed(first[-1])) == ["new"]
    assert topics(jobs.feed()) == ["new"]
    day(4)
    feed.keep_up()
    assert jobs.feed() == [] and jobs.feed_head() == second[-1]
    with pytest.raises(FeedGone):
        jobs.feed(first[-1])


@pytest.mark.django_db
def test_discarded_events_go_with_the_days(day: Callable[[int], None]) -> None:
    from jobs.models import Outbox
    from jobs.operate import outbox as desk

    jobs.emit("a", {})
    desk.discard(Outbox.objects.get().id, by="ann", reason="no use")
    day(6)
    feed.keep_up()
    assert Outbox.objects.count() == 1
    day(8)
    feed.keep_up()
    assert Outbox.objects.count() == 0


# ---- several at once


@pytest.mark.django_db(transaction=True)
def test_while_one_relays_another_does_nothing() -> None:
    jobs.emit("a", {})
    began, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            sql("SELECT pg_advisory_xact_lock(%s)", [outbox.LOCK])
            began.set()
            may_end.wait(30)

    def look() -> list[outbox.Relayed]:
        began.wait(30)
        first = outbox.relay_once()
        feed.keep_up()
        may_end.set()
        wait_until(lambda: not (last := outbox.relay_once()).is_elsewhere and last.published)
        return [first]

    answers = at_once([hold, look])
    assert answers[1] == [outbox.Relayed(is_elsewhere=True)]


@pytest.mark.django_db(transaction=True)
def test_an_event_that_commits_late_comes_late_and_is_not_skipped() -> None:
    wrote, may_commit = threading.Event(), threading.Event()

    def late() -> None:
        with transaction.atomic():
            jobs.emit("late", {})
            wrote.set()
            may_commit.wait(30)

    def early() -> list[list[str]]:
        wrote.wait(30)
        told("early")
        seen = jobs.feed()
        may_commit.set()
        wait_until(lambda: outbox.relay_once().published)
        return [topics(seen), topics(jobs.feed(seen.position))]

    assert at_once([late, early])[1] == [["early"], ["late"]]


@pytest.mark.django_db(transaction=True)
def test_listeners_are_told_after_the_commit() -> None:
    client: Any = rq.client()
    with client.pubsub() as listener:
        listener.subscribe(rq.FEED)
        wait_until(lambda: (m := listener.get_message()) and m["type"] == "subscribe")
        [position] = told("a")
        message = wait_until(lambda: listener.get_message(ignore_subscribe_messages=True))
        assert int(message["data"]) == position


@pytest.mark.django_db(transaction=True)
def test_a_relay_without_redis_relays(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Any:
        raise ConnectionError("away")

    monkeypatch.setattr(outbox, "wire", away)
    sql("SELECT jobs_emit(gen_random_uuid(), 'a', '', '', 'tenant', '{}')")
    assert outbox.relay_once().published == 1


class Attack:
    """Writers with overlapping transactions, relays that are cut off, readers that poll."""

    def __init__(self, total: int, seed: int, writers: int = 8, pause: float = 0.01) -> None:
        self.share, self.seed, self.pause = total // writers, seed, pause
        self.writers = writers
        self.committed: set[str] = set()
        self.kills = 0
        self.left = writers
        self._lock = threading.Lock()
        self.deadline = time.monotonic() + 600

    def run(self) -> None:
        sql("CREATE TABLE attack_counter (id int PRIMARY KEY, n int NOT NULL)")
        sql("INSERT INTO attack_counter SELECT g, 0 FROM generate_series(0, 3) g")
        try:
            acts: list[Callable[[], Any]] = [partial(self.write, n) for n in range(self.writers)]
            acts += [partial(self.relay, n) for n in range(2)]
            acts += [self.kill, *[partial(self.read, n) for n in range(2)]]
            answers = at_once(acts, 600)
        finally:
            sql("DROP TABLE attack_counter")
        for seen in answers[-2:]:
            self.judge(seen)

    def write(self, n: int) -> None:
        """Transactions of some events each, held open for a while; some are taken back."""
        draw = random.Random(self.seed * 1000 + n)
        left = self.share
        while left > 0:
            size = min(left, draw.randint(1, 20))
            row = draw.randrange(4)
            mine: list[str] = []
            try:
                with transaction.atomic():
                    shared = draw.random() < 0.3
                    for place in range(size):
                        key, number = f"writer-{n}", -1
                        if shared and place == size - 1:
                            # The row's lock makes others wait: their numbers follow this one.
                            [(number,)] = sql(
                                "UPDATE attack_counter SET n = n + 1 WHERE id = %s RETURNING n",
                                [row],
                            )
                            key = f"shared-{row}"
                        payload = {"writer": n, "left": left - place, "number": number}
                        mine.append(str(jobs.emit("attack", payload, key=key)))
                    sql("SELECT pg_sleep(%s)", [draw.random() * self.pause])
                    if draw.random() < 0.1:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                continue
            left -= size
            with self._lock:
                self.committed.update(mine)
        with self._lock:
            self.left -= 1

    def relay(self, n: int) -> None:
        draw = random.Random(self.seed * 1000 + 100 + n)
        moved = 1
        while moved or not self.is_over():
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SET application_name = 'attacked'")
                moved = outbox.relay_once(draw.randint(1, 300)).moved
            except DatabaseError:
                connection.close()
                moved = 1

    def kill(self) -> None:
        draw = random.Random(self.seed)
        while self.left:
            sql("SELECT pg_sleep(%s)", [draw.random() * 0.1])
            found = sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
                "current_database() AND application_name = 'attacked' AND state <> 'idle'"
            )
            self.kills += len(found)

    def is_over(self) -> bool:
        assert time.monotonic() < self.deadline, f"seed {self.seed}: it takes for ever"
        return self.left == 0

    def read(self, n: int) -> list[jobs.Event]:
        draw = random.Random(self.seed * 1000 + 200 + n)
        seen: list[jobs.Event] = []
        position = 0
        while True:
            was_over = self.is_over() and len(seen) >= len(self.committed)
            page = jobs.feed(position, limit=draw.randint(1, 500))
            seen += page
            assert page.position >= position, "the feed went backwards"
            position = page.position
            if was_over and page.is_end:
                return seen

    def judge(self, seen: list[jobs.Event]) -> None:
        told_by = f"seed {self.seed}, {self.kills} kills"
        positions = [event.position for event in seen]
        assert positions == list(range(1, len(seen) + 1)), told_by
        assert sorted(str(event.id) for event in seen) == sorted(self.committed), told_by
        by_key: dict[str, list[int]] = {}
        for event in seen:
            number = event.payload["number"]
            order = number if number > 0 else -event.payload["left"]
            by_key.setdefault(event.key, []).append(order)
        for key, numbers in by_key.items():
            assert numbers == sorted(numbers), f"{told_by}: {key} is out of order"


@pytest.mark.django_db(transaction=True)
def test_a_reader_misses_nothing_while_writers_overlap_and_relays_die() -> None:
    attack = Attack(total=1600, seed=7)
    attack.run()
    assert attack.kills > 0


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", [1])
def test_a_reader_misses_nothing_of_a_hundred_thousand_events(seed: int) -> None:
    Attack(total=100_000, seed=seed, pause=0.02).run()
