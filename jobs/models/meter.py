"""Meters: how much handlers may call in a time, counted for the whole fleet."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.models.arrays import ArrayField


class Meter(models.Model):
    """A named rate of calls, and what was taken of it.

    ``spent`` holds what was taken in equal parts of the rate's time; the last of them is number
    ``part`` since the epoch. The row is also the lock under which calls are counted.
    """

    name = models.TextField(_("name"), primary_key=True)
    amount = models.FloatField(_("calls"))
    span = models.FloatField(_("in seconds"))
    burst = models.FloatField(_("burst"))
    tokens = models.FloatField(_("left of the burst"))
    taken_until = models.DateTimeField(_("taken until"))
    spent = ArrayField(models.IntegerField(), verbose_name=_("spent"))
    part = models.BigIntegerField(_("part"))
    closed_until = models.DateTimeField(_("closed until"), null=True, blank=True)

    class Meta:
        verbose_name = _("meter")
        verbose_name_plural = _("meters")
        db_table = "jobs_meter"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
