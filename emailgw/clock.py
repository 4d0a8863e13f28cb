"""The one clock: the database's, which tests can stop."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, models


class Now(models.Func):
    """The present moment, in a statement."""

    function = "jobs_clock"
    template = "%(function)s()"
    output_field = models.DateTimeField()


def now() -> datetime:
    """The present moment."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT jobs_clock()")
        [moment] = cursor.fetchone()
    found: datetime = moment
    return found
