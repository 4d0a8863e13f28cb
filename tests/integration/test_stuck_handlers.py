"""Handlers that do not end by themselves are ended, soon after their timeout and alone."""

from __future__ import annotations

import os

import pytest

from tests.integration.fleet import Fleet

TIMEOUT = 0.5
SLACK = 8
"""Seconds that a slow machine may add to what is promised."""


@pytest.mark.parametrize("how", ["spin", pytest.param("deaf", marks=pytest.mark.slow), "native"])
def test_a_deaf_handler_ends_two_seconds_after_its_timeout(fleet: Fleet, how: str) -> None:
    """``while True: pass``, ``except BaseException``, C code that holds the interpreter's lock."""
    fleet.dispatcher()
    worker = fleet.worker("--concurrency=3")
    neighbours = [fleet.enqueue("test.sleep", {"seconds": 30.0}) for _ in range(2)]
    for job in neighbours:
        fleet.running(job)
    stuck = fleet.enqueue("test.hang", {"how": how}, timeout=TIMEOUT)
    executor = fleet.running(stuck)
    fleet.await_state(stuck, "failed", TIMEOUT + 2 + SLACK)
    assert fleet.query("SELECT outcome FROM jobs_attempt WHERE job_id = %s", [stuck]) == [
        ("timeout",)
    ]
    # The neighbours begin again elsewhere, and it costs them nothing.
    for job in neighbours:
        assert fleet.running(job) != executor
        assert fleet.numbers(job) == {"attempt": 2, "failures": 0, "crashes": 0, "releases": 1}
    assert worker.alive
    quick = fleet.enqueue("test.noop")
    fleet.await_state(quick, "succeeded")


def test_a_handler_that_looks_at_its_signal_ends_without_a_kill(fleet: Fleet) -> None:
    fleet.dispatcher()
    fleet.worker()
    polite = fleet.enqueue("test.hang", {"how": "polite"}, timeout=0.3)
    executor = fleet.running(polite)
    fleet.await_state(polite, "failed")
    next_one = fleet.enqueue("test.sleep", {"seconds": 0.3})
    assert fleet.running(next_one) == executor


@pytest.mark.slow
def test_how_long_a_handler_has_after_its_timeout_is_declared_by_its_kind(fleet: Fleet) -> None:
    """One has a minute where others have a tenth of a second, and one less than others."""
    deaf = {"log": os.devnull, "how": "deaf"}
    fleet.dispatcher()
    first = fleet.worker("--queues=default", jobs={"GRACE": 0.1})
    gentle = fleet.enqueue("test.gentle", {**deaf, "seconds": 3.0}, timeout=0.3)
    fleet.await_state(gentle, "succeeded")
    assert fleet.numbers(gentle)["attempt"] == 1
    first.end()
    fleet.worker("--queues=default", jobs={"GRACE": 600.0})
    brisk = fleet.enqueue("test.brisk", {**deaf, "seconds": 600.0}, timeout=0.3)
    fleet.await_state(brisk, "failed")
    assert fleet.value("SELECT outcome FROM jobs_attempt WHERE job_id = %s", [brisk]) == "timeout"
