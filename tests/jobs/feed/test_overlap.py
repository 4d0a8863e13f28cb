"""Several write and relay at once; a reader misses nothing and sees nothing twice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

import jobs
from jobs.engine import feed, outbox, rq
from tests.jobs.crowd import at_once
from tests.jobs.factories import sql
from tests.jobs.feed.telling import told, topics
from tests.wait import wait_until


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
        seen = jobs.events.feed()
        may_commit.set()
        wait_until(lambda: outbox.relay_once().published)
        return [topics(seen), topics(jobs.events.feed(seen.position))]

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
                # One that was killed may hold the place for another moment.
                moved = moved or int(
                    sql("SELECT count(*) FROM jobs_outbox WHERE state = 'pending'")[0][0]
                )
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

    def read(self, n: int) -> list[jobs.events.Event]:
        draw = random.Random(self.seed * 1000 + 200 + n)
        seen: list[jobs.events.Event] = []
        position = 0
        while True:
            was_over = self.is_over() and len(seen) >= len(self.committed)
            page = jobs.events.feed(position, limit=draw.randint(1, 500))
            seen += page
            assert page.position >= position, "the feed went backwards"
            position = page.position
            if was_over and page.is_end:
                return seen

    def judge(self, seen: list[jobs.events.Event]) -> None:
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
