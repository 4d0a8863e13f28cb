"""The lease of an executor: while it lasts, the jobs it runs are its own."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.ids import uuid7
from jobs.models.arrays import ArrayField
from jobs.models.clock import Clock


class Lease(models.Model):
    """One executor. Once dead it stays dead; a new executor is a new owner."""

    owner = models.UUIDField(_("executor"), primary_key=True, default=uuid7, editable=False)
    worker = models.TextField(_("worker"))
    host = models.TextField(_("host"), default="", db_default="")
    pid = models.IntegerField(_("process id"), default=0, db_default=0)
    queues = ArrayField(models.TextField(), verbose_name=_("queues"))
    slots = models.IntegerField(_("slots"), default=1, db_default=1)
    started_at = models.DateTimeField(_("started at"), db_default=Clock())
    until = models.DateTimeField(_("until"))
    draining = models.BooleanField(_("draining"), default=False, db_default=False)
    dead_at = models.DateTimeField(_("dead since"), null=True)

    class Meta:
        verbose_name = _("executor")
        verbose_name_plural = _("executors")
        db_table = "jobs_lease"
        ordering = ["started_at"]

    def __str__(self) -> str:
        return f"{self.worker} {self.owner}"
