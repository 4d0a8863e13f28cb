"""Circuit breakers as people see and reset them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from django.db.models import Case, IntegerField, QuerySet, Value, When
from pydantic import Field

from jobs.backoff import Duration, seconds
from jobs.engine import breakers, sql
from jobs.engine.pushes import after_commit
from jobs.errors import InvalidOption
from jobs.models import Breaker
from jobs.operate.permissions import EDIT_QUEUE
from jobs.operate.targets import BREAKER
from jobs.operate.verbs import acting, verb
from jobs.principals import By

SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=30)
Name = Annotated[str, Field(min_length=1, max_length=200)]


def known() -> QuerySet[Breaker]:
    """Every breaker that has counted a failure yet, those that are not closed first."""
    order = {"open": 0, "half_open": 1, "closed": 2}
    rank = Case(
        *(When(state=state, then=Value(place)) for state, place in order.items()),
        output_field=IntegerField(),
    )
    return Breaker.objects.using(sql.alias()).order_by(rank, "name")


@verb("breaker.close", on=BREAKER, permission=EDIT_QUEUE, group="administrator")
def reset(name: Name, *, by: By, reason: str = "") -> None:
    """Close a circuit for everyone, with no failure counted.

    A running probe is forgotten. Jobs that it has delayed are due at once. Raises UnknownTarget
    where no such breaker is known.
    """
    with acting(reset, name, by=by, reason=reason) as act:
        before = _state(name)
        breakers.reset(name)
        act.changed({"state": before}, {"state": "closed"})
        act.note(released=breakers.release(name))
        after_commit(None)


@verb("breaker.open", on=BREAKER, permission=EDIT_QUEUE, group="administrator")
def force_open(
    name: Name,
    *,
    by: By,
    reason: str,
    duration: Annotated[
        Duration, Field(ge=SHORTEST, le=LONGEST, description="block calls for this long")
    ] = timedelta(minutes=1),
) -> None:
    """Open a circuit for a while; then one caller may probe."""
    with acting(force_open, name, by=by, reason=reason) as act:
        length = _checked(duration)
        before = _state(name)
        breakers.force_open(name, length, f"opened by {act.name}: {act.reason}")
        act.changed({"state": before}, {"state": "open"})
        act.note(seconds=length)


def _checked(duration: object) -> float:
    """Return the duration in seconds; raises InvalidOption."""
    if isinstance(duration, bool) or not isinstance(duration, int | float | timedelta):
        raise InvalidOption("duration", f"must be seconds or a timedelta, got {duration!r}")
    length = seconds(duration)
    if not SHORTEST.total_seconds() <= length <= LONGEST.total_seconds():
        problem = f"must be from 1 s to {LONGEST.days} days, got {length:g} s"
        raise InvalidOption("duration", problem)
    return length


def _state(name: str) -> str:
    return str(sql.rows("SELECT state FROM jobs_breaker WHERE name = %s FOR UPDATE", [name])[0][0])
