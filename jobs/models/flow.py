"""What the dispatchers look at before they let a job go: limits, slots and closures."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class Limiter(models.Model):
    """How many may run at once, and how often one may start, in one scope.

    Scopes are ``queue:<name>``, ``kind:<name>`` and ``key:<kind>|<key>``. The row is also the lock
    under which a dispatcher counts and admits.
    """

    scope = models.TextField(_("scope"), primary_key=True)
    kind = models.TextField(_("kind"), null=True, editable=False)  # noqa: DJ001
    key = models.TextField(_("key"), null=True, editable=False)  # noqa: DJ001
    at_once = models.IntegerField(_("at once"), null=True, blank=True)
    per_second = models.FloatField(_("per second"), null=True, blank=True)
    burst = models.FloatField(_("burst"), default=1, db_default=1)
    tokens = models.FloatField(_("tokens"), default=0, db_default=0)
    refilled_at = models.DateTimeField(_("refilled at"), null=True)
    closed_until = models.DateTimeField(_("closed until"), null=True, blank=True)
    held_at = models.DateTimeField(_("held work back at"), null=True)
    rated_at = models.DateTimeField(_("rate held jobs back at"), null=True)
    rated_since = models.DateTimeField(_("rate holds jobs back since"), null=True)
    is_declared = models.BooleanField(_("declared in code"), default=True, db_default=True)
    # What people have set, and what holds again when its time is over: nothing is the code's.
    override_until = models.DateTimeField(_("until"), null=True, blank=True)
    standing = models.JSONField(_("before the override"), null=True, editable=False)
    set_by = models.TextField(_("set by"), default="", db_default="", blank=True)
    set_reason = models.TextField(_("reason"), default="", db_default="", blank=True)

    class Meta:
        verbose_name = _("limit")
        verbose_name_plural = _("limits")
        db_table = "jobs_limiter"
        ordering = ["scope"]
        indexes = [
            models.Index(
                fields=["override_until"],
                condition=Q(override_until__isnull=False),
                name="jobs_limiter_override",
            ),
            models.Index(
                fields=["closed_until"],
                condition=Q(closed_until__isnull=False),
                name="jobs_limiter_closed",
            ),
        ]

    def __str__(self) -> str:
        return self.scope


class Slot(models.Model):
    """An exclusive key and the one queued or running job that holds it."""

    key = models.TextField(_("key"), primary_key=True)
    job_id = models.UUIDField(_("job"))

    class Meta:
        verbose_name = _("exclusive key")
        verbose_name_plural = _("exclusive keys")
        db_table = "jobs_slot"
        ordering = ["key"]

    def __str__(self) -> str:
        return self.key


class Closure(models.Model):
    """A scope in which nothing starts now, by a pause or inside a blackout window.

    Dispatch and claim read this table; pauses and blackouts are kept apart, with their reasons.
    Scopes are ``queue:``, ``kind:``, ``tenant:``, ``key:`` and ``limit_key:`` with a name.
    """

    scope = models.TextField(_("scope"), primary_key=True)
    until = models.DateTimeField(_("until"), null=True)
    why = models.TextField(_("why"))

    class Meta:
        verbose_name = _("closure")
        verbose_name_plural = _("closures")
        db_table = "jobs_closure"
        ordering = ["scope"]
        # Holds all that is asked in every round, so that the table itself is not read.
        indexes = [models.Index(fields=["until", "scope"], name="jobs_closure_until")]

    def __str__(self) -> str:
        return self.scope
