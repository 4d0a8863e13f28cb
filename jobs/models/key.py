"""Keys that outlive the jobs they were given to."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _


class JobKey(models.Model):
    """A key taken for a window of time, or for ever, by a kind and tenant."""

    id = models.BigAutoField(primary_key=True)
    kind = models.TextField(_("kind"))
    tenant = models.TextField(_("tenant"), default="", db_default="", blank=True)
    key = models.TextField(_("key"))
    job_id = models.UUIDField(_("job"))
    expires_at = models.DateTimeField(_("expires at"), null=True)

    class Meta:
        verbose_name = _("taken key")
        verbose_name_plural = _("taken keys")
        db_table = "jobs_key"
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["kind", "tenant", "key"], name="jobs_key_once"),
        ]
        indexes = [
            models.Index(fields=["job_id"], name="jobs_key_job"),
            models.Index(
                fields=["expires_at"], condition=Q(expires_at__isnull=False), name="jobs_key_expiry"
            ),
        ]

    def __str__(self) -> str:
        return self.key
