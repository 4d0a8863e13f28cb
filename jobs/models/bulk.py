"""Acting on many jobs at once: what was asked for, how far it is, and what became of each job."""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from jobs.ids import uuid7
from jobs.models.clock import Clock

BULK_STATES = [
    ("gathering", _("gathering its jobs")),
    ("running", _("running")),
    ("canary", _("waiting for the first ones")),
    ("done", _("done")),
    ("stopped", _("stopped by failures")),
    ("aborted", _("aborted")),
]
BULK_ENDED = ["aborted", "done", "stopped"]
ITEM_STATES = [
    ("waiting", _("waiting")),
    ("done", _("done")),
    ("skipped", _("skipped")),
    ("failed", _("failed")),
]


class Bulk(models.Model):
    """A bulk operation. Its query, bound and scope are frozen when it is started.

    ``number`` columns count items; ``gathered_at`` and ``gathered_id`` say how far the query has
    been walked, ``next_at`` when the pace lets the next item go.
    """

    id = models.UUIDField(_("id"), primary_key=True, default=uuid7, editable=False)
    action = models.TextField(_("action"))
    options = models.JSONField(_("options"), default=dict)
    query = models.TextField(_("query"), default="", db_default="", blank=True)
    before = models.DateTimeField(_("jobs created until"))
    by = models.TextField(_("by"))
    via = models.TextField(_("via"), default="code", db_default="code")
    reason = models.TextField(_("reason"))
    scope = models.JSONField(_("scope"), default=dict)
    state = models.TextField(
        _("state"), choices=BULK_STATES, default="gathering", db_default="gathering"
    )
    note = models.TextField(_("why it ended"), default="", db_default="", blank=True)
    per_minute = models.IntegerField(_("at most per minute"), null=True, blank=True)
    canary = models.IntegerField(_("first ones to wait for"), default=0, db_default=0)
    stop_at = models.FloatField(_("stops at this share of failures"), null=True, blank=True)

    total = models.IntegerField(_("items"), default=0, db_default=0)
    done = models.IntegerField(_("done"), default=0, db_default=0)
    skipped = models.IntegerField(_("skipped"), default=0, db_default=0)
    failed = models.IntegerField(_("failed"), default=0, db_default=0)

    gathered_at = models.DateTimeField(null=True, editable=False)
    gathered_id = models.UUIDField(null=True, editable=False)
    next_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(_("created at"), db_default=Clock())
    started_at = models.DateTimeField(_("started at"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)

    class Meta:
        verbose_name = _("bulk operation")
        verbose_name_plural = _("bulk operations")
        db_table = "jobs_bulk"
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["created_at", "id"], name="jobs_bulk_created")]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[name for name, _ in BULK_STATES]),
                name="jobs_bulk_state_known",
            ),
            models.CheckConstraint(
                condition=Q(state__in=BULK_ENDED, finished_at__isnull=False)
                | (~Q(state__in=BULK_ENDED) & Q(finished_at__isnull=True)),
                name="jobs_bulk_ended_has_time",
            ),
            models.CheckConstraint(
                condition=Q(done__gte=0, skipped__gte=0, failed__gte=0)
                & Q(total__gte=F("done") + F("skipped") + F("failed")),
                name="jobs_bulk_counters",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.id}"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be done."""
        return self.state in BULK_ENDED

    @property
    def decided(self) -> int:
        """Items of which it is known what became."""
        return self.done + self.skipped + self.failed


class BulkItem(models.Model):
    """One job of a bulk operation, and what became of it; each job is there once."""

    id = models.BigAutoField(primary_key=True)
    bulk = models.ForeignKey(
        Bulk,
        on_delete=models.CASCADE,
        related_name="items",
        verbose_name=_("bulk operation"),
        db_index=False,
    )
    job_id = models.UUIDField(_("job"))
    letter_id = models.BigIntegerField(_("dead letter"), null=True)
    # Of the job, which never changes it: items are taken in this order.
    created_at = models.DateTimeField(_("job created at"))
    state = models.TextField(
        _("outcome"), choices=ITEM_STATES, default="waiting", db_default="waiting"
    )
    detail = models.TextField(_("detail"), default="", db_default="", blank=True)
    result = models.UUIDField(_("new job"), null=True)
    is_canary = models.BooleanField(default=False, db_default=False, editable=False)
    decided_at = models.DateTimeField(_("decided at"), null=True)

    class Meta:
        verbose_name = _("item of a bulk operation")
        verbose_name_plural = _("items of bulk operations")
        db_table = "jobs_bulkitem"
        ordering = ["created_at", "job_id"]
        constraints = [
            models.UniqueConstraint(fields=["bulk", "job_id"], name="jobs_bulkitem_once"),
            models.CheckConstraint(
                condition=Q(state__in=[name for name, _ in ITEM_STATES]),
                name="jobs_bulkitem_state_known",
            ),
            models.CheckConstraint(
                condition=Q(state="waiting", decided_at__isnull=True)
                | (~Q(state="waiting") & Q(decided_at__isnull=False)),
                name="jobs_bulkitem_decided_has_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["bulk", "created_at", "job_id"],
                condition=Q(state="waiting"),
                name="jobs_bulkitem_waiting",
            ),
            models.Index(fields=["bulk", "state", "id"], name="jobs_bulkitem_outcome"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}: {self.state}"
