"""Links to accounts at venues."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.fields import EncryptedTextField
from trading.clock import Now


class Broker(models.TextChoices):
    """The venues."""

    COINBASE = "coinbase", "Coinbase"
    BINANCE = "binance", "Binance"


class BrokerConnection(models.Model):
    """A user's account at a venue, with its key; revoking erases the secrets."""

    objects: ClassVar[models.Manager[BrokerConnection]] = models.Manager()

    class Status(models.TextChoices):
        """What may be done with the link."""

        ACTIVE = "active", _("active")
        PAUSED = "paused", _("paused")
        REVOKED = "revoked", _("revoked")

    SECRETS = ("key_name", "secret", "access_token", "refresh_token")
    """What no list needs."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="+"
    )
    broker = models.CharField(_("venue"), max_length=20, choices=Broker.choices)
    status = models.CharField(
        _("status"), max_length=10, choices=Status.choices, default=Status.ACTIVE
    )
    key_name = EncryptedTextField(tenant_field="user", null=True)
    secret = EncryptedTextField(tenant_field="user", null=True)
    access_token = EncryptedTextField(tenant_field="user", null=True)
    """Of a link that was made by logging in at the venue; it has no key."""
    refresh_token = EncryptedTextField(tenant_field="user", null=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    """When the access token expires."""
    scope = models.CharField(max_length=500, default="", blank=True)
    symbols = models.JSONField(_("markets"), default=list, blank=True)
    """Such as ``BTC-USDT``, in order, where the venue has to be asked for each."""
    can_trade = models.BooleanField(_("may trade"), default=False)
    is_daily = models.BooleanField(_("daily import"), default=True)
    error = models.CharField(_("error"), max_length=40, default="", blank=True)
    """Why the app has paused the link."""
    imported_at = models.DateTimeField(_("last import"), null=True, blank=True)
    reread_at = models.DateTimeField(null=True, blank=True)
    """When 30 days were last read again for late reversals."""
    created_at = models.DateTimeField(_("linked"), db_default=Now())

    class Meta:
        db_table = "trading_connection"
        verbose_name = _("linked account")
        verbose_name_plural = _("linked accounts")
        permissions = [("use_trading", "Can link accounts, import, score and simulate")]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "broker"],
                condition=~models.Q(status="revoked"),
                name="trading_connection_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_broker_display()} · {self.user}"
