"""Queries that people keep under a name."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.models.clock import Clock


class SavedView(models.Model):
    """A query of the list of jobs with its tab, kept by somebody.

    ``keeper`` distinguishes one person from another, ``owner`` is how records name him. A shared
    view is shown to all who see its tenant; without a tenant, to those who see all tenants.
    """

    id = models.BigAutoField(primary_key=True)
    name = models.TextField(_("name"))
    query = models.TextField(_("query"), default="", db_default="", blank=True)
    tab = models.TextField(_("tab"), default="all", db_default="all")
    tenant = models.TextField(_("tenant"), default="", db_default="", blank=True)
    is_shared = models.BooleanField(_("shared"), default=False, db_default=False)
    owner = models.TextField(_("owner"))
    keeper = models.TextField(editable=False)
    created_at = models.DateTimeField(_("created at"), db_default=Clock())

    class Meta:
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        db_table = "jobs_savedview"
        ordering = ["name", "id"]
        default_permissions = ()
        indexes = [
            models.Index(
                fields=["tenant", "name"],
                name="jobs_savedview_shared",
                condition=models.Q(is_shared=True),
            )
        ]
        constraints = [
            models.UniqueConstraint(fields=["keeper", "name"], name="jobs_savedview_once"),
        ]

    def __str__(self) -> str:
        return str(self.name)
