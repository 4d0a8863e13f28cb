"""What jobs can be found by without reading them, and the marks that deploys leave on charts."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from jobs.models.clock import Clock


class Search(models.Model):
    """A value by which a job is found: a tag, its correlation id or a declared payload field.

    Written with the job and deleted with it. No foreign key: it would lock the job's row.
    """

    id = models.BigAutoField(primary_key=True)
    path = models.TextField(_("path"))
    value = models.TextField(_("value"))
    job_id = models.UUIDField(_("job"))
    created_at = models.DateTimeField(_("created at"))

    class Meta:
        verbose_name = _("search value")
        verbose_name_plural = _("search values")
        db_table = "jobs_search"
        ordering = ["id"]
        indexes = [
            models.Index(
                fields=["path", "value", "created_at", "job_id"], name="jobs_search_found"
            ),
            models.Index(fields=["job_id"], name="jobs_search_job"),
        ]

    def __str__(self) -> str:
        return f"{self.path}: {self.value}"


class Deploy(models.Model):
    """The moment at which a version of the project went live."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(_("at"), db_default=Clock())
    version = models.TextField(_("version"))
    by = models.TextField(_("by"), default="", db_default="", blank=True)

    class Meta:
        verbose_name = _("deploy")
        verbose_name_plural = _("deploys")
        db_table = "jobs_deploy"
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["at"], name="jobs_deploy_at")]

    def __str__(self) -> str:
        return self.version
