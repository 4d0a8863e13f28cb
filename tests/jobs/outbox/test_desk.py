"""What people decide about events, and what the database refuses."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

import jobs
from jobs.engine import outbox
from jobs.errors import EventError
from jobs.models import Outbox
from jobs.operate import outbox as desk
from jobs.states import OUTBOX_EDGES, OutboxState, moves
from tests.jobs.factories import (
    sql,
)
from tests.jobs.outbox.telling import relay, waiting

pytestmark = pytest.mark.django_db


def number(topic: str) -> int:
    return Outbox.objects.get(topic=topic).id


# ---- what people decide


def test_a_parked_event_waits_for_somebody_and_its_key_with_it() -> None:
    jobs.emit("a.1", {}, key="a")
    jobs.emit("a.2", {}, key="a")
    desk.park(number("a.1"), by="ann", reason="wrong")
    assert relay() == ["jobs.event.parked"]
    desk.publish(number("a.1"), by="ann", reason="right after all")
    assert relay() == ["jobs.event.parked", "a.1", "a.2"]


def test_a_discarded_event_is_never_told_and_lets_the_others_go() -> None:
    for topic in ("a.1", "a.2", "a.3"):
        jobs.emit(topic, {}, key="a")
    desk.park(number("a.1"), by="ann", reason="wrong")
    relay()
    desk.park(number("a.2"), by="ann", reason="wrong, too")
    desk.discard(number("a.1"), by="ann", reason="no use")
    assert [t for t in relay() if t.startswith("a.")] == []
    desk.discard(number("a.2"), by="bob", reason="no use")
    assert [t for t in relay() if t.startswith("a.")] == ["a.3"]
    row = Outbox.objects.get(topic="a.2")
    assert row.history[-1][1:] == ["parked", "discarded", "bob", "no use"]


def test_what_waits_behind_a_held_event_comes_after_it() -> None:
    """Also what is written between the release and the next portion."""
    jobs.emit("a.1", {}, key="a")
    jobs.emit("a.2", {}, key="a")
    desk.park(number("a.1"), by="ann", reason="wrong")
    relay()
    jobs.emit("a.3", {}, key="a")
    desk.publish(number("a.1"), by="ann", reason="right")
    for _ in range(5):
        outbox.relay_once(1)
    assert relay() == ["jobs.event.parked", "a.1", "a.2", "a.3"]


@pytest.mark.parametrize("action", [desk.park, desk.publish, desk.discard])
def test_an_action_names_what_is_wrong(action: Any) -> None:
    jobs.emit("a.1", {})
    found = number("a.1")
    for arguments, problem in [
        ((found, {"by": "", "reason": "x"}), "^by: "),
        ((found, {"by": "ann", "reason": ""}), "^reason: "),
        ((0, {"by": "ann", "reason": "x"}), "there is no event 0"),
        (("1", {"by": "ann", "reason": "x"}), "there is no event '1'"),
    ]:
        with pytest.raises(jobs.JobsError, match=problem):
            action(arguments[0], **arguments[1])
    assert waiting() == [("a.1", "pending")]


def test_only_what_is_stuck_is_published_by_hand() -> None:
    jobs.emit("a.1", {})
    with pytest.raises(EventError, match="it is pending; it must be failed or parked"):
        desk.publish(number("a.1"), by="ann", reason="hurry")
    desk.discard(number("a.1"), by="ann", reason="x")
    with pytest.raises(EventError, match="it is discarded"):
        desk.discard(number("a.1"), by="ann", reason="x")


# ---- what the database refuses


_SHAPES = {
    "pending": "due_at = NULL, position = NULL, closed_at = NULL",
    "failed": "due_at = jobs_clock(), position = NULL, closed_at = NULL",
    "parked": "due_at = NULL, position = NULL, closed_at = NULL",
    "published": "due_at = NULL, position = 1, closed_at = jobs_clock()",
    "discarded": "due_at = NULL, position = NULL, closed_at = jobs_clock()",
}
_WAYS: dict[str, tuple[str, ...]] = {
    "pending": (),
    "failed": ("failed",),
    "parked": ("parked",),
    "published": ("published",),
    "discarded": ("discarded",),
}


def brought(state: str) -> None:
    sql(f"UPDATE jobs_outbox SET state = %s, {_SHAPES[state]}", [state])  # noqa: S608


@pytest.mark.parametrize("source", list(OutboxState))
@pytest.mark.parametrize("target", list(OutboxState))
def test_the_database_allows_the_edges_and_nothing_else(source: str, target: str) -> None:
    if source == target:
        return
    jobs.emit("a.1", {})
    for step in _WAYS[source]:
        brought(step)
    if (source, target) in moves(OUTBOX_EDGES):
        brought(target)
        assert Outbox.objects.get().history[-1][1:3] == [source, target]
    else:
        with pytest.raises(IntegrityError, match="illegal move"), transaction.atomic():
            brought(target)


@pytest.mark.parametrize("state", ["pending", "failed", "parked"])
def test_an_event_that_was_not_told_cannot_be_deleted(state: str) -> None:
    jobs.emit("a.1", {})
    if state != "pending":
        brought(state)
    with pytest.raises(IntegrityError, match="cannot be deleted"), transaction.atomic():
        sql("DELETE FROM jobs_outbox")


@pytest.mark.parametrize(
    ("constraint", "columns"),
    [
        ("jobs_outbox_published_has_position", "state = 'published', closed_at = jobs_clock()"),
        ("jobs_outbox_published_has_position", "position = 7"),
        ("jobs_outbox_failed_has_time", "state = 'failed'"),
        ("jobs_outbox_closed_has_time", "state = 'discarded'"),
        ("jobs_outbox_held_waits", "state = 'parked', held = true"),
        ("jobs_outbox_audience_known", "audience = 'world'"),
        ("jobs_outbox_mover_consumed", "moved_by = 'me'"),
    ],
)
def test_an_impossible_row_is_refused(constraint: str, columns: str) -> None:
    jobs.emit("a.1", {})
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        sql(f"UPDATE jobs_outbox SET {columns}")  # noqa: S608


def test_an_event_is_born_pending() -> None:
    with pytest.raises(IntegrityError, match="cannot be born"), transaction.atomic():
        sql(
            "INSERT INTO jobs_outbox (topic, payload, state, position, closed_at) "
            "VALUES ('a', '{}', 'published', 1, jobs_clock())"
        )
