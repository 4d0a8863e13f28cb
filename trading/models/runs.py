"""The progress of imports and scorings; a run has the id of its job."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from trading.clock import Now
from trading.models.connection import BrokerConnection


class ImportState(models.TextChoices):
    """States of an import."""

    INIT = "INIT", _("waiting")
    FETCH_PAGE = "FETCH_PAGE", _("fetching")
    NORMALIZE = "NORMALIZE", _("reading")
    UPSERT = "UPSERT", _("storing")
    EMIT_PROGRESS = "EMIT_PROGRESS", _("publishing")
    RETRY = "RETRY", _("waiting to retry")
    SCORE_ENQUEUE = "SCORE_ENQUEUE", _("enqueueing the labelling")
    DONE = "DONE", _("done")
    FAILED = "FAILED", _("failed")


class ImportRun(models.Model):
    """One import of a linked account."""

    objects: ClassVar[models.Manager[ImportRun]] = models.Manager()

    id = models.UUIDField(primary_key=True, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    connection = models.ForeignKey(
        BrokerConnection,
        models.CASCADE,
        verbose_name=pgettext_lazy("venue", "account"),
        related_name="runs",
    )
    state = models.CharField(
        _("state"), max_length=20, choices=ImportState.choices, default=ImportState.INIT
    )
    since = models.DateTimeField(_("since"))
    cursor = models.TextField(default="", blank=True)
    mark = models.TextField(default="", blank=True)
    """A cursor of the past: seeing it again means that the pages go in circles."""
    pages = models.PositiveIntegerField(_("pages"), default=0)
    restarts = models.PositiveSmallIntegerField(default=0)
    fetched = models.PositiveIntegerField(_("fetched"), default=0)
    stored = models.PositiveIntegerField(_("stored"), default=0)
    conflicts = models.PositiveIntegerField(_("conflicts"), default=0)
    skipped = models.PositiveIntegerField(_("skipped"), default=0)
    """Rows of products that the app does not know, such as futures."""
    percent = models.PositiveSmallIntegerField(_("percent"), default=0)
    oldest = models.DateTimeField(null=True, blank=True)
    """The oldest fill that this run stored or whose netting it changed."""
    waiting_since = models.DateTimeField(null=True, blank=True)
    """Since when the venue has asked to wait, without a page in between."""
    error = models.CharField(_("error"), max_length=40, default="", blank=True)
    created_at = models.DateTimeField(_("started"), db_default=Now())
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        db_table = "trading_import"
        verbose_name = _("import")
        verbose_name_plural = _("imports")
        indexes = [models.Index(fields=["user", "-created_at"], name="trading_import_newest")]

    def __str__(self) -> str:
        return str(self.pk)


class ScoreState(models.TextChoices):
    """States of a scoring."""

    LOAD_TRADES = "LOAD_TRADES", _("loading")
    INDICATORS = "INDICATORS", _("asking for indicators")
    HEURISTICS = "HEURISTICS", _("labelling")
    PERSIST = "PERSIST", _("storing")
    EMIT_REFLECT = "EMIT_REFLECT", _("publishing")
    NEXT_BATCH = "NEXT_BATCH", _("next batch")
    DONE = "DONE", _("done")
    FAILED = "FAILED", _("failed")


class ScoreRun(models.Model):
    """One scoring of a user's trades since a moment."""

    objects: ClassVar[models.Manager[ScoreRun]] = models.Manager()

    id = models.UUIDField(primary_key=True, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    state = models.CharField(
        _("state"), max_length=20, choices=ScoreState.choices, default=ScoreState.LOAD_TRADES
    )
    since = models.DateTimeField(_("since"))
    position_ts = models.DateTimeField(null=True, blank=True)
    position_id = models.BigIntegerField(default=0)
    scored = models.PositiveIntegerField(_("scored"), default=0)
    changed = models.PositiveIntegerField(pgettext_lazy("count", "changed"), default=0)
    error = models.CharField(_("error"), max_length=40, default="", blank=True)
    created_at = models.DateTimeField(_("started"), db_default=Now())
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        db_table = "trading_score"
        verbose_name = _("scoring")
        verbose_name_plural = _("scorings")
        indexes = [models.Index(fields=["user", "-created_at"], name="trading_score_newest")]

    def __str__(self) -> str:
        return str(self.pk)
