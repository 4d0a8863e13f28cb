"""The suppression list."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from emailgw.clock import Now
from emailgw.models.company import Company
from jobs.fields import BlindIndexField, EncryptedTextField, mask_email, normalise_email


class Suppression(models.Model):
    """An address that a company, or every company, must not write to."""

    objects: ClassVar[models.Manager[Suppression]] = models.Manager()

    class Reason(models.TextChoices):
        """Why an address is suppressed."""

        HARD_BOUNCE = "HARD_BOUNCE", _("hard bounce")
        SOFT_BOUNCE = "SOFT_BOUNCE", _("soft bounce")
        SPAM_COMPLAINT = "SPAM_COMPLAINT", _("complaint")
        UNSUBSCRIBE = "UNSUBSCRIBE", _("unsubscribed")
        ROLE_ACCOUNT = "ROLE_ACCOUNT", _("role account")
        BAD_DOMAIN = "BAD_DOMAIN", _("bad domain")
        MANUAL = "MANUAL", _("by hand")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    company = models.ForeignKey(
        Company, models.CASCADE, null=True, blank=True, related_name="suppressions"
    )
    """None means all companies."""
    email = EncryptedTextField(_("email"))
    email_index = BlindIndexField("email", normalise=normalise_email)
    reason = models.CharField(_("reason"), max_length=20, choices=Reason.choices)
    note = models.CharField(_("note"), max_length=300, default="", blank=True)
    by = models.CharField(_("by"), max_length=150, default="", blank=True)
    created_at = models.DateTimeField(_("since"), db_default=Now())
    expires_at = models.DateTimeField(_("until"), null=True, blank=True)

    class Meta:
        db_table = "emailgw_suppression"
        verbose_name = _("suppressed address")
        verbose_name_plural = _("suppressed addresses")
        constraints = [
            models.UniqueConstraint(
                fields=["company", "email_index"],
                nulls_distinct=False,
                name="emailgw_suppression_once",
            )
        ]

    def __str__(self) -> str:
        return mask_email(self.email)
