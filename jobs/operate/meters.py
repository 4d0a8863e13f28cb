"""Meters as people see and reopen them."""

from __future__ import annotations

from django.db.models import QuerySet

from jobs.engine import meters, sql
from jobs.engine.pushes import after_commit
from jobs.errors import InvalidOption
from jobs.models import Meter
from jobs.operate.permissions import EDIT_QUEUE
from jobs.operate.targets import METER
from jobs.operate.verbs import acting, verb
from jobs.principals import By


def known() -> QuerySet[Meter]:
    """Return the meters that were taken from in the last day, by name."""
    return Meter.objects.using(sql.alias()).order_by("name")


@verb("meter.reopen", on=METER, permission=EDIT_QUEUE, group="administrator")
def reopen(name: str, *, by: By, reason: str) -> None:
    """Reopen a meter that is closed for a time; jobs that it has put off are due at once.

    Raises UnknownTarget where no such meter is known, and InvalidOption where it is open.
    """
    with acting(reopen, name, by=by, reason=reason) as act:
        found = sql.rows(_REOPEN, [name])
        if not found:
            raise InvalidOption("name", f"the meter {name!r} is not closed")
        act.changed({"closed_until": found[0][0]}, {"closed_until": None})
        act.note(released=meters.release(name))
        after_commit(None)


_REOPEN = """
WITH before AS MATERIALIZED (SELECT name, closed_until FROM jobs_meter
  WHERE name = %s AND closed_until > jobs_clock() FOR NO KEY UPDATE)
UPDATE jobs_meter m SET closed_until = NULL FROM before b WHERE m.name = b.name
RETURNING b.closed_until
"""
