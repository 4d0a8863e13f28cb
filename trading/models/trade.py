"""Fills of venues, and the signatures that the AI service has seen."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from trading.clock import Now
from trading.models.connection import Broker
from trading.money import DIGITS, PLACES


class Side(models.TextChoices):
    """Whether the user bought or sold."""

    BUY = "BUY", _("buy")
    SELL = "SELL", _("sell")


class Trade(models.Model):
    """One fill with the values first imported; later imports never change it."""

    objects: ClassVar[models.Manager[Trade]] = models.Manager()

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    broker = models.CharField(_("venue"), max_length=20, choices=Broker.choices)
    ext_id = models.CharField(max_length=100)
    trade_id = models.CharField(max_length=100)
    """What reversals and corrections share with the fill that they concern."""
    order_id = models.CharField(pgettext_lazy("venue", "order"), max_length=100)
    symbol = models.CharField(_("symbol"), max_length=40)
    base = models.CharField(max_length=20)
    quote = models.CharField(max_length=20)
    side = models.CharField(_("side"), max_length=4, choices=Side.choices)
    type = models.CharField(max_length=12)
    qty = models.DecimalField(_("quantity"), max_digits=DIGITS, decimal_places=PLACES)
    price = models.DecimalField(_("price"), max_digits=DIGITS, decimal_places=PLACES)
    fee = models.DecimalField(_("fee"), max_digits=DIGITS, decimal_places=PLACES)
    fee_asset = models.CharField(max_length=20)
    ts = models.DateTimeField(_("time"))
    sequence = models.CharField(max_length=80)
    """Orders fills of one moment, as the venue does."""
    is_counted = models.BooleanField(default=True)
    """False for a reversal, for a fill that was reversed, and for one that was corrected."""
    created_at = models.DateTimeField(_("imported"), db_default=Now())

    class Meta:
        db_table = "trading_trade"
        verbose_name = _("trade")
        verbose_name_plural = _("trades")
        constraints = [
            models.UniqueConstraint(fields=["user", "broker", "ext_id"], name="trading_trade_once")
        ]
        indexes = [
            models.Index(fields=["user", "ts", "id"], name="trading_trade_time"),
            models.Index(fields=["user", "symbol", "ts"], name="trading_trade_symbol"),
            models.Index(fields=["user", "broker", "trade_id"], name="trading_trade_netting"),
        ]

    def __str__(self) -> str:
        return f"{self.side} {self.symbol} {self.ts:%Y-%m-%d %H:%M}"


class AiSignature(models.Model):
    """A signature that the AI service has accepted; it is not accepted again."""

    objects: ClassVar[models.Manager[AiSignature]] = models.Manager()

    key_id = models.CharField(max_length=100)
    signature = models.CharField(max_length=64)
    seen_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        db_table = "trading_ai_signature"
        constraints = [
            models.UniqueConstraint(
                fields=["key_id", "signature"], name="trading_ai_signature_once"
            )
        ]

    def __str__(self) -> str:
        return self.key_id
