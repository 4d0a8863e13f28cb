"""Labels of trades, the user's rules, and which trades broke them."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from trading.clock import Now
from trading.models.trade import Trade


class Label(models.TextChoices):
    """What a trade looks like, judged by the prices before it."""

    FOMO = "FOMO", _("FOMO")
    PANIC = "PANIC", _("Panic")
    DISCIPLINE = "DISCIPLINE", _("Discipline")
    NEUTRAL = "NEUTRAL", _("Neutral")


class Source(models.TextChoices):
    """Where the figures came from."""

    AI = "ai", _("AI service")
    HEURISTICS = "heuristics", _("heuristics only")


class BiasTag(models.Model):
    """A label of a trade; another label supersedes it."""

    objects: ClassVar[models.Manager[BiasTag]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    trade = models.ForeignKey(Trade, models.CASCADE, related_name="tags")
    label = models.CharField(_("label"), max_length=12, choices=Label.choices)
    confidence = models.DecimalField(_("confidence"), max_digits=3, decimal_places=2)
    features = models.JSONField(_("figures"), default=dict)
    sparkline = models.JSONField(default=list)
    insight = models.CharField(_("insight"), max_length=300, default="", blank=True)
    source = models.CharField(_("source"), max_length=12, choices=Source.choices)
    rules_version = models.CharField(max_length=10)
    is_current = models.BooleanField(default=True)
    created_at = models.DateTimeField(_("tagged"), db_default=Now())

    class Meta:
        db_table = "trading_tag"
        verbose_name = _("label")
        verbose_name_plural = _("labels")
        constraints = [
            models.UniqueConstraint(
                fields=["trade"], condition=models.Q(is_current=True), name="trading_tag_current"
            )
        ]
        indexes = [models.Index(fields=["user", "label"], name="trading_tag_label")]

    def __str__(self) -> str:
        return self.label


class Insight(models.Model):
    """The sentence about an order with this label, written once."""

    objects: ClassVar[models.Manager[Insight]] = models.Manager()

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    broker = models.CharField(max_length=20)
    order_id = models.CharField(max_length=100)
    label = models.CharField(max_length=12)
    text = models.CharField(max_length=300)

    class Meta:
        db_table = "trading_insight"
        constraints = [
            models.UniqueConstraint(
                fields=["user", "broker", "order_id", "label"], name="trading_insight_once"
            )
        ]

    def __str__(self) -> str:
        return self.text


class Rule(models.Model):
    """A rule that the user has set for himself."""

    objects: ClassVar[models.Manager[Rule]] = models.Manager()

    class Kind(models.TextChoices):
        """What a rule forbids."""

        AVOID_SPIKE = "avoidSpikeOverPct", _("do not buy after a spike")
        MIN_HOLD = "minHoldHours", _("hold for a minimum time")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    kind = models.CharField(_("rule"), max_length=30, choices=Kind.choices)
    params = models.JSONField(_("parameters"), default=dict)
    is_active = models.BooleanField(_("active"), default=True)
    updated_at = models.DateTimeField(_("changed"), db_default=Now())

    class Meta:
        db_table = "trading_rule"
        verbose_name = _("rule")
        verbose_name_plural = _("rules")
        constraints = [models.UniqueConstraint(fields=["user", "kind"], name="trading_rule_once")]

    def __str__(self) -> str:
        return self.get_kind_display()


class RuleBreak(models.Model):
    """A trade that broke a rule, as of its last scoring."""

    objects: ClassVar[models.Manager[RuleBreak]] = models.Manager()

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    trade = models.ForeignKey(Trade, models.CASCADE, related_name="breaks")
    kind = models.CharField(_("rule"), max_length=30, choices=Rule.Kind.choices)
    figure = models.CharField(_("figure"), max_length=40)
    """The spike in percent, or the hours held."""

    class Meta:
        db_table = "trading_rule_break"
        verbose_name = _("broken rule")
        verbose_name_plural = _("broken rules")
        constraints = [
            models.UniqueConstraint(fields=["trade", "kind"], name="trading_rule_break_once")
        ]

    def __str__(self) -> str:
        return self.kind
