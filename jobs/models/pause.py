"""Why and when nothing may start: pauses by people, blackouts by the calendar."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.models.arrays import ArrayField
from jobs.models.clock import Clock


class Pause(models.Model):
    """Somebody stopped a scope; it opens again by itself when ``until`` has passed."""

    scope = models.TextField(_("scope"), primary_key=True)
    reason = models.TextField(_("reason"), default="", db_default="", blank=True)
    by = models.TextField(_("by"), default="", db_default="", blank=True)
    until = models.DateTimeField(_("until"), null=True, blank=True)
    created_at = models.DateTimeField(_("since"), db_default=Clock())

    class Meta:
        verbose_name = _("pause")
        verbose_name_plural = _("pauses")
        db_table = "jobs_pause"
        ordering = ["scope"]

    def __str__(self) -> str:
        return self.scope


class Blackout(models.Model):
    """A window that comes back: on these days, from start to end, in this time zone.

    The day is the one on which the window starts; 0 is Monday; no day means every day. An end at
    or before the start lies on the next day, so equal ends mean a whole day.
    """

    id = models.BigAutoField(primary_key=True)
    scope = models.TextField(_("scope"))
    days = ArrayField(models.SmallIntegerField(), verbose_name=_("days"), default=list, blank=True)
    start = models.TimeField(_("start"))
    end = models.TimeField(_("end"))
    time_zone = models.TextField(_("time zone"), default="UTC", db_default="UTC")
    reason = models.TextField(_("reason"), default="", db_default="", blank=True)
    enabled = models.BooleanField(_("enabled"), default=True, db_default=True)
    # Since when it has been reported that the window is open; the process that refreshes the
    # closures reports it.
    open_since = models.DateTimeField(_("open since"), null=True, editable=False)

    class Meta:
        verbose_name = _("blackout window")
        verbose_name_plural = _("blackout windows")
        db_table = "jobs_blackout"
        ordering = ["scope", "start", "id"]

    def __str__(self) -> str:
        return f"{self.scope} {self.start:%H:%M}-{self.end:%H:%M} {self.time_zone}"
