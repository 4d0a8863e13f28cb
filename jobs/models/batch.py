"""Jobs that belong together, and the edges between jobs that wait for each other."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from jobs.ids import uuid7
from jobs.models.clock import Clock


class Batch(models.Model):
    """A set of jobs: open while members are added, sealed, and done when all have ended.

    The counters of ended members change in the transaction that ends them. ``generation`` counts
    how often the batch has become undone again, by a retry.
    """

    id = models.UUIDField(_("id"), primary_key=True, default=uuid7, editable=False)
    name = models.TextField(_("name"), default="", db_default="", blank=True)
    tenant = models.TextField(_("tenant"), default="", db_default="", blank=True)
    state = models.TextField(_("state"), default="open", db_default="open")
    total = models.IntegerField(_("total"), null=True)
    succeeded = models.IntegerField(_("succeeded"), default=0, db_default=0)
    failed = models.IntegerField(_("failed"), default=0, db_default=0)
    cancelled = models.IntegerField(_("cancelled"), default=0, db_default=0)
    expired = models.IntegerField(_("expired"), default=0, db_default=0)
    note = models.TextField(_("note"), default="", db_default="", blank=True)
    generation = models.IntegerField(_("generation"), default=1, db_default=1)
    callbacks = models.JSONField(_("callbacks"), default=dict)
    called = models.JSONField(_("callbacks called"), default=dict)
    created_at = models.DateTimeField(_("created at"), db_default=Clock())
    sealed_at = models.DateTimeField(_("sealed at"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)
    # When its progress was last published as an event, and whether it has changed since.
    told_at = models.DateTimeField(null=True, editable=False)
    untold = models.BooleanField(default=False, db_default=False, editable=False)

    class Meta:
        verbose_name = _("batch")
        verbose_name_plural = _("batches")
        db_table = "jobs_batch"
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["created_at", "id"], name="jobs_batch_created"),
            models.Index(fields=["told_at"], condition=Q(untold=True), name="jobs_batch_untold"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["open", "sealed", "done"]), name="jobs_batch_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state="open", total__isnull=True, sealed_at__isnull=True)
                | (~Q(state="open") & Q(total__isnull=False, sealed_at__isnull=False)),
                name="jobs_batch_sealed_has_total",
            ),
            models.CheckConstraint(
                condition=Q(succeeded__gte=0, failed__gte=0, cancelled__gte=0, expired__gte=0),
                name="jobs_batch_counters",
            ),
        ]

    def __str__(self) -> str:
        return self.name or str(self.id)


class Dependency(models.Model):
    """A child that waits for a parent; done as soon as the parent's end has been counted."""

    id = models.BigAutoField(primary_key=True)
    parent_id = models.UUIDField(_("parent"))
    child_id = models.UUIDField(_("child"))
    policy = models.TextField(_("when the parent fails"), default="cancel", db_default="cancel")
    done = models.BooleanField(_("done"), default=False, db_default=False)

    class Meta:
        verbose_name = _("dependency")
        verbose_name_plural = _("dependencies")
        db_table = "jobs_dependency"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["parent_id", "child_id"], name="jobs_dependency_once"),
            models.CheckConstraint(
                condition=Q(policy__in=["cancel", "wait", "run"]), name="jobs_dependency_policy"
            ),
        ]
        indexes = [models.Index(fields=["child_id"], name="jobs_dependency_child")]

    def __str__(self) -> str:
        return f"{self.parent_id} > {self.child_id}"
