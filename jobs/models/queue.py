"""What the dispatchers remember of a queue between two rounds."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Queue(models.Model):
    """A queue's row: the lock of its dispatch, and the lane after which the next round begins."""

    name = models.TextField(_("name"), primary_key=True)
    lane_cursor = models.TextField(default="", db_default="", editable=False, db_collation="C")
    dispatched_at = models.DateTimeField(_("last dispatched at"), null=True)

    class Meta:
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        db_table = "jobs_queue"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
