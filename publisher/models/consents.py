"""Consents: a provider is asked to let this project publish on accounts of a person."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.fields import EncryptedJSONField
from publisher import channels
from publisher.clock import Now
from publisher.models.publishing import Brand


class Consent(models.Model):
    """A question to a provider, bound to a person, a session and a brand; answered once."""

    objects: ClassVar[models.Manager[Consent]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    brand = models.ForeignKey(Brand, models.CASCADE, related_name="consents")
    tenant = models.CharField(_("tenant"), max_length=80, editable=False)
    channel = models.CharField(_("channel"), max_length=64, choices=channels.choices)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    state = models.CharField(_("state"), max_length=64, unique=True)
    """The SHA-256 of what the provider sends back."""
    session = models.CharField(_("session"), max_length=64)
    """The SHA-256 of the session's key."""
    is_answered = models.BooleanField(_("answered"), default=False)
    """Whether the provider has sent the person back: a second time, nothing is believed."""
    secrets = EncryptedJSONField(_("secrets"), tenant_field="tenant", default=dict)
    """First the verifier of PKCE, then the accounts that were found, with their tokens."""
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("consent")
        verbose_name_plural = _("consents")

    def __str__(self) -> str:
        return f"{self.get_channel_display()}: {self.brand}"
