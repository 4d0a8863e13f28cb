"""Causes: dead letters that died of the same error, and what people have decided about it."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from jobs.models.clock import Clock

CAUSE_STATES = [
    ("open", _("open")),
    ("ignored", _("ignored")),
    ("resolved", _("resolved")),
]


class Cause(models.Model):
    """One normalised error. Its counts are kept by the statement that opens dead letters."""

    fingerprint = models.TextField(_("fingerprint"), primary_key=True)
    state = models.TextField(_("state"), choices=CAUSE_STATES, default="open", db_default="open")
    ignored_until = models.DateTimeField(_("ignored until"), null=True, blank=True)
    note = models.TextField(_("note"), default="", db_default="", blank=True)
    decided_by = models.TextField(_("decided by"), default="", db_default="", blank=True)
    decided_at = models.DateTimeField(_("decided at"), null=True)
    sample = models.TextField(_("an error of it"), default="", db_default="")
    first_at = models.DateTimeField(_("first seen"), db_default=Clock())
    reopened = models.IntegerField(_("how often it came back"), default=0, db_default=0)

    class Meta:
        verbose_name = _("cause of failures")
        verbose_name_plural = _("causes of failures")
        db_table = "jobs_cause"
        ordering = ["-first_at", "fingerprint"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=[name for name, _ in CAUSE_STATES]),
                name="jobs_cause_state_known",
            ),
            models.CheckConstraint(
                condition=Q(ignored_until__isnull=True) | Q(state="ignored"),
                name="jobs_cause_until_ignored",
            ),
        ]

    def __str__(self) -> str:
        return self.sample or self.fingerprint


class CauseSeen(models.Model):
    """How often the error killed jobs of one kind, queue and tenant."""

    id = models.BigAutoField(primary_key=True)
    fingerprint = models.TextField(_("fingerprint"))
    kind = models.TextField(_("kind"))
    queue = models.TextField(_("queue"))
    tenant = models.TextField(_("tenant"), default="", db_default="", blank=True)
    count = models.BigIntegerField(_("how often"), default=0, db_default=0)
    first_at = models.DateTimeField(_("first seen"), db_default=Clock())
    last_at = models.DateTimeField(_("last seen"), db_default=Clock())

    class Meta:
        verbose_name = _("occurrence of a cause")
        verbose_name_plural = _("occurrences of causes")
        db_table = "jobs_causeseen"
        ordering = ["fingerprint", "kind", "queue", "tenant"]
        constraints = [
            models.UniqueConstraint(
                fields=["fingerprint", "kind", "queue", "tenant"], name="jobs_causeseen_once"
            ),
        ]
        indexes = [models.Index(fields=["last_at"], name="jobs_causeseen_last")]

    def __str__(self) -> str:
        return f"{self.fingerprint} {self.kind}"
