"""Bad input: a clear error that names the field, and not a row."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import jobs
from jobs import registry
from jobs.models import Job
from tests.jobs.factories import move
from tests.specimens.handlers import Echo, Noop

pytestmark = pytest.mark.django_db
NAN, INFINITY = float("nan"), float("inf")
WAYS: dict[str, Any] = {
    "one": lambda payload, **options: jobs.enqueue(payload, **options),
    "many": lambda payload, **options: jobs.enqueue_many([jobs.Draft(payload, **options)]),
}


@pytest.fixture(autouse=True)
def no_row() -> Iterator[None]:
    yield
    assert not Job.objects.exists()


def both_refuse(error: type[jobs.errors.EnqueueError], payload: Any, **options: Any) -> Any:
    """The error, which both ways in raise alike."""
    texts = []
    for way in WAYS.values():
        with pytest.raises(error) as caught:
            way(payload, **options)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    return caught.value


WRONG: list[tuple[str, Any]] = [
    ("priority", 101),
    ("priority", -101),
    ("priority", 1.0),
    ("priority", "high"),
    ("priority", True),
    ("priority", False),
    ("priority", None),
    ("delay", -1),
    ("delay", -0.001),
    ("delay", timedelta(seconds=-1)),
    ("delay", NAN),
    ("delay", INFINITY),
    ("delay", "5"),
    ("delay", True),
    ("delay", timedelta(days=4000)),
    ("run_at", datetime(2040, 1, 1)),
    ("run_at", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ("run_at", datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))),
    ("run_at", datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))),
    ("run_at", datetime(1969, 12, 31, tzinfo=UTC)),
    ("run_at", date(2040, 1, 1)),
    ("run_at", "2040-01-01"),
    ("run_at", 1700000000),
    ("expires", datetime(2040, 1, 1)),
    ("expires", datetime(9500, 1, 1, tzinfo=UTC)),
    ("expires", 0),
    ("expires", -5),
    ("expires", NAN),
    ("expires", "tomorrow"),
    ("max_attempts", 0),
    ("max_attempts", 1001),
    ("max_attempts", 1.5),
    ("max_attempts", True),
    ("timeout", 0),
    ("timeout", -1),
    ("timeout", NAN),
    ("timeout", INFINITY),
    ("timeout", "60"),
    ("queue", ""),
    ("queue", "a b"),
    ("queue", "q\n"),
    ("queue", "-q"),
    ("queue", "q" * 121),
    ("queue", 5),
    ("tenant", None),
    ("tenant", 5),
    ("tenant", "a\0"),
    ("tenant", "a\n"),
    ("tenant", "\ud800"),
    ("tenant", "t" * 121),
    ("tags", None),
    ("tags", "tag"),
    ("tags", ["a"] * 21),
    ("tags", ["ok", 5]),
    ("tags", ["ok", "a\tb"]),
    ("tags", ["t" * 61]),
    ("tags", {"a": 1}),
    ("tags", (tag for tag in "ab")),
    ("correlation_id", None),
    ("correlation_id", "c" * 201),
    ("correlation_id", "c\x00"),
    ("job_id", "not a uuid"),
    ("job_id", "018f5f4e-7c1d-7a52-9b8e-2f6a3c4d5e6f"),
    ("job_id", 5),
]


@pytest.mark.parametrize(("option", "value"), WRONG)
def test_a_wrong_option_is_refused_by_name(option: str, value: Any) -> None:
    error = both_refuse(jobs.errors.InvalidOption, Noop(), **{option: value})
    assert error.option == option and str(error).startswith(f"{option}: ")


def test_year_10000_does_not_exist_and_cannot_slip_in() -> None:
    with pytest.raises((ValueError, OverflowError)):
        jobs.enqueue(Noop(), run_at=datetime(9999, 12, 31, tzinfo=UTC) + timedelta(days=1))


def test_delay_and_run_at_exclude_each_other() -> None:
    error = both_refuse(
        jobs.errors.InvalidOption, Noop(), delay=5, run_at=datetime(2040, 1, 1, tzinfo=UTC)
    )
    assert "either delay or run_at" in str(error)


@pytest.mark.parametrize("way", WAYS.values())
def test_an_unknown_option_is_refused_by_name(way: Any) -> None:
    with pytest.raises(TypeError, match="prio"):
        way(Noop(), prio=5)


def test_an_atomic_handlers_timeout_stays_short() -> None:
    class Brief(jobs.Payload, kind="test.brief"):
        pass

    @jobs.handler(Brief, atomic=True)
    def run(ctx: jobs.Context, payload: Brief) -> None: ...

    try:
        assert "10 s" in str(both_refuse(jobs.errors.InvalidOption, Brief(), timeout=11))
    finally:
        registry.unregister("test.brief")


# ---- Payloads


class Loose(jobs.Payload, kind="test.loose"):
    value: Any = None
    inner: Any = None


class Inner(BaseModel):
    text: Any = None


class Colour(enum.Enum):
    RED = object()


@pytest.fixture(autouse=True)
def loose_kind() -> Iterator[None]:
    @jobs.handler(Loose)
    def run(ctx: jobs.Context, payload: Loose) -> None: ...

    yield
    registry.unregister("test.loose")


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("a\0b", "NUL"),
        (["x", {"k": "a\0"}], "NUL"),
        ({"k\0": 1}, "NUL"),
        ("\ud800", "surrogate"),
        ({"k": ["\udfff"]}, "surrogate"),
        (NAN, "finite"),
        ([1.0, -INFINITY], "finite"),
        ({"a": {"b": INFINITY}}, "finite"),
        (nested(33), "nested"),
        (nested(200), "nested"),
        (nested(3000), "nested"),
        (circle(), ""),
        (object(), ""),
        (Colour.RED, ""),
        pytest.param(10**5000, "4300 digits", id="huge"),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused_by_its_path(value: Any, problem: str) -> None:
    error = both_refuse(jobs.errors.InvalidPayload, Loose(value=value))
    assert error.kind == "test.loose" and problem in error.problem
    assert error.field.startswith("value") or error.field == "payload"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"k": ["ok", "a\0"]}, "value.k[1]"),
        ([[1, NAN]], "value[0][1]"),
        ({"k": {"j": "\ud800"}}, "value.k.j"),
    ],
)
def test_the_path_leads_to_the_bad_part(value: Any, field: str) -> None:
    assert both_refuse(jobs.errors.InvalidPayload, Loose(value=value)).field == field


def test_a_bad_part_of_a_model_within_is_refused() -> None:
    both_refuse(jobs.errors.InvalidPayload, Loose(inner=Inner(text="\ud800")))
    both_refuse(jobs.errors.InvalidPayload, Loose(inner=Inner(text="\0")))


@pytest.mark.parametrize("limit", [256, 1024, 65536])
def test_the_size_is_counted_in_bytes_of_json(limit: int, settings: Any) -> None:
    settings.JOBS = {"PAYLOAD_LIMIT": limit}
    frame = len('{"text":""}')
    error = both_refuse(jobs.errors.InvalidPayload, Echo(text="x" * (limit - frame + 1)))
    assert f"is {limit + 1} bytes of JSON, the limit is {limit}" in str(error)
    both_refuse(jobs.errors.InvalidPayload, Echo(text="ü" * ((limit - frame) // 2 + 1)))
    fits = jobs.enqueue(Echo(text="x" * (limit - frame)))
    move(fits.id, "cancelled")
    Job.objects.all().delete()


def test_the_error_does_not_show_the_payload() -> None:
    secret = "4111-1111-1111-1111"
    assert secret not in str(both_refuse(jobs.errors.InvalidPayload, Loose(value=f"{secret}\0")))
    with pytest.raises(jobs.errors.InvalidPayload) as caught:
        Echo.build({"text": [secret]})
    assert secret not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "text"),
        ({"text": 5}, "text"),
        ({"text": None}, "text"),
        ({"text": "x", "more": 1}, "more"),
    ],
)
def test_data_that_does_not_fit_its_declaration_is_refused(data: Any, field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Echo(**data)
    assert caught.value.errors()[0]["loc"] == (field,)
    with pytest.raises(jobs.errors.InvalidPayload) as refused:
        Echo.build(data)
    assert (refused.value.kind, refused.value.field) == ("test.echo", field)


@pytest.mark.parametrize("payload", [None, "text", {"text": "x"}, Echo, Inner(), 5])
def test_only_payloads_are_enqueued(payload: Any) -> None:
    error = both_refuse(jobs.errors.InvalidPayload, payload)
    assert error.field == "payload" and "jobs.Payload" in error.problem


def test_an_unknown_kind_is_refused() -> None:
    class Unhandled(jobs.Payload, kind="test.eco"):
        pass

    class Abstract(jobs.Payload):
        pass

    assert "did you mean 'test.echo'" in str(both_refuse(jobs.errors.UnknownKind, Unhandled()))
    both_refuse(jobs.errors.UnknownKind, Abstract())


def test_a_payload_of_another_class_than_the_handlers_is_refused() -> None:
    class Wider(Echo):
        more: int = 5

    class Impostor(jobs.Payload, kind="test.echo"):
        text: int

    for payload in (Wider(text="x"), Impostor(text=5)):
        error = both_refuse(jobs.errors.InvalidPayload, payload)
        assert error.field == "payload" and "Echo" in error.problem
