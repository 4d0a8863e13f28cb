"""Events: in the outbox until the relay has given them a position, in the feed from then on."""

from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from jobs.models.clock import Clock
from jobs.models.guarded import Guarded
from jobs.states import OutboxState

STATE_CHOICES = [(state.value, _(state.value)) for state in OutboxState]
AUDIENCES = ["tenant", "staff"]


class Outbox(Guarded):
    """An event that was written in somebody's transaction and is not in the feed yet.

    ``held`` says that an older event with the same tenant and key has to go first and cannot.
    """

    id = models.BigAutoField(primary_key=True)
    event_id = models.UUIDField(_("event"), db_default=RandomUUID(), editable=False)
    topic = models.TextField(_("topic"))
    key = models.TextField(_("key"), default="", db_default="", blank=True)
    tenant = models.TextField(_("tenant"), default="", db_default="", blank=True)
    audience = models.TextField(_("audience"), default="tenant", db_default="tenant")
    payload = models.JSONField(_("payload"))
    state = models.TextField(
        _("state"), choices=STATE_CHOICES, default="pending", db_default="pending"
    )
    held = models.BooleanField(_("held back"), default=False, db_default=False)
    tries = models.IntegerField(_("failed tries"), default=0, db_default=0)
    error = models.TextField(_("last error"), default="", db_default="", blank=True)
    due_at = models.DateTimeField(_("next try at"), null=True)
    position = models.BigIntegerField(_("position"), null=True)
    occurred_at = models.DateTimeField(_("occurred at"), db_default=Clock())
    closed_at = models.DateTimeField(_("closed at"), null=True)

    class Meta:
        verbose_name = _("event in the outbox")
        verbose_name_plural = _("outbox")
        db_table = "jobs_outbox"
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["id"], condition=Q(state="pending", held=False), name="jobs_outbox_ready"
            ),
            models.Index(
                fields=["tenant", "id"],
                condition=Q(state="pending", held=False),
                name="jobs_outbox_turns",
            ),
            models.Index(
                fields=["tenant", "key", "id"],
                condition=Q(state__in=["failed", "parked"]),
                name="jobs_outbox_stuck",
            ),
            models.Index(
                fields=["tenant", "key", "id"], condition=Q(held=True), name="jobs_outbox_held"
            ),
            models.Index(
                fields=["closed_at"], condition=Q(state="discarded"), name="jobs_outbox_closed"
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[str(s) for s in OutboxState]), name="jobs_outbox_state_known"
            ),
            models.CheckConstraint(
                condition=Q(audience__in=AUDIENCES), name="jobs_outbox_audience_known"
            ),
            models.CheckConstraint(
                condition=Q(state="published", position__isnull=False)
                | (~Q(state="published") & Q(position__isnull=True)),
                name="jobs_outbox_published_has_position",
            ),
            models.CheckConstraint(
                condition=Q(state="failed", due_at__isnull=False)
                | (~Q(state="failed") & Q(due_at__isnull=True)),
                name="jobs_outbox_failed_has_time",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["published", "discarded"], closed_at__isnull=False)
                | (~Q(state__in=["published", "discarded"]) & Q(closed_at__isnull=True)),
                name="jobs_outbox_closed_has_time",
            ),
            models.CheckConstraint(
                condition=Q(held=False) | Q(state="pending"), name="jobs_outbox_held_waits"
            ),
            models.CheckConstraint(
                condition=Q(moved_by__isnull=True, move_reason__isnull=True),
                name="jobs_outbox_mover_consumed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.topic} {self.event_id}"


class Feed(models.Model):
    """An event at its place in the feed; rows are added and dropped by the day, never changed.

    The table is partitioned by the day of ``published_at``; positions have no gap.
    """

    position = models.BigIntegerField(_("position"), primary_key=True)
    event_id = models.UUIDField(_("event"))
    topic = models.TextField(_("topic"))
    key = models.TextField(_("key"), default="")
    tenant = models.TextField(_("tenant"), default="")
    audience = models.TextField(_("audience"), default="tenant")
    payload = models.JSONField(_("payload"))
    occurred_at = models.DateTimeField(_("occurred at"))
    published_at = models.DateTimeField(_("published at"))

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("feed")
        db_table = "jobs_feed"
        ordering = ["-position"]

    def __str__(self) -> str:
        return f"{self.position}: {self.topic}"


class FeedHead(models.Model):
    """The one row that counts: the last position given, and the last one that was pruned.

    Whoever gives positions holds its lock until his commit, so that they appear in their order.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    position = models.BigIntegerField(_("last position"), default=0, db_default=0)
    floor = models.BigIntegerField(_("last pruned position"), default=0, db_default=0)
    # The tenant whose events go first where more tenants wait than one portion has room for.
    turn = models.TextField(default="", db_default="", editable=False)

    class Meta:
        verbose_name = _("head of the feed")
        verbose_name_plural = _("heads of the feed")
        db_table = "jobs_feed_head"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="jobs_feed_one_head"),
            models.CheckConstraint(
                condition=Q(floor__gte=0, position__gte=models.F("floor")),
                name="jobs_feed_head_above_floor",
            ),
        ]

    def __str__(self) -> str:
        return str(self.position)
