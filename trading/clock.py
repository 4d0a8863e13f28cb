"""The time of the database, which tests can freeze, and how the app cuts it into days and hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db import connection, models

HOUR = timedelta(hours=1)


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


def day_of(moment: datetime) -> datetime:
    """Return the beginning of the moment's UTC day."""
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def hour_of(moment: datetime) -> datetime:
    """Return the beginning of the moment's hour."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def month_of(moment: datetime) -> datetime:
    """Return the beginning of the moment's UTC month."""
    return day_of(moment).replace(day=1)


def after_month(month: datetime) -> datetime:
    """Return the beginning of the next month."""
    return month_of(month + timedelta(days=32))


def week_of(moment: datetime) -> datetime:
    """Return the Monday, 00:00 UTC, of the moment's week."""
    day = day_of(moment)
    return day - timedelta(days=day.weekday())


def iso(moment: datetime) -> str:
    """Return the moment in UTC with milliseconds, as payloads and keys have it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + (
        f"{moment.microsecond // 1000:03d}Z"
    )
