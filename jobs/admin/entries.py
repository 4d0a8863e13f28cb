"""Pages without a table of their own, as entries of any admin site.

Django's admin registers models: these stand for pages. They have no table and no migration, no
content type and no permissions; who sees them is said by their admin.
"""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Overview(models.Model):
    """The overview's entry."""

    class Meta:
        app_label = "jobs"
        managed = False
        auto_created = True  # so that neither migrations nor permissions are made for it
        verbose_name = _("overview")
        verbose_name_plural = _("overview")

    def __str__(self) -> str:
        return str(self._meta.verbose_name)


class WorkerPage(models.Model):
    """The entry of workers: a worker has one or more executors."""

    class Meta:
        app_label = "jobs"
        managed = False
        auto_created = True
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return str(self._meta.verbose_name)
