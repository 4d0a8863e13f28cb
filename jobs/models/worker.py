"""Workers as they report themselves, and what people have asked of them."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.models.arrays import ArrayField
from jobs.models.clock import Clock


class Worker(models.Model):
    """One worker: a supervisor and its executors. A restarted one of the same name starts over."""

    name = models.TextField(_("name"), primary_key=True)
    host = models.TextField(_("host"), default="", db_default="")
    pid = models.IntegerField(_("process id"), default=0, db_default=0)
    version = models.TextField(_("version"), default="", db_default="", blank=True)
    queues = ArrayField(models.TextField(), verbose_name=_("queues"))
    slots = models.IntegerField(_("slots"), default=1, db_default=1)
    memory = models.FloatField(_("memory in MiB"), default=0, db_default=0)
    started_at = models.DateTimeField(_("started at"), db_default=Clock())
    seen_at = models.DateTimeField(_("seen at"), db_default=Clock())
    ended_at = models.DateTimeField(_("ended at"), null=True)
    asked = models.TextField(_("asked to"), default="", db_default="", blank=True)
    asked_by = models.TextField(_("asked by"), default="", db_default="", blank=True)
    asked_at = models.DateTimeField(_("asked at"), null=True)

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        db_table = "jobs_worker"
        ordering = ["name"]
        default_permissions = ()
        constraints = [
            models.CheckConstraint(
                condition=models.Q(asked__in=["", "drain", "stop"]), name="jobs_worker_asked_known"
            )
        ]

    def __str__(self) -> str:
        return self.name
