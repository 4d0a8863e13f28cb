"""Declaring handlers: what is wrong is said at once, with its name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import jobs
from jobs import registry
from jobs.errors import HandlerError, UnknownKind


class Declared(jobs.Payload, kind="test.declared", aliases=["test.formerly", "old:name"]):
    pass


@pytest.fixture(autouse=True)
def undeclared() -> Iterator[None]:
    yield
    if registry.find("test.declared"):
        registry.unregister("test.declared")


def declare(**rules: Any) -> registry.Handler:
    @jobs.handler(Declared, **rules)
    def run(ctx: jobs.Context, payload: Declared) -> None: ...

    return registry.get("test.declared")


def test_a_handler_without_rules_has_the_settings() -> None:
    made = declare()
    assert (made.queue, made.max_attempts, made.timeout, made.lease) == ("default", 5, 300.0, 15.0)
    assert (made.on_lost, made.crash_limit, made.replayable, made.dead_letter) == (
        "rerun",
        3,
        True,
        True,
    )
    assert (made.atomic, made.is_async, made.expires) == (False, False, None)


def test_durations_may_be_timedeltas() -> None:
    made = declare(timeout=timedelta(minutes=1), expires=timedelta(hours=1), lease=timedelta(1))
    assert (made.timeout, made.expires, made.lease) == (60.0, 3600.0, 86400.0)


def test_an_atomic_handlers_default_timeout_is_short() -> None:
    assert declare(atomic=True).timeout == registry.ATOMIC_TIMEOUT_LIMIT


def test_old_names_lead_to_the_handler() -> None:
    made = declare()
    assert registry.find("test.formerly") is registry.find("old:name") is made
    registry.unregister("test.declared")
    assert registry.find("test.formerly") is None


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"queue": ""}, "queue"),
        ({"queue": "a b"}, "queue"),
        ({"queue": "q" * 121}, "queue"),
        ({"queue": 5}, "queue"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 1001}, "max_attempts"),
        ({"max_attempts": 2.0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"backoff": 5}, "backoff"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": "60"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"expires": 0}, "expires"),
        ({"expires": float("nan")}, "expires"),
        ({"expires": "1h"}, "expires"),
        ({"lease": 1}, "lease"),
        ({"lease": float("inf")}, "lease"),
        ({"lease": float("nan")}, "lease"),
        ({"on_lost": "ignore"}, "on_lost"),
        ({"crash_limit": 0}, "crash_limit"),
        ({"crash_limit": "3"}, "crash_limit"),
        ({"dead_letter": "no"}, "dead_letter"),
        ({"replayable": 1}, "replayable"),
        ({"internal": 1}, "internal"),
        ({"atomic": True, "timeout": 11}, "timeout"),
        ({"atomic": True, "on_lost": "fail"}, "atomic"),
    ],
)
def test_a_wrong_rule_is_refused_by_name(rules: dict[str, Any], field: str) -> None:
    with pytest.raises(HandlerError, match=field):
        declare(**rules)
    assert registry.find("test.declared") is None


def test_an_unknown_rule_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="prio"):
        declare(prio=5)


@pytest.mark.parametrize("payload", [42, None, dict, jobs.Payload, lambda ctx, payload: None])
def test_a_handler_needs_a_payload_with_a_kind(payload: Any) -> None:
    with pytest.raises(HandlerError, match=r"payload must be a jobs\.Payload subclass with a kind"):
        jobs.handler(payload)


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda ctx: None,
        lambda ctx, payload, more: None,
        lambda ctx, *, payload: None,
        lambda *both: None,
    ],
)
def test_a_handler_takes_a_context_and_a_payload(function: Any) -> None:
    with pytest.raises(HandlerError, match=r"it must take \(ctx, payload\)"):
        jobs.handler(Declared)(function)


def test_an_atomic_handler_cannot_be_async() -> None:
    async def run(ctx: jobs.Context, payload: Declared) -> None: ...

    with pytest.raises(HandlerError, match="cannot be async"):
        jobs.handler(Declared, atomic=True)(run)
    jobs.handler(Declared)(run)
    assert registry.get("test.declared").is_async


@pytest.mark.parametrize("taken", ["test.declared", "test.formerly"])
def test_a_kind_or_old_name_is_handled_by_one(taken: str) -> None:
    declare()

    class Rival(jobs.Payload, kind="test.rival", aliases=[taken]):
        pass

    def run(ctx: jobs.Context, payload: Rival) -> None: ...

    with pytest.raises(HandlerError, match=f"'{taken}' is handled by .*declare"):
        jobs.handler(Rival)(run)
    assert registry.find("test.rival") is None


def test_a_module_may_be_loaded_twice() -> None:
    first, second = declare(max_attempts=1), declare(max_attempts=2)
    assert first is not second and registry.get("test.declared").max_attempts == 2


def test_an_unknown_kind_comes_with_a_guess() -> None:
    with pytest.raises(UnknownKind, match=r"'test\.nop'; did you mean 'test\.noop'") as caught:
        registry.get("test.nop")
    assert caught.value.kind == "test.nop"
    with pytest.raises(UnknownKind, match=r"kind 'zzz'$"):
        registry.get("zzz")


def test_every_apps_handlers_are_found() -> None:
    assert "test.noop" in [handler.kind for handler in registry.handlers()]


@pytest.mark.parametrize("name", ["", " a", "a b", ".a", ":a", "-a", "a\n", "ü", "a" * 121, 5])
def test_a_wrong_kind_is_refused(name: Any) -> None:
    with pytest.raises(HandlerError, match="Odd: kind"):
        type("Odd", (jobs.Payload,), {"__module__": __name__}, kind="ok", aliases=[name])


@pytest.mark.parametrize("name", ["a", "A.b:c-d_e", "0", "_x", "a" * 120])
def test_kinds_may_have_colons_and_dots(name: str) -> None:
    made = type("Fine", (jobs.Payload,), {"__module__": __name__}, kind=name)
    assert made.kind == name  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [0, -1, 32768, "1", 1.0, True])
def test_a_wrong_version_is_refused(version: Any) -> None:
    with pytest.raises(HandlerError, match="Odd: version"):
        type("Odd", (jobs.Payload,), {"__module__": __name__}, kind="odd", version=version)


@pytest.mark.filterwarnings("ignore:Field name")
@pytest.mark.parametrize("field", ["kind", "version", "aliases"])
def test_a_field_cannot_take_the_place_of_what_a_payload_says_of_itself(field: str) -> None:
    with pytest.raises(HandlerError, match=f"Odd: a field cannot be called '{field}'"):
        type(
            "Odd",
            (jobs.Payload,),
            {"__module__": __name__, "__annotations__": {field: str}},
            kind="odd",
        )
