"""The feed is read from a position to its end, and stays as it is."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

import jobs
from jobs.engine import feed
from jobs.errors import EventError, FeedGone
from tests.jobs.factories import sql
from tests.jobs.feed.telling import told, topics

# ---- reading


@pytest.mark.django_db
def test_the_feed_is_read_on_from_where_one_was() -> None:
    start = jobs.events.feed_head()
    positions = told("a", "b", "c", "d", "e")
    first = jobs.events.feed(start, limit=2)
    assert [e.position for e in first] == positions[:2]
    assert (first.position, first.head, first.is_end) == (positions[1], positions[-1], False)
    rest = jobs.events.feed(first.position)
    assert topics(rest) == ["c", "d", "e"] and rest.is_end
    assert (
        jobs.events.feed(rest.position) == []
        and jobs.events.feed(rest.position).position == positions[-1]
    )


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
    start = jobs.events.feed_head()
    told("order.paid", "order.sent", "user-1.made", "userx1.made")
    assert topics(jobs.events.feed(start, globs)) == found


@pytest.mark.django_db
def test_a_tenant_sees_his_own_and_nothing_of_the_staff() -> None:
    start = jobs.events.feed_head()
    told("a.mine", tenant="acme")
    told("a.staff", tenant="acme", audience="staff")
    told("a.other", tenant="other")
    told("a.nobody")
    assert topics(jobs.events.feed(start, tenant="acme")) == ["a.mine"]
    assert topics(jobs.events.feed(start, tenant=["acme", "other"])) == ["a.mine", "a.other"]
    assert topics(jobs.events.feed(start, tenant="")) == ["a.nobody"]
    assert jobs.events.feed(start, tenant=[]) == []
    assert len(jobs.events.feed(start)) == 4


@pytest.mark.django_db
def test_a_reader_of_something_rare_gets_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "SCAN", 3)
    start = jobs.events.feed_head()
    positions = told(*["common"] * 7, "rare")
    place, calls = start, 0
    found: list[jobs.events.Event] = []
    while True:
        page = jobs.events.feed(place, "rare")
        found += page
        place, calls = page.position, calls + 1
        if page.is_end:
            break
    assert (topics(found), place, calls) == (["rare"], positions[-1], 3)


@pytest.mark.django_db
@pytest.mark.parametrize("since", [1, 10**6, 2**62])
def test_a_position_that_was_never_reached_is_an_error(since: int) -> None:
    with pytest.raises(FeedGone, match="was never reached"):
        jobs.events.feed(jobs.events.feed_head() + since)


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
        jobs.events.feed(**options)


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
    assert jobs.events.feed_head() == positions[-1] + 1
    assert topics(jobs.events.feed(positions[-1])) == ["c"]
