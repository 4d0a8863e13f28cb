"""Who did what, and whether it was allowed: written once, never changed."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from jobs.ids import uuid7
from jobs.models.clock import Clock

OUTCOMES = ("done", "denied", "refused")


class Audit(models.Model):
    """One act of somebody: done, denied to him, or refused for the target's sake.

    A trigger refuses every change, and every deletion but that of retention.
    """

    id = models.UUIDField(_("id"), primary_key=True, default=uuid7, editable=False)
    at = models.DateTimeField(_("at"), db_default=Clock())
    actor = models.TextField(_("who"))
    via = models.TextField(_("via"))
    action = models.TextField(_("action"))
    target_kind = models.TextField(_("kind of target"))
    target_id = models.TextField(_("target"), default="", db_default="", blank=True)
    tenant = models.TextField(_("tenant"), default="", db_default="", blank=True)
    queue = models.TextField(_("queue"), default="", db_default="", blank=True)
    count = models.IntegerField(_("count"), default=1, db_default=1)
    reason = models.TextField(_("reason"), default="", db_default="", blank=True)
    request_id = models.TextField(_("request id"), default="", db_default="", blank=True)
    outcome = models.TextField(_("outcome"), choices=[(one, _(one)) for one in OUTCOMES])
    detail = models.JSONField(_("detail"), default=dict)

    class Meta:
        verbose_name = _("act")
        verbose_name_plural = _("audit")
        db_table = "jobs_audit"
        ordering = ["-at", "-id"]
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["at", "id"], name="jobs_audit_at"),
            models.Index(fields=["actor", "at", "id"], name="jobs_audit_actor"),
            models.Index(fields=["action", "at", "id"], name="jobs_audit_action"),
            models.Index(fields=["target_kind", "target_id", "at", "id"], name="jobs_audit_target"),
            models.Index(fields=["tenant", "at", "id"], name="jobs_audit_tenant"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(outcome__in=OUTCOMES), name="jobs_audit_outcome_known"
            ),
            models.CheckConstraint(condition=Q(count__gte=0), name="jobs_audit_count"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target_kind} {self.target_id}"
