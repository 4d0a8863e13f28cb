"""A page without a table of its own, as an entry of any admin site."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Calendar(models.Model):
    """The entry of the calendar."""

    class Meta:
        app_label = "publisher"
        managed = False
        auto_created = True  # so that neither migrations nor permissions are made for it
        verbose_name = _("calendar")
        verbose_name_plural = _("calendar")

    def __str__(self) -> str:
        return str(self._meta.verbose_name)
