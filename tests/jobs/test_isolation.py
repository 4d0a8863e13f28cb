"""What a kind declares about a process of its own, and what passes between it and its executor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jobs
from jobs import registry
from jobs.engine import messages
from jobs.engine.admission import Closing
from jobs.engine.claims import Claim, Ended, Success
from jobs.errors import HandlerError
from jobs.events import Message
from jobs.ids import uuid7
from jobs.isolation import Isolation
from jobs.outcomes import Fault, Move
from jobs.redaction import Redacted
from jobs.states import JobState


class Alone(jobs.Payload, kind="test.alone"):
    pass


@pytest.fixture
def declare() -> Iterator[Any]:
    """Register a handler with these options; return what is known of it."""

    def register(**options: Any) -> registry.Handler:
        jobs.handler(Alone, **options)(lambda ctx, payload: None)
        return registry.get("test.alone")

    yield register
    if registry.find("test.alone"):
        registry.unregister("test.alone")


# ---- declared


def test_there_are_defaults(declare: Any) -> None:
    assert declare().isolation is None
    assert declare(isolation="process").isolation == Isolation(2**30, None, 256, 64)


def test_limits_are_declared_at_the_handler(declare: Any) -> None:
    limits = {"memory": "512MB", "cpu": timedelta(minutes=1), "files": 32, "processes": 0}
    made = declare(isolation="process", **limits)
    assert made.isolation == Isolation(512 * 2**20, 60.0, 32, 0)
    assert declare(isolation="process", memory=2**25).isolation.memory == 2**25


WRONG: list[tuple[str, Any]] = [
    ("memory", "512"),
    ("memory", "512 mb"),
    ("memory", "1e3MB"),
    ("memory", "1KB"),
    ("memory", "\u0665MB"),
    ("memory", 0),
    ("memory", True),
    ("memory", 1.5),
    ("memory", 2**60),
    ("cpu", 0),
    ("cpu", "60"),
    ("cpu", True),
    ("cpu", float("nan")),
    ("cpu", timedelta(days=400)),
    ("files", 3),
    ("files", "64"),
    ("files", True),
    ("processes", -1),
    ("processes", 1.0),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_limit_is_refused_by_its_name(declare: Any, name: str, value: Any) -> None:
    with pytest.raises(HandlerError, match=f"^handler: {name} must "):
        declare(isolation="process", **{name: value})


@pytest.mark.parametrize("name", ["memory", "cpu", "files", "processes"])
def test_a_limit_needs_a_process(declare: Any, name: str) -> None:
    with pytest.raises(HandlerError, match=f"^handler: {name} means nothing without isolation"):
        declare(**{name: 64})


@pytest.mark.parametrize("value", ["thread", "", True, 1])
def test_there_is_one_way_of_isolation(declare: Any, value: Any) -> None:
    with pytest.raises(HandlerError, match=r"^handler: isolation must be 'process' or None"):
        declare(isolation=value)


def test_the_grace_after_a_timeout(declare: Any, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "GRACE": 2.5}
    assert declare().grace == 2.5
    assert declare(grace=timedelta(minutes=1)).grace == 60.0
    assert declare(grace=0).grace == 0.0
    for wrong in (-1, "5", None, float("inf"), True):
        if wrong is not None:
            with pytest.raises(HandlerError, match="grace"):
                declare(grace=wrong)


def test_how_often_jobs_may_be_preempted(declare: Any) -> None:
    assert declare(preemptible=True).preemptions is None
    assert declare(preemptible=True, preemptions=0).preemptions == 0
    for wrong in (-1, 1001, True, 1.0, "3"):
        with pytest.raises(HandlerError, match="preemptions must lie between 0 and 1000"):
            declare(preemptible=True, preemptions=wrong)
    with pytest.raises(HandlerError, match="preemptions means nothing unless"):
        declare(preemptions=1)


# ---- what passes


def a_claim() -> Claim:
    return Claim(
        uuid7(), "test.alone", "q", '{"a": 1}', 1, 2, 1, 0, 0, 5, 30.0, "t", "c", 3, uuid7(), 65,
        "key",
    )  # fmt: skip


def test_a_claim_arrives_as_it_is() -> None:
    claim = a_claim()
    assert messages.unpack_claim(messages.pack_claim(claim)) == claim


def test_results_arrive_as_they_are() -> None:
    claim = a_claim()
    message = Message(uuid7(), "a.topic", "k", "t", "tenant", '{"x": [1]}')
    fault = Fault("app.Error", "message ☃", "Traceback …")
    move = Move(JobState.FAILED, "why", failed=1, attempt="failed", reason="exhausted")
    closing = Closing("kind:test.alone", "q", None, None, 3.5)
    results: list[Success | Ended | None] = [
        Success(claim, '{"a": "☃"}', (message,), 1.25),
        Ended(claim.id, claim.token, claim.kind, move, fault, None, "failed", ("one", "two")),
        Ended(claim.id, claim.token, claim.kind, Move(JobState.PENDING, "w"), None, closing),
        None,
    ]
    for result in results:
        assert messages.unpack_result(messages.pack_result(result), claim) == result


def test_an_error_is_shown_to_trackers_by_its_name() -> None:
    claim = a_claim()
    move = Move(JobState.PENDING, "why")
    result = Ended(claim.id, claim.token, claim.kind, move, Fault("shop.errors.Empty", "none left"))
    found = messages.unpack_result(messages.pack_result(result), claim)
    assert isinstance(found, Ended) and found.fault is not None
    shown = found.fault.exception
    assert isinstance(shown, Redacted)
    assert f"{type(shown).__module__}.{type(shown).__qualname__}" == "shop.errors.Empty"
    assert str(shown) == "none left"


def damaged(**changes: Any) -> bytes:
    """A success with other contents."""
    sent = json.loads(messages.pack_result(Success(a_claim(), "1")))
    return json.dumps({**sent, **changes}).encode()


BAD = [
    b"",
    b"\xff",
    b"null",
    b"[]",
    b"{}",
    b'"result"',
    b'{"move": {}}',
    b'{"settled": false}',
    b"[" * 100_000,
    damaged(result="1, 2"),
    damaged(result=5),
    damaged(seconds="soon"),
    damaged(messages=[{"id": "x"}]),
]


@pytest.mark.parametrize("text", BAD)
def test_what_is_damaged_is_refused(text: bytes) -> None:
    """Its result becomes a part of a statement for many jobs, which it must not shift."""
    with pytest.raises(messages.BadMessage):
        messages.unpack_result(text, a_claim())


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: json.dumps(text).encode()))
def test_whatever_a_process_says_nothing_else_is_raised(text: bytes) -> None:
    with suppress(messages.BadMessage):
        messages.unpack_result(text, a_claim())
