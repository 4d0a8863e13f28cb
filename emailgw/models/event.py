"""The log entry and the history of each email."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from emailgw.clock import Now
from emailgw.models.company import Company
from emailgw.models.outbox import OutboxEmail


class EmailLog(models.Model):
    """The outcome of an email. There is at most one per email."""

    objects: ClassVar[models.Manager[EmailLog]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    outbox = models.OneToOneField(OutboxEmail, models.PROTECT, related_name="log")
    company = models.ForeignKey(Company, models.PROTECT, related_name="+")
    status = models.CharField(_("status"), max_length=20)
    provider = models.CharField(_("provider"), max_length=60)
    provider_message_id = models.CharField(  # noqa: DJ001 - unique where there is one
        _("message id"), max_length=300, null=True, blank=True
    )
    attempts = models.PositiveSmallIntegerField(_("attempts"))
    duration_ms = models.PositiveIntegerField(_("milliseconds"))
    error_code = models.CharField(_("error"), max_length=60, default="", blank=True)
    sent_at = models.DateTimeField(_("sent"), null=True, blank=True)
    failed_at = models.DateTimeField(_("failed"), null=True, blank=True)
    delivered_at = models.DateTimeField(_("delivered"), null=True, blank=True)
    bounce_type = models.CharField(_("bounce"), max_length=100, default="", blank=True)
    complaint_type = models.CharField(_("complaint"), max_length=100, default="", blank=True)

    class Meta:
        db_table = "emailgw_log"
        verbose_name = _("log entry")
        verbose_name_plural = _("log entries")
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "provider_message_id"], name="emailgw_log_message_id"
            )
        ]

    def __str__(self) -> str:
        return f"{self.outbox_id} {self.status}"


class EmailEvent(models.Model):
    """An entry of an email's history: a transition, a provider's event, or an action of a user."""

    objects: ClassVar[models.Manager[EmailEvent]] = models.Manager()

    id = models.BigAutoField(primary_key=True)
    outbox = models.ForeignKey(OutboxEmail, models.CASCADE, related_name="events")
    type = models.CharField(_("type"), max_length=30)
    source = models.CharField(_("by"), max_length=150, default="")
    provider_event_id = models.CharField(max_length=200, null=True, blank=True)  # noqa: DJ001 - unique where there is one
    detail = models.JSONField(_("detail"), default=dict)
    """Contains no address and no name, except masked ones."""
    at = models.DateTimeField(_("at"), db_default=Now())

    class Meta:
        db_table = "emailgw_event"
        verbose_name = _("event")
        verbose_name_plural = _("events")
        constraints = [
            models.UniqueConstraint(fields=["provider_event_id"], name="emailgw_event_once")
        ]

    def __str__(self) -> str:
        return f"{self.outbox_id} {self.type}"
