"""Jobs that come back by the clock."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from jobs.models.clock import Clock


class Schedule(models.Model):
    """A rule of the clock and the payload of the jobs it makes, one per slot for ever."""

    id = models.BigAutoField(primary_key=True)
    name = models.TextField(_("name"), unique=True)
    kind = models.TextField(_("kind"))
    payload = models.JSONField(_("payload"), default=dict)
    payload_version = models.SmallIntegerField(default=1, db_default=1, editable=False)
    options = models.JSONField(_("options"), default=dict)
    cron = models.TextField(_("cron"), default="", db_default="", blank=True)
    interval = models.FloatField(_("interval in seconds"), null=True, blank=True)
    time_zone = models.TextField(_("time zone"), default="UTC", db_default="UTC")
    missed = models.TextField(_("missed slots"), default="latest", db_default="latest")
    overlap = models.TextField(_("overlap"), default="allow", db_default="allow")
    enabled = models.BooleanField(_("enabled"), default=True, db_default=True)
    paused_at = models.DateTimeField(_("paused since"), null=True, editable=False)
    paused_by = models.TextField(_("paused by"), default="", db_default="", blank=True)
    paused_reason = models.TextField(
        _("reason of the pause"), default="", db_default="", blank=True
    )
    paused_until = models.DateTimeField(_("paused until"), null=True, blank=True)
    is_declared = models.BooleanField(_("declared in code"), default=False, db_default=False)
    last_slot = models.DateTimeField(_("last slot"), null=True)
    next_slot = models.DateTimeField(_("next slot"), null=True)
    error = models.TextField(_("why it makes no jobs"), default="", db_default="", blank=True)
    created_at = models.DateTimeField(_("created at"), db_default=Clock())

    class Meta:
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        db_table = "jobs_schedule"
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=(Q(interval__isnull=True) & ~Q(cron="")) | Q(interval__gt=0, cron=""),
                name="jobs_schedule_one_rule",
            ),
            models.CheckConstraint(
                condition=Q(missed__in=["skip", "latest", "all"]), name="jobs_schedule_missed"
            ),
            models.CheckConstraint(
                condition=Q(overlap__in=["allow", "skip"]), name="jobs_schedule_overlap"
            ),
            models.CheckConstraint(
                condition=Q(paused_at__isnull=False)
                | Q(paused_until__isnull=True, paused_by="", paused_reason=""),
                name="jobs_schedule_pause",
            ),
        ]

    def __str__(self) -> str:
        return self.name
