"""Circuit breakers as people see and reset them."""

from __future__ import annotations

import logging

from django.db.models import Case, IntegerField, QuerySet, Value, When

from jobs.engine import breakers, sql
from jobs.errors import BreakerError
from jobs.models import Breaker

log = logging.getLogger("jobs.breakers")


def known() -> QuerySet[Breaker]:
    """Every breaker that has counted a failure yet, those that are not closed first."""
    order = {"open": 0, "half_open": 1, "closed": 2}
    rank = Case(
        *(When(state=state, then=Value(place)) for state, place in order.items()),
        output_field=IntegerField(),
    )
    return Breaker.objects.using(sql.alias()).order_by(rank, "name")


def reset(name: str, *, by: str, reason: str = "") -> None:
    """The circuit is closed for everyone, with no failure counted; a running probe is forgotten.

    Jobs that it has delayed keep their time. Raises BreakerError where no such breaker is known.
    """
    if not breakers.reset(name):
        raise BreakerError(f"there is no breaker {name!r}, or it never counted a failure")
    log.info("breaker %s was reset by %s: %s", name, by, reason)
