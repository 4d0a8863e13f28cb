"""The decision that follows from an ending, as a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest

import jobs
from jobs import registry
from jobs.outcomes import RELEASE_LIMIT, Counters, Ending, Move, decide
from jobs.states import JOB_EDGES, JobState, moves

FRESH = Counters(failures=0, crashes=0, releases=0, max_attempts=3)
LAST = replace(FRESH, failures=2)
P, F, C = JobState.PENDING, JobState.FAILED, JobState.CANCELLED


def a_handler(**rules: Any) -> registry.Handler:
    known = registry.find("test.noop")
    assert known is not None
    return replace(known, **{"backoff": jobs.backoff.Fixed(7), **rules})


def shape(move: Move) -> tuple[Any, ...]:
    return (
        move.state,
        move.delay,
        (move.failed, move.crashed, move.released, move.preempted),
        move.attempt,
        move.reason,
    )


TABLE: list[tuple[Ending, Counters, tuple[Any, ...]]] = [
    ("failed", FRESH, (P, 7, (1, 0, 0, 0), "failed", "")),
    ("failed", replace(FRESH, failures=1), (P, 7, (1, 0, 0, 0), "failed", "")),
    ("failed", LAST, (F, 0, (1, 0, 0, 0), "failed", "exhausted")),
    ("failed", replace(FRESH, failures=9), (F, 0, (1, 0, 0, 0), "failed", "exhausted")),
    ("failed", replace(FRESH, max_attempts=1), (F, 0, (1, 0, 0, 0), "failed", "exhausted")),
    ("timeout", FRESH, (P, 7, (1, 0, 0, 0), "timeout", "")),
    ("timeout", LAST, (F, 0, (1, 0, 0, 0), "timeout", "timeout")),
    ("unrecoverable", FRESH, (F, 0, (1, 0, 0, 0), "failed", "unrecoverable")),
    ("unknown_kind", FRESH, (F, 0, (1, 0, 0, 0), "failed", "unknown_kind")),
    ("bad_payload", FRESH, (F, 0, (1, 0, 0, 0), "failed", "bad_payload")),
    ("bad_result", FRESH, (F, 0, (1, 0, 0, 0), "failed", "bad_result")),
    ("snoozed", FRESH, (P, 0, (0, 0, 0, 0), None, "")),
    ("snoozed", LAST, (P, 0, (0, 0, 0, 0), None, "")),
    ("held", FRESH, (P, 0, (0, 0, 0, 0), None, "")),
    ("held", LAST, (P, 0, (0, 0, 0, 0), None, "")),
    ("preempted", FRESH, (P, 0, (0, 0, 0, 1), None, "")),
    ("preempted", replace(LAST, releases=RELEASE_LIMIT), (P, 0, (0, 0, 0, 1), None, "")),
    ("in_doubt", FRESH, (F, 0, (1, 0, 0, 0), "failed", "in_doubt")),
    ("cancelled", LAST, (C, 0, (0, 0, 0, 0), None, "")),
    ("released", LAST, (P, 0, (0, 0, 1, 0), None, "")),
    (
        "released",
        replace(FRESH, releases=RELEASE_LIMIT - 1),
        (F, 0, (0, 0, 1, 0), "lost", "released_too_often"),
    ),
    ("released", replace(FRESH, releases=RELEASE_LIMIT - 2), (P, 0, (0, 0, 1, 0), None, "")),
    ("crashed", LAST, (P, 0, (0, 1, 0, 0), "crashed", "")),
    ("crashed", replace(FRESH, crashes=1), (P, 0, (0, 1, 0, 0), "crashed", "")),
    ("crashed", replace(FRESH, crashes=2), (F, 0, (0, 1, 0, 0), "crashed", "crash_loop")),
    ("lost", LAST, (P, 0, (0, 0, 1, 0), "lost", "")),
    ("lost", replace(FRESH, crashes=5), (P, 0, (0, 0, 1, 0), "lost", "")),
    (
        "lost",
        replace(FRESH, releases=RELEASE_LIMIT - 1),
        (F, 0, (0, 0, 1, 0), "lost", "released_too_often"),
    ),
]


@pytest.mark.parametrize(("ending", "counters", "expected"), TABLE)
def test_the_move_that_follows(
    ending: Ending, counters: Counters, expected: tuple[Any, ...]
) -> None:
    assert shape(decide(ending, counters, a_handler())) == expected


def test_the_table_knows_every_ending() -> None:
    assert {ending for ending, _, _ in TABLE} == set(get_args(Ending))


@pytest.mark.parametrize("ending", get_args(Ending))
def test_every_move_is_a_legal_one_of_a_running_job(ending: Ending) -> None:
    for handler in (a_handler(), None):
        move = decide(ending, FRESH, handler)
        assert ("running", move.state.value) in moves(JOB_EDGES)
        assert bool(move.reason) == (move.state is F)
        assert move.failed + move.crashed + move.released + move.preempted <= 1


@pytest.mark.parametrize(
    ("on_lost", "expected"), [("rerun", ""), ("fail", "lost"), ("in_doubt", "in_doubt")]
)
@pytest.mark.parametrize("ending", ["crashed", "lost"])
def test_a_loss_is_treated_as_the_kind_wants(ending: Ending, on_lost: str, expected: str) -> None:
    move = decide(ending, FRESH, a_handler(on_lost=on_lost))
    assert (move.reason, move.failed) == (expected, 0)


def test_the_kind_sets_the_crash_limit() -> None:
    assert decide("crashed", FRESH, a_handler(crash_limit=1)).reason == "crash_loop"
    patient = a_handler(crash_limit=10)
    assert decide("crashed", replace(FRESH, crashes=8), patient).reason == ""
    assert decide("crashed", replace(FRESH, crashes=9), patient).reason == "crash_loop"


def test_without_a_handler_a_loss_is_rerun_and_a_failure_is_final() -> None:
    assert decide("lost", FRESH, None).state is P
    assert decide("crashed", FRESH, None).state is P
    assert decide("failed", FRESH, None).state is F


def test_a_retry_after_is_a_floor() -> None:
    assert decide("failed", FRESH, a_handler(), floor=60).delay == 60
    assert decide("failed", FRESH, a_handler(), floor=3).delay == 7
    assert decide("snoozed", FRESH, a_handler(), floor=90).delay == 90
    assert decide("held", LAST, a_handler(), floor=90).delay == 90
    assert decide("preempted", LAST, a_handler(), floor=90).delay == 90


def test_a_timeout_may_be_final() -> None:
    final = a_handler(on_timeout="fail")
    assert shape(decide("timeout", FRESH, final)) == (F, 0, (1, 0, 0, 0), "timeout", "timeout")
    assert decide("failed", FRESH, final).state is P


def test_the_why_is_the_ending_unless_it_is_given() -> None:
    assert decide("failed", FRESH, a_handler()).why == "failed"
    assert decide("failed", FRESH, a_handler(), why="because").why == "because"


@pytest.mark.parametrize("outcome", [jobs.Snooze, jobs.RetryAfter])
@pytest.mark.parametrize("delay", [-1, -0.001, 367 * 86400, float("nan"), float("inf")])
def test_an_impossible_delay_is_refused(outcome: Any, delay: float) -> None:
    with pytest.raises(ValueError, match="delay must lie between 0 and 366 days"):
        outcome(delay)


@pytest.mark.parametrize("outcome", [jobs.Snooze, jobs.RetryAfter])
def test_a_delay_may_be_a_timedelta(outcome: Any) -> None:
    assert outcome(timedelta(minutes=2)).delay == 120
    assert "120 s" in str(outcome(120))
    assert str(outcome(0, "later")) == "later"
