"""Runs of syncs: what each has changed, and deletions that wait for a person."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from operations.clock import Now
from operations.models.agent import Agent
from operations.models.operation import Operation


class Outcome(models.TextChoices):
    """How a run ended."""

    RUNNING = "running", _("running")
    DONE = "done", _("complete")
    HELD = "held", _("deletions held")
    ALLOWED = "allowed", _("deletions allowed")
    REJECTED = "rejected", _("deletions rejected")
    REPLACED = "replaced", _("replaced by a newer run")
    FAILED = "failed", _("failed")


class SyncRun(models.Model):
    """A run of a sync, with the id of its operation."""

    objects: ClassVar[models.Manager[SyncRun]] = models.Manager()

    operation = models.OneToOneField(
        Operation, models.CASCADE, primary_key=True, related_name="run"
    )  # fmt: skip
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="+", verbose_name=_("agent"))
    tenant = models.CharField(max_length=70)
    type = models.CharField(_("type"), max_length=40)
    outcome = models.CharField(
        _("outcome"), max_length=10, choices=Outcome.choices, default=Outcome.RUNNING
    )
    processed = models.PositiveIntegerField(_("rows"), default=0)
    new = models.PositiveIntegerField(_("new"), default=0)
    updated = models.PositiveIntegerField(_("updated"), default=0)
    deleted = models.PositiveIntegerField(pgettext_lazy("count", "deleted"), default=0)
    downloads = models.PositiveSmallIntegerField(_("downloads"), default=0)
    rejected: Any = models.JSONField(_("rejected rows"), default=list)
    """Numbers of rows and the names of their invalid columns; at most the first hundred."""
    rejected_count = models.PositiveIntegerField(_("rejected"), default=0)
    held: Any = ArrayField(models.CharField(max_length=120), default=list, blank=True)
    """Keys of the rows that it would delete."""
    error_code = models.CharField(_("error"), max_length=60, default="", blank=True)
    started_at = models.DateTimeField(_("started"), db_default=Now())
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("sync run")
        verbose_name_plural = _("sync runs")
        permissions = [("decide_deletions", _("Can decide about held deletions"))]
        indexes = [
            models.Index(fields=["-started_at", "operation"], name="operations_run_newest"),
            models.Index(
                fields=["agent", "type"], condition=models.Q(outcome="held"),
                name="operations_run_held",
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.type} {self.agent_id}"
