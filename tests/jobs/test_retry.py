"""Backoff policies: how long until the next attempt, whatever the numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.backoff import ADDITIVE_SHARE, Delays, Exponential, Fixed, Immediate, Linear, next_delay
from jobs.errors import HandlerError

LONGEST = 366 * 86400.0
durations = st.floats(0, LONGEST - 1)
jitters = st.sampled_from(["none", "full", "additive"])
draws = st.floats(0, 1, exclude_max=True)
failures = st.integers(1, 10**9)
policies = st.one_of(
    st.builds(Fixed, durations, jitters),
    st.builds(Linear, durations, durations, durations, jitters),
    st.builds(Exponential, durations, st.floats(1, 1e300), durations, jitters),
    st.builds(
        lambda delays, jitter: Delays(*delays, jitter=jitter),
        st.lists(durations, min_size=1, max_size=6),
        jitters,
    ),
    st.just(Immediate()),
)


def cap(policy: Any) -> float:
    """The longest that the policy may wait, without what additive jitter adds."""
    if isinstance(policy, Immediate):
        return 0.0
    if isinstance(policy, Fixed):
        return policy.wait
    return float(max(policy.delays) if isinstance(policy, Delays) else policy.cap)


@given(policies, failures, draws)
def test_a_delay_lies_between_nothing_and_its_cap(policy: Any, number: int, draw: float) -> None:
    share = 1 + ADDITIVE_SHARE if getattr(policy, "jitter", "") == "additive" else 1
    assert 0 <= policy.delay(number, draw) <= cap(policy) * share


@given(policies, failures, durations)
def test_no_jitter_undercuts_the_floor(policy: Any, number: int, floor: float) -> None:
    assert next_delay(policy, number, floor) >= floor


@given(policies, failures, draws)
def test_additive_jitter_only_adds_and_full_only_takes(
    policy: Any, number: int, draw: float
) -> None:
    plain, drawn = policy.delay(number, 0.0), policy.delay(number, draw)
    if getattr(policy, "jitter", "none") == "none":
        assert drawn == plain
    elif policy.jitter == "additive":
        assert drawn >= plain
    else:
        assert plain == 0


@given(st.one_of(st.builds(Linear), st.builds(Exponential)), st.integers(1, 100))
def test_delays_grow_with_the_failures(policy: Any, number: int) -> None:
    assert policy.delay(number) <= policy.delay(number + 1)


def test_delays_follow_one_another_and_the_last_one_stays() -> None:
    policy = Delays(1, 5, 30, jitter="none")
    assert [policy.delay(n) for n in (1, 2, 3, 4, 99)] == [1, 5, 30, 30, 30]


def test_exponential_doubles_up_to_its_cap() -> None:
    policy = Exponential(base=2, cap=20, jitter="none")
    assert [policy.delay(n) for n in (1, 2, 3, 4, 5, 10**9)] == [2, 4, 8, 16, 20, 20]


def test_linear_adds_up_to_its_cap() -> None:
    policy = Linear(start=1, step=10, cap=25, jitter="none")
    assert [policy.delay(n) for n in (1, 2, 3, 4, 10**9)] == [1, 11, 21, 25, 25]


def test_jitter_spreads_as_named() -> None:
    assert Fixed(100, "full").delay(1, 0.3) == 30
    assert Fixed(100, "additive").delay(1, 0.5) == 112.5
    assert Fixed(100).delay(1, 0.5) == 100


def test_the_next_delay_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 0.5)
    assert next_delay(Fixed(100, "full"), 1) == 50
    assert next_delay(Fixed(100, "full"), 1, floor=60) == 60


@pytest.mark.parametrize("answer", [float("nan"), -5.0, float("inf"), 1e300])
def test_a_policy_of_ones_own_cannot_break_the_clock(answer: float) -> None:
    class Odd:
        def delay(self, failures: int, draw: float = 0.0) -> float:
            return answer

    assert 3.0 <= next_delay(Odd(), 1, floor=3.0) <= LONGEST * 1.25


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Delays(), "delay"),
        (lambda: Delays(1, -1), "delay"),
        (lambda: Delays(float("nan")), "delay"),
        (lambda: Delays(1, jitter="some"), "jitter"),  # type: ignore[arg-type]
        (lambda: Delays("soon"), "delay"),  # type: ignore[arg-type]
        (lambda: Fixed(-1), "wait"),
        (lambda: Fixed(float("inf")), "wait"),
        (lambda: Fixed("5"), "wait"),  # type: ignore[arg-type]
        (lambda: Fixed(True), "wait"),
        (lambda: Linear(start=-1), "start"),
        (lambda: Linear(step=float("nan")), "step"),
        (lambda: Linear(cap=LONGEST), "cap"),
        (lambda: Exponential(base=-1), "base"),
        (lambda: Exponential(cap=-1), "cap"),
        (lambda: Exponential(factor=0.5), "factor"),
        (lambda: Exponential(factor=float("nan")), "factor"),
        (lambda: Exponential(factor=float("inf")), "factor"),
        (lambda: Exponential(factor="2"), "factor"),  # type: ignore[arg-type]
        (lambda: Exponential(jitter=None), "jitter"),  # type: ignore[arg-type]
    ],
)
def test_an_impossible_policy_is_refused_by_name(make: Any, field: str) -> None:
    with pytest.raises(HandlerError, match=rf"backoff: .*{field}"):
        make()
