"""Days come and go in the feed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

import jobs
from jobs.engine import feed
from jobs.errors import FeedGone
from tests.jobs.factories import sql
from tests.jobs.feed.telling import told, topics

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


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
    start = jobs.events.feed_head()
    first = told("old", "old")
    day(1)
    second = told("new")
    day(2)
    assert feed.keep_up() == 0 and topics(jobs.events.feed(start)) == ["old", "old", "new"]
    day(3)
    assert feed.keep_up() >= 1
    for since in (start, first[0]):
        with pytest.raises(FeedGone, match="has been pruned") as gone:
            jobs.events.feed(since)
        assert (gone.value.floor, gone.value.head) == (first[-1], second[-1])
    assert topics(jobs.events.feed(first[-1])) == ["new"]
    assert topics(jobs.events.feed()) == ["new"]
    day(4)
    feed.keep_up()
    assert jobs.events.feed() == [] and jobs.events.feed_head() == second[-1]
    with pytest.raises(FeedGone):
        jobs.events.feed(first[-1])


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
