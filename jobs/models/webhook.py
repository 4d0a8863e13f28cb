"""Webhooks: addresses that receive events, and every delivery with its tries."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from jobs.fields.columns import EncryptedJSONField
from jobs.ids import uuid7
from jobs.models.arrays import ArrayField
from jobs.models.clock import Clock

ENDPOINT_STATES = [("active", _("active")), ("paused", _("paused")), ("disabled", _("disabled"))]
DELIVERY_STATES = [
    ("waiting", _("waiting")),
    ("held", _("held back")),
    ("delivered", _("delivered")),
    ("failed", _("failed")),
    ("dropped", _("dropped")),
]
CLOSED = ["delivered", "failed", "dropped"]


class Webhook(models.Model):
    """An address that a tenant's events are sent to; without a tenant, everybody's."""

    id = models.UUIDField(_("id"), primary_key=True, default=uuid7, editable=False)
    name = models.TextField(_("name"), default="", db_default="", blank=True)
    tenant = models.TextField(_("tenant"), default="", db_default="", blank=True)
    url = models.TextField(_("URL"))
    topics = ArrayField(models.TextField(), verbose_name=_("topics"), default=list, blank=True)
    secrets = EncryptedJSONField(_("secrets"), tenant_field="tenant")
    state = models.TextField(
        _("state"), choices=ENDPOINT_STATES, default="active", db_default="active"
    )
    stopped_by = models.TextField(_("stopped by"), default="", db_default="", blank=True)
    stopped_reason = models.TextField(_("reason"), default="", db_default="", blank=True)
    stopped_at = models.DateTimeField(_("stopped at"), null=True)
    failures = models.IntegerField(_("failures in a row"), default=0, db_default=0)
    failing_since = models.DateTimeField(_("failing since"), null=True)
    created_at = models.DateTimeField(_("created at"), db_default=Clock())
    created_by = models.TextField(_("created by"), default="", db_default="", blank=True)

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        db_table = "jobs_webhook"
        ordering = ["tenant", "name", "id"]
        indexes = [models.Index(fields=["tenant"], name="jobs_webhook_tenant")]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[s for s, _label in ENDPOINT_STATES]),
                name="jobs_webhook_state_known",
            ),
            models.CheckConstraint(
                condition=Q(state="active", stopped_at__isnull=True)
                | (~Q(state="active") & Q(stopped_at__isnull=False)),
                name="jobs_webhook_stopped_has_time",
            ),
            models.CheckConstraint(
                condition=Q(failures=0, failing_since__isnull=True)
                | Q(failures__gt=0, failing_since__isnull=False),
                name="jobs_webhook_failing_has_time",
            ),
        ]

    def __str__(self) -> str:
        return self.name or str(self.id)


class WebhookDelivery(models.Model):
    """One event on its way to one webhook; ``log`` holds the last tries with their answers."""

    id = models.UUIDField(_("id"), primary_key=True, default=uuid7, editable=False)
    webhook = models.ForeignKey(
        Webhook, on_delete=models.CASCADE, related_name="deliveries", verbose_name=_("webhook")
    )
    event_id = models.UUIDField(_("event"))
    topic = models.TextField(_("topic"))
    key = models.TextField(_("key"), default="", db_default="", blank=True)
    sequence = models.BigIntegerField(_("number within its key"))
    data = models.JSONField(_("payload"))
    state = models.TextField(
        _("state"), choices=DELIVERY_STATES, default="waiting", db_default="waiting"
    )
    job_id = models.UUIDField(_("job"), null=True, editable=False)
    tries = models.IntegerField(_("tries"), default=0, db_default=0)
    log = models.JSONField(_("answers"), default=list)
    created_at = models.DateTimeField(_("created at"), db_default=Clock())
    closed_at = models.DateTimeField(_("closed at"), null=True)

    class Meta:
        verbose_name = _("webhook delivery")
        verbose_name_plural = _("webhook deliveries")
        db_table = "jobs_webhookdelivery"
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["created_at", "id"], name="jobs_delivery_created"),
            models.Index(fields=["webhook", "created_at", "id"], name="jobs_delivery_of_webhook"),
            models.Index(
                fields=["webhook", "id"], condition=Q(state="held"), name="jobs_delivery_held"
            ),
            models.Index(
                fields=["job_id"], condition=Q(state="waiting"), name="jobs_delivery_waiting"
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["webhook", "event_id"], name="jobs_delivery_once"),
            models.UniqueConstraint(
                fields=["webhook", "key", "sequence"], name="jobs_delivery_in_order"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[s for s, _label in DELIVERY_STATES]),
                name="jobs_delivery_state_known",
            ),
            models.CheckConstraint(
                condition=Q(state__in=CLOSED, closed_at__isnull=False)
                | (~Q(state__in=CLOSED) & Q(closed_at__isnull=True)),
                name="jobs_delivery_closed_has_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.topic} {self.event_id}"
