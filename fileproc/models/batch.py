"""Batches: files that were uploaded together, counted by state."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from fileproc.clock import Now
from fileproc.languages import DEFAULT


class BatchStatus(models.TextChoices):
    """The status of a batch."""

    PENDING_UPLOAD = "pending_upload", _("waiting for files")
    ACTIVE = "active", _("active")
    COMPLETED = "completed", pgettext_lazy("document", "completed")
    CANCELLED = "cancelled", pgettext_lazy("document", "cancelled")
    EXPIRED = "expired", pgettext_lazy("document", "expired")


class Batch(models.Model):
    """A batch; its counters change in the transaction in which a file changes its state."""

    objects: ClassVar[models.Manager[Batch]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.TextField(_("owner"))
    status = models.CharField(
        _("status"), max_length=20, choices=BatchStatus, default=BatchStatus.PENDING_UPLOAD
    )
    file_count = models.PositiveIntegerField(_("files"))
    """Files that there are to be: the announced ones, until the batch is sealed or expires."""
    registered = models.PositiveIntegerField(default=0)
    uploaded = models.PositiveIntegerField(default=0)
    queued = models.PositiveIntegerField(default=0)
    extracting = models.PositiveIntegerField(default=0)
    chunking = models.PositiveIntegerField(default=0)
    embedding = models.PositiveIntegerField(default=0)
    ready = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    revision = models.PositiveIntegerField(_("revision"), default=1)
    is_progress_due = models.BooleanField(default=False)
    metadata = models.JSONField(default=dict, blank=True)
    chunk_tokens = models.PositiveIntegerField(null=True)
    chunk_overlap = models.PositiveIntegerField(null=True)
    language = models.CharField(max_length=10, default=DEFAULT)
    """Of its documents, for the search by words."""
    with_ocr = models.BooleanField(default=True)
    """Whether the text of its pictures is recognised, where OCR is installed."""
    created_at = models.DateTimeField(_("created"), db_default=Now())
    used_at = models.DateTimeField(db_default=Now())
    """When a file was last registered or confirmed."""
    expires_at = models.DateTimeField(_("expires"))
    completed_at = models.DateTimeField(pgettext_lazy("document", "completed"), null=True)

    class Meta:
        verbose_name = _("upload")
        verbose_name_plural = _("uploads")
        indexes = [
            models.Index(fields=["owner", "-created_at", "-id"], name="fileproc_batch_owner"),
            models.Index(fields=["-created_at", "-id"], name="fileproc_batch_newest"),
            models.Index(
                fields=["expires_at"],
                condition=models.Q(status__in=["pending_upload", "active"]),
                name="fileproc_batch_open",
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def processed_count(self) -> int:
        """Return how many files have come to an end."""
        return self.ready + self.failed

    @property
    def registered_count(self) -> int:
        """Return how many files there are, in any state."""
        states = ("registered", "uploaded", "queued", "extracting", "chunking", "embedding")
        return self.processed_count + sum(int(getattr(self, name)) for name in states)


class Quota(models.Model):
    """How much an owner may store; None is the default of the settings."""

    objects: ClassVar[models.Manager[Quota]] = models.Manager()

    owner = models.TextField(_("owner"), primary_key=True)
    bytes_limit = models.BigIntegerField(_("bytes"), null=True)
    batches_limit = models.PositiveIntegerField(_("open uploads"), null=True)

    class Meta:
        verbose_name = _("quota")
        verbose_name_plural = _("quotas")

    def __str__(self) -> str:
        return self.owner
