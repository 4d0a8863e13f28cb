"""Comparisons with holding, and weekly digests."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from trading.clock import Now
from trading.models.trade import Trade
from trading.money import DIGITS, PLACES


class Simulation(models.Model):
    """What a trade has brought, compared with holding, over some days."""

    objects: ClassVar[models.Manager[Simulation]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    trade = models.ForeignKey(Trade, models.CASCADE, related_name="simulations")
    horizon_days = models.PositiveSmallIntegerField(_("days"))
    source = models.CharField(_("source"), max_length=20)
    job_id = models.UUIDField(null=True, blank=True)
    hold = models.DecimalField(_("hold"), max_digits=DIGITS, decimal_places=PLACES, null=True)
    actual = models.DecimalField(_("actual"), max_digits=DIGITS, decimal_places=PLACES, null=True)
    delta = models.DecimalField(
        _("difference"), max_digits=DIGITS, decimal_places=PLACES, null=True
    )
    curves = models.JSONField(default=list)
    """``[[close of the hour, holdPnL, actualPnL], …]`` with amounts as text."""
    is_partial = models.BooleanField(_("partial"), default=False)
    until = models.DateTimeField(_("until"), null=True, blank=True)
    fresh_until = models.DateTimeField(null=True, blank=True)
    error = models.CharField(_("error"), max_length=40, default="", blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "trading_simulation"
        verbose_name = _("comparison")
        verbose_name_plural = _("comparisons")
        constraints = [
            models.UniqueConstraint(
                fields=["user", "trade", "horizon_days", "source"], name="trading_simulation_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.trade_id} {self.horizon_days} d"


class Digest(models.Model):
    """A user's week, from Monday to Monday."""

    objects: ClassVar[models.Manager[Digest]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    period_start = models.DateField(_("from"))
    period_end = models.DateField(pgettext_lazy("period", "to"))
    """Exclusive."""
    payload = models.JSONField(default=dict)
    sha256 = models.CharField(max_length=64)
    storage_key = models.CharField(max_length=200)
    created_at = models.DateTimeField(_("written"), db_default=Now())
    delivered_at = models.DateTimeField(_("published"), null=True, blank=True)

    class Meta:
        db_table = "trading_digest"
        verbose_name = _("digest")
        verbose_name_plural = _("digests")
        constraints = [
            models.UniqueConstraint(
                fields=["user", "period_start", "period_end"], name="trading_digest_once"
            )
        ]
        indexes = [models.Index(fields=["user", "-period_end"], name="trading_digest_newest")]

    def __str__(self) -> str:
        return f"{self.period_start} – {self.period_end}"  # noqa: RUF001
