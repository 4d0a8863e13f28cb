"""Companies, the tenants of the gateway, and their usage."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from emailgw.clock import Now


class Company(models.Model):
    """A company that sends email through the gateway."""

    objects: ClassVar[models.Manager[Company]] = models.Manager()

    class OnDoubt(models.TextChoices):
        """What to do with an email that may or may not have been sent."""

        PARK = "park", _("wait for a person")
        RESEND = "resend", _("send it again")

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(_("name"), max_length=150)
    is_suspended = models.BooleanField(_("suspended"), default=False)
    default_from = models.CharField(_("sender"), max_length=254)
    from_domains = ArrayField(models.CharField(max_length=253), verbose_name=_("verified domains"))
    """Domains that the company has proved to own; email is only sent from these."""
    reply_domains = ArrayField(
        models.CharField(max_length=253), verbose_name=_("domains of replies"), default=list,
        blank=True,
    )  # fmt: skip
    """Domains allowed in Reply-To, in addition to the verified domains; ``*`` allows any."""
    provider = models.CharField(_("provider"), max_length=60, default="", blank=True)
    on_doubt = models.CharField(
        _("in doubt"), max_length=10, choices=OnDoubt.choices, default=OnDoubt.PARK
    )
    per_minute = models.PositiveIntegerField(_("emails per minute"), default=100)
    per_hour = models.PositiveIntegerField(_("emails per hour"), default=2000)
    per_day = models.PositiveIntegerField(_("emails per day"), default=1000)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        db_table = "emailgw_company"
        verbose_name = _("company")
        verbose_name_plural = _("companies")

    def __str__(self) -> str:
        return self.name

    @property
    def limits(self) -> dict[str, int]:
        """Return the maximum number of emails per window."""
        return {"minute": self.per_minute, "hour": self.per_hour, "day": self.per_day}


class Usage(models.Model):
    """The number of emails that a company submitted within a window of time."""

    objects: ClassVar[models.Manager[Usage]] = models.Manager()

    company = models.ForeignKey(Company, models.CASCADE, related_name="usage")
    span = models.CharField(max_length=10)
    """``minute``, ``hour`` or ``day``."""
    began_at = models.DateTimeField()
    used = models.PositiveIntegerField(db_default=0)

    class Meta:
        db_table = "emailgw_usage"
        constraints = [
            models.UniqueConstraint(fields=["company", "span"], name="emailgw_usage_window")
        ]

    def __str__(self) -> str:
        return f"{self.company_id} {self.span}"
