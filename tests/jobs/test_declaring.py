"""Meters and breakers are declared by their names, and everywhere alike."""

from __future__ import annotations

from uuid import uuid4

import pytest

import jobs
from jobs.errors import BreakerError, JobsError, MeterError


def declared(module: str, source: str) -> None:
    """Run the source as that module."""
    exec(compile(source, f"{module}.py", "exec"), {"__name__": module, "jobs": jobs})  # noqa: S102


@pytest.mark.parametrize(
    ("one", "other", "error"),
    [
        ('jobs.meter("{}", "100/s")', 'jobs.meter("{}", "200/s")', MeterError),
        ('jobs.meter("{}", "100/s")', 'jobs.meter("{}", "100/s", burst=5)', MeterError),
        ('jobs.breaker("{}")', 'jobs.breaker("{}", threshold=3)', BreakerError),
        ('jobs.breaker("{}")', 'jobs.breaker("{}", open_for=5)', BreakerError),
    ],
)
def test_two_modules_that_disagree_are_both_named(
    one: str, other: str, error: type[JobsError]
) -> None:
    name = uuid4().hex
    declared("shop.first", one.format(name))
    declared("shop.second", one.format(name))
    with pytest.raises(error, match=rf"'{name}' .* in shop\.first:1, and .* in shop\.third:1"):
        declared("shop.third", other.format(name))


def test_what_a_function_makes_is_its_own_affair() -> None:
    name = uuid4().hex
    declared("shop.first", f'jobs.meter("{name}", "100/s")')
    assert jobs.meter(name, "3/s").pace.amount == 3
