"""The database's clock, as a default for columns."""

from django.db.models import DateTimeField, Func


class Clock(Func):
    """``jobs_clock()``: the database's time, which tests can freeze."""

    function = "jobs_clock"
    arity = 0
    output_field = DateTimeField()
