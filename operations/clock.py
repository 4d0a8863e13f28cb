"""The time of the database, which tests can freeze."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, models


class Now(models.Func):
    """The current time, as a database expression."""

    function = "jobs_clock"
    template = "%(function)s()"
    output_field = models.DateTimeField()


def now() -> datetime:
    """Return the current time of the database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT jobs_clock()")
        [moment] = cursor.fetchone()
    found: datetime = moment
    return found
