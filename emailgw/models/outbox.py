"""The outbox: emails, their content and their batches."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from emailgw.clock import Now
from emailgw.models.company import Company
from emailgw.models.recipient import Recipient
from jobs.fields import (
    BlindIndexField,
    EncryptedJSONField,
    EncryptedTextField,
    mask_email,
    normalise_email,
)


class Status(models.TextChoices):
    """The status of an email."""

    ENQUEUED = "ENQUEUED", _("enqueued")
    RECEIVED = "RECEIVED", _("received by a worker")
    VALIDATED = "VALIDATED", _("validated")
    SENT_ATTEMPT = "SENT_ATTEMPT", _("being sent")
    SENT = "SENT", _("sent")
    RETRY_SCHEDULED = "RETRY_SCHEDULED", _("to be tried again")
    FAILED = "FAILED", _("failed")
    EXPIRED = "EXPIRED", _("expired")


class StoredHtml(models.Model):
    """HTML content, stored once for all emails of a company that share it."""

    objects: ClassVar[models.Manager[StoredHtml]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    company = models.ForeignKey(Company, models.PROTECT, related_name="+")
    digest = models.CharField(max_length=64)
    """A keyed hash of the content, used to find it."""
    size = models.PositiveIntegerField()
    body = EncryptedTextField(tenant_field="company")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "emailgw_html"
        constraints = [
            models.UniqueConstraint(fields=["company", "digest"], name="emailgw_html_digest")
        ]

    def __str__(self) -> str:
        return str(self.id)


class EmailBatch(models.Model):
    """Emails that were submitted together."""

    objects: ClassVar[models.Manager[EmailBatch]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    company = models.ForeignKey(Company, models.PROTECT, related_name="+")
    accepted = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "emailgw_batch"

    def __str__(self) -> str:
        return str(self.id)


class OutboxEmail(models.Model):
    """An email. Its id is also the id of its job."""

    objects: ClassVar[models.Manager[OutboxEmail]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    company = models.ForeignKey(Company, models.PROTECT, related_name="emails")
    recipient = models.ForeignKey(Recipient, models.PROTECT, related_name="emails")
    batch = models.ForeignKey(EmailBatch, models.PROTECT, null=True, blank=True, related_name="+")
    status = models.CharField(
        _("status"), max_length=20, choices=Status.choices, default=Status.ENQUEUED
    )
    request_id = models.CharField(_("request id"), max_length=128)
    external_id = models.CharField(_("external id"), max_length=64, default="", blank=True)
    from_email = models.CharField(_("sender"), max_length=254)
    to = EncryptedTextField(_("to"), tenant_field="company")
    to_index = BlindIndexField("to", tenant_field="company", normalise=normalise_email)
    cc = EncryptedJSONField(_("cc"), tenant_field="company", default=list)
    bcc = EncryptedJSONField(_("bcc"), tenant_field="company", default=list)
    subject = EncryptedTextField(_("subject"), tenant_field="company")
    reply_to = EncryptedTextField(_("reply to"), tenant_field="company", default="")
    headers = EncryptedJSONField(_("headers"), tenant_field="company", default=dict)
    tags = ArrayField(
        models.CharField(max_length=32), verbose_name=_("tags"), default=list, blank=True
    )
    html = models.ForeignKey(StoredHtml, models.PROTECT, related_name="+")
    html_digest = models.CharField(max_length=64)
    """The digest of the content when it was enqueued; changed content is not sent."""
    provider = models.CharField(_("provider"), max_length=60)
    priority = models.PositiveSmallIntegerField(_("priority"), default=5)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    run = models.PositiveIntegerField(default=0)
    """The latest attempt of its job, as counted by the engine."""
    handed_over = models.PositiveIntegerField(default=0)
    """The last attempt that began to transmit the content; 0 means that nothing was sent."""
    in_doubt = models.BooleanField(_("in doubt"), default=False)
    error_code = models.CharField(_("error"), max_length=60, default="", blank=True)
    error_reason = models.CharField(_("reason"), max_length=300, default="", blank=True)
    enqueued_at = models.DateTimeField(_("enqueued"))
    expires_at = models.DateTimeField(_("expires"))
    processed_at = models.DateTimeField(_("processed"), null=True, blank=True)

    class Meta:
        db_table = "emailgw_outbox"
        verbose_name = _("email")
        verbose_name_plural = _("emails")
        indexes = [
            models.Index(fields=["company", "-enqueued_at", "id"], name="emailgw_outbox_newest"),
            models.Index(fields=["-enqueued_at", "id"], name="emailgw_outbox_newest_all"),
            models.Index(
                fields=["company", "external_id"],
                condition=~models.Q(external_id=""),
                name="emailgw_outbox_external_id",
            ),
            models.Index(
                fields=["enqueued_at"],
                condition=~models.Q(status__in=["SENT", "FAILED", "EXPIRED"]),
                name="emailgw_outbox_open",
            ),
            models.Index(
                fields=["company", "-processed_at", "-id"],
                condition=models.Q(processed_at__isnull=False),
                name="emailgw_outbox_last_ended",
            ),
            models.Index(
                fields=["processed_at", "id"],
                condition=models.Q(processed_at__isnull=False),
                name="emailgw_outbox_ended",
            ),
        ]

    def __str__(self) -> str:
        return f"{mask_email(self.to)} …{str(self.id)[-8:]}"
