"""What a handler is given to stop in time and to leave nothing behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import jobs
from jobs import registry
from jobs.context import Signal
from jobs.engine import runner
from jobs.engine.claims import Ended, Success
from tests.jobs.factories import WORKER, a_claim
from tests.wait import PATIENCE, wait_until

pytestmark = pytest.mark.django_db


class Watched(jobs.Payload, kind="test.watched"):
    pass


class Told:
    """A signal that somebody can give."""

    def __init__(self) -> None:
        self.reason = ""
        self.signal = Signal(lambda: self.reason)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop of its own thread, as executors have one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def run(told: Told, loop: asyncio.AbstractEventLoop) -> Iterator[Callable[..., Any]]:
    """Runs a job with the handler, and answers what is to be settled."""

    def await_it(coroutine: Any, signal: Signal) -> Any:
        return asyncio.run_coroutine_threadsafe(runner.obey(coroutine, signal), loop).result(10)

    def run_it(function: Callable[..., Any], **rules: Any) -> Any:
        jobs.handler(Watched, backoff=jobs.backoff.Immediate(), **rules)(function)
        return runner.run(a_claim(Watched()), told.signal, await_it, WORKER)

    yield run_it
    registry.unregister("test.watched")


# ---- what is registered for clean-up


def returns(ctx: jobs.Context) -> str:
    return "done"


def raises(ctx: jobs.Context) -> None:
    raise ValueError("no")


def gives_up(ctx: jobs.Context) -> None:
    raise jobs.Unrecoverable("no use")


def stops(ctx: jobs.Context) -> None:
    raise jobs.Stopped("cancelled")


def exits(ctx: jobs.Context) -> None:
    raise SystemExit


ENDS = [returns, raises, gives_up, stops, exits]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("atomic", [False, True])
def test_clean_up_always_runs_last_in_first_out(
    run: Any, end: Callable[[jobs.Context], Any], atomic: bool
) -> None:
    done: list[str] = []

    @contextmanager
    def opened(name: str) -> Iterator[str]:
        done.append(f"open {name}")
        try:
            yield name
        finally:
            done.append(f"close {name}")

    def handle(ctx: jobs.Context, payload: Watched) -> Any:
        assert ctx.enter(opened("a")) == "a"
        ctx.on_cleanup(lambda: done.append("callback"))
        ctx.enter(opened("b"))
        return end(ctx)

    run(handle, atomic=atomic)
    assert done == ["open a", "open b", "close b", "callback", "close a"]


@pytest.mark.parametrize("end", ENDS)
def test_a_manager_learns_how_the_handler_ended(run: Any, end: Callable[..., Any]) -> None:
    seen: list[Any] = []

    class Manager:
        def __enter__(self) -> Manager:
            return self

        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            seen.append(kind)

    def handle(ctx: jobs.Context, payload: Watched) -> Any:
        ctx.enter(Manager())
        return end(ctx)

    run(handle)
    expected = {
        returns: None,
        raises: ValueError,
        gives_up: jobs.Unrecoverable,
        stops: jobs.Stopped,
        exits: SystemExit,
    }
    assert seen == [expected[end]]


@pytest.mark.parametrize("failure", [ValueError("no"), jobs.Stopped("cancelled"), SystemExit()])
def test_a_clean_up_that_fails_changes_nothing_and_keeps_nobody_from_theirs(
    run: Any, failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    def fail() -> None:
        raise failure

    def handle(ctx: jobs.Context, payload: Watched) -> str:
        ctx.on_cleanup(lambda: done.append("first"))
        ctx.on_cleanup(fail)
        ctx.on_cleanup(lambda: done.append("last"))
        return "done"

    outcome = run(handle)
    assert isinstance(outcome, Success) and outcome.result == '"done"'
    assert done == ["last", "first"]
    assert "clean-up failed" in caplog.text


def test_a_manager_that_swallows_the_error_does_not_make_a_success(run: Any) -> None:
    class Swallows:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> bool:
            return True

    def handle(ctx: jobs.Context, payload: Watched) -> None:
        ctx.enter(Swallows())
        raise ValueError("no")

    outcome = run(handle)
    assert isinstance(outcome, Ended) and outcome.move.failed == 1


@pytest.mark.parametrize(
    ("reason", "state", "failed", "preempted"),
    [
        ("timeout", "pending", 1, 0),
        ("cancelled", "cancelled", 0, 0),
        ("preempted", "pending", 0, 1),
        ("shutdown", "pending", 0, 0),
        ("lease_lost", "pending", 0, 0),
    ],
)
def test_a_coroutine_is_cancelled_by_its_signal_and_cleaned_up(
    run: Any, told: Told, reason: str, state: str, failed: int, preempted: int
) -> None:
    done: list[str] = []

    async def handle(ctx: jobs.Context, payload: Watched) -> None:
        ctx.on_cleanup(lambda: done.append("cleaned"))
        try:
            told.reason = reason
            await asyncio.sleep(60)
        finally:
            done.append("cancelled")

    outcome = run(handle)
    assert done == ["cancelled", "cleaned"]
    move = outcome.move
    assert (move.state, move.failed, move.preempted, move.why) == (state, failed, preempted, reason)


def test_a_coroutine_that_clings_is_cancelled_again_and_again(run: Any, told: Told) -> None:
    refused: list[int] = []

    async def handle(ctx: jobs.Context, payload: Watched) -> None:
        told.reason = "cancelled"
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                refused.append(1)
                if len(refused) == 3:
                    raise

    assert run(handle).move.state == "cancelled"
    assert len(refused) == 3


def test_a_coroutine_that_ends_its_work_all_the_same_has_succeeded(run: Any, told: Told) -> None:
    async def handle(ctx: jobs.Context, payload: Watched) -> str:
        told.reason = "cancelled"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "saved"
        return "never"

    outcome = run(handle)
    assert isinstance(outcome, Success) and outcome.result == '"saved"'


def test_a_coroutine_that_cancels_itself_has_failed(run: Any) -> None:
    async def handle(ctx: jobs.Context, payload: Watched) -> None:
        raise asyncio.CancelledError

    outcome = run(handle)
    assert (outcome.move.state, outcome.move.failed) == ("pending", 1)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_coroutine_that_exits_does_not_end_the_loop(run: Any, error: type[BaseException]) -> None:
    async def leaves(ctx: jobs.Context, payload: Watched) -> None:
        raise error

    async def stays(ctx: jobs.Context, payload: Watched) -> str:
        return "still here"

    outcome = run(leaves)
    assert (outcome.move.failed, outcome.fault.error_class) == (1, "RuntimeError")
    assert error.__name__ in outcome.fault.message
    registry.unregister("test.watched")
    assert run(stays).result == '"still here"'


# ---- the signal


def test_a_wait_for_the_signal_ends_with_the_reason(run: Any, told: Told) -> None:
    async def handle(ctx: jobs.Context, payload: Watched) -> str:
        assert (ctx.signal.aborted, ctx.signal.reason, bool(ctx.signal)) == (False, "", False)
        waiting = asyncio.ensure_future(ctx.signal.wait())
        done, _ = await asyncio.wait({waiting}, timeout=0.12)
        assert not done
        told.reason = "preempted"
        began = time.monotonic()
        try:
            reason = await waiting
        except asyncio.CancelledError:  # the coroutine itself is cancelled at that moment, too
            reason = await ctx.signal.wait()
        assert time.monotonic() - began < runner._OBEY_GRACE, "before its task is cancelled"
        return f"{reason} {ctx.should_stop()}"

    assert run(handle).result == '"preempted True"'


def test_a_checkpoint_lets_pass_who_is_not_told_to_stop(run: Any, told: Told) -> None:
    passed: list[int] = []

    def handle(ctx: jobs.Context, payload: Watched) -> None:
        for number in range(3):
            ctx.checkpoint()
            passed.append(number)
            if number == 1:
                told.reason = "cancelled"

    assert run(handle).move.state == "cancelled"
    assert passed == [0, 1]


# ---- callbacks


def test_a_callback_fires_once_and_soon(run: Any, told: Told) -> None:
    calls: list[tuple[str, float, bool]] = []
    here = threading.get_ident()

    def handle(ctx: jobs.Context, payload: Watched) -> None:
        def callback(reason: str) -> None:
            calls.append((reason, time.monotonic(), threading.get_ident() == here))

        ctx.on_stop(callback)
        told.reason = "cancelled"
        wait_until(lambda: calls, interval=0.005)
        quiet_until = time.monotonic() + 0.2
        wait_until(lambda: time.monotonic() > quiet_until)
        ctx.checkpoint()

    run(handle)
    assert [(reason, same) for reason, _, same in calls] == [("cancelled", False)]


def test_a_callback_of_a_job_that_has_ended_stays_silent(run: Any, told: Told) -> None:
    calls: list[str] = []

    def early(ctx: jobs.Context, payload: Watched) -> None:
        ctx.on_stop(calls.append)

    run(early)
    registry.unregister("test.watched")
    told.reason = "cancelled"

    def late(ctx: jobs.Context, payload: Watched) -> None:
        seen: list[str] = []
        ctx.on_stop(seen.append)
        wait_until(lambda: seen)  # by now the first one would have been called, too

    run(late)
    assert calls == []


@pytest.mark.parametrize("failure", [ValueError("no"), jobs.Stopped("cancelled"), SystemExit()])
def test_a_callback_that_fails_keeps_no_other_from_its_call(
    run: Any, told: Told, failure: BaseException
) -> None:
    calls: list[str] = []

    def fail(reason: str) -> None:
        raise failure

    def handle(ctx: jobs.Context, payload: Watched) -> None:
        ctx.on_stop(fail)
        ctx.on_stop(calls.append)
        told.reason = "shutdown"
        wait_until(lambda: calls)
        ctx.on_stop(calls.append)
        wait_until(lambda: len(calls) == 2)

    assert isinstance(run(handle), Success)
    assert calls == ["shutdown", "shutdown"]


def test_what_blocks_is_ended_from_outside(run: Any, told: Told) -> None:
    def handle(ctx: jobs.Context, payload: Watched) -> None:
        released = threading.Event()
        ctx.on_stop(lambda _: released.set())
        told.reason = "preempted"
        assert released.wait(PATIENCE)
        ctx.checkpoint()

    outcome = run(handle)
    assert (outcome.move.state, outcome.move.why) == ("pending", "preempted")
