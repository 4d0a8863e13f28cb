"""Circuit breakers as people see and reset them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db.models import Case, IntegerField, QuerySet, Value, When

from jobs.engine import breakers, sql
from jobs.errors import InvalidOption
from jobs.models import Breaker
from jobs.operate import acts
from jobs.principals import By

LONGEST = 86_400.0 * 30


def known() -> QuerySet[Breaker]:
    """Every breaker that has counted a failure yet, those that are not closed first."""
    order = {"open": 0, "half_open": 1, "closed": 2}
    rank = Case(
        *(When(state=state, then=Value(place)) for state, place in order.items()),
        output_field=IntegerField(),
    )
    return Breaker.objects.using(sql.alias()).order_by(rank, "name")


def reset(name: str, *, by: By, reason: str = "") -> None:
    """The circuit is closed for everyone, with no failure counted; a running probe is forgotten.

    Jobs that it has delayed keep their time. Raises UnknownTarget where no such breaker is known.
    """
    with _act("close", name, by, reason) as act:
        before = _state(name)
        breakers.reset(name)
        act.changed({"state": before}, {"state": "closed"})


def force_open(name: str, *, by: By, reason: str, seconds: float = 60.0) -> None:
    """The circuit lets nobody call for so long; then one caller may probe."""
    with _act("open", name, by, reason, needs_reason=True) as act:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise InvalidOption("seconds", f"must be a number, got {seconds!r}")
        if not 1 <= seconds <= LONGEST:
            raise InvalidOption("seconds", f"must lie between 1 and {LONGEST:g}, got {seconds!r}")
        before = _state(name)
        breakers.force_open(name, float(seconds), f"opened by {act.name}: {act.reason}")
        act.changed({"state": before}, {"state": "open"})
        act.note(seconds=seconds)


@contextmanager
def _act(
    verb: str, name: str, by: By, reason: str, needs_reason: bool = False
) -> Iterator[acts.Act]:
    with acts.on(
        f"breaker.{verb}", kind="breaker", id=name, permission="edit_queue", by=by, reason=reason,
        needs_reason=needs_reason,
    ) as act:  # fmt: skip
        yield act


def _state(name: str) -> str:
    return str(sql.rows("SELECT state FROM jobs_breaker WHERE name = %s FOR UPDATE", [name])[0][0])
