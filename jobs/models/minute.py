"""Statistics by the minute: how attempts ended, for charts that never look at jobs."""

from django.db import models
from django.db.models import Value
from django.utils.translation import gettext_lazy as _

from jobs.models.arrays import ArrayField


class Minute(models.Model):
    """How often, and after how long, attempts of a kind ended in one way within one minute.

    The row whose minute is ``jobs.engine.minutes.TOTAL`` counts since ever and is never deleted.
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.TextField(_("kind"))
    queue = models.TextField(_("queue"))
    outcome = models.TextField(_("outcome"))
    minute = models.DateTimeField(_("minute"))
    count = models.BigIntegerField(_("attempts"), default=0, db_default=0)
    letters = models.BigIntegerField(_("dead letters"), default=0, db_default=0)
    stalls = models.BigIntegerField(_("lost or crashed"), default=0, db_default=0)
    seconds = models.FloatField(_("sum of durations"), default=0.0, db_default=0.0)
    longest = models.FloatField(_("longest duration"), default=0.0, db_default=0.0)
    buckets = ArrayField(
        models.BigIntegerField(),
        verbose_name=_("durations by bucket"),
        default=list,
        db_default=Value([], ArrayField(models.BigIntegerField())),
    )

    class Meta:
        verbose_name = _("minute")
        verbose_name_plural = _("statistics by the minute")
        db_table = "jobs_minute"
        ordering = ["minute", "id"]
        constraints = [
            # Also the index of every reader: the minute comes first.
            models.UniqueConstraint(
                fields=["minute", "kind", "queue", "outcome"], name="jobs_minute_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.minute:%Y-%m-%d %H:%M} {self.kind} {self.outcome}: {self.count}"


class Quarter(models.Model):
    """How often attempts of a queue ended in one way within a quarter of an hour.

    Summed up from the minutes once the quarter is over, for charts of days.
    """

    id = models.BigAutoField(primary_key=True)
    queue = models.TextField(_("queue"))
    outcome = models.TextField(_("outcome"))
    at = models.DateTimeField(_("from"))
    count = models.BigIntegerField(_("attempts"))

    class Meta:
        verbose_name = _("quarter of an hour")
        verbose_name_plural = _("statistics by the quarter of an hour")
        db_table = "jobs_quarter"
        ordering = ["at", "id"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["at", "queue", "outcome"], name="jobs_quarter_once")
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.queue} {self.outcome}: {self.count}"
