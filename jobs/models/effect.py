"""The ledger of what cannot be rolled back, and the breakers before it."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from jobs.models.clock import Clock
from jobs.models.job import Job


class Effect(models.Model):
    """A side effect of a job: intended before, done or in doubt after."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(
        Job, on_delete=models.CASCADE, related_name="effects", verbose_name=_("job")
    )
    key = models.TextField(_("key"))
    state = models.TextField(_("state"), default="intent", db_default="intent")
    token = models.UUIDField(_("token of the call"))
    attempt = models.IntegerField(_("attempt"))
    request = models.JSONField(_("request"), null=True)
    outcome = models.JSONField(_("outcome"), null=True)
    resolution = models.TextField(_("resolution"), default="", db_default="", blank=True)
    intended_at = models.DateTimeField(_("intended at"), db_default=Clock())
    settled_at = models.DateTimeField(_("settled at"), null=True)

    class Meta:
        verbose_name = _("effect")
        verbose_name_plural = _("effects")
        db_table = "jobs_effect"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["job", "key"], name="jobs_effect_once"),
            models.CheckConstraint(
                condition=Q(state__in=["intent", "done", "in_doubt", "failed"]),
                name="jobs_effect_state_known",
            ),
        ]
        indexes = [
            models.Index(
                fields=["intended_at"], condition=Q(state="in_doubt"), name="jobs_effect_doubt"
            )
        ]

    def __str__(self) -> str:
        return f"{self.key}: {self.state}"


class Breaker(models.Model):
    """A circuit breaker that all workers share."""

    name = models.TextField(_("name"), primary_key=True)
    state = models.TextField(_("state"), default="closed", db_default="closed")
    failures = models.IntegerField(_("failures in a row"), default=0, db_default=0)
    threshold = models.IntegerField(_("opens after"), default=5, db_default=5)
    open_for = models.FloatField(_("open for seconds"), default=60, db_default=60)
    opened_at = models.DateTimeField(_("opened at"), null=True)
    retry_at = models.DateTimeField(_("probe at"), null=True)
    probe_token = models.UUIDField(_("probe"), null=True)
    last_error = models.TextField(_("last error"), default="", db_default="", blank=True)

    class Meta:
        verbose_name = _("circuit breaker")
        verbose_name_plural = _("circuit breakers")
        db_table = "jobs_breaker"
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["closed", "open", "half_open"]),
                name="jobs_breaker_state_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.state}"
