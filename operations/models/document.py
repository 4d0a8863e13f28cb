"""Documents that were downloaded from the ERP."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from operations.clock import Now
from operations.models.agent import Agent
from operations.models.operation import Operation


class Document(models.Model):
    """A PDF, kept among the blobs."""

    objects: ClassVar[models.Manager[Document]] = models.Manager()

    operation = models.OneToOneField(
        Operation, models.CASCADE, primary_key=True, related_name="document"
    )  # fmt: skip
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="+", verbose_name=_("agent"))
    tenant = models.CharField(max_length=70)
    number = models.CharField(_("number"), max_length=80)
    blob = models.CharField(max_length=200)
    size = models.PositiveIntegerField(_("bytes"))
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(_("created"), db_default=Now())

    class Meta:
        verbose_name = _("document")
        verbose_name_plural = _("documents")

    def __str__(self) -> str:
        return self.number
