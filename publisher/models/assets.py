"""Assets: images and videos that a brand has uploaded."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from publisher.clock import Now
from publisher.models.publishing import Brand


class Asset(models.Model):
    """An image or a video of a brand. Its type and hash are those of its bytes."""

    class Kind(models.TextChoices):
        """What it is; empty until its bytes are here."""

        IMAGE = "image", _("image")
        VIDEO = "video", _("video")

    objects: ClassVar[models.Manager[Asset]] = models.Manager()

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    brand = models.ForeignKey(Brand, models.PROTECT, related_name="assets")
    tenant = models.CharField(_("tenant"), max_length=80, editable=False)
    name = models.CharField(_("name"), max_length=150)
    alt_text = models.CharField(_("alternative text"), max_length=1000, default="", blank=True)
    size = models.BigIntegerField(_("bytes"))
    is_ready = models.BooleanField(_("ready"), default=False)
    """Whether its bytes are here and have been looked at."""
    kind = models.CharField(_("kind"), max_length=5, choices=Kind.choices, default="", blank=True)
    content_type = models.CharField(_("type"), max_length=50)
    sha256 = models.CharField("SHA-256", max_length=64, default="", blank=True)
    width = models.PositiveIntegerField(_("width"), default=0)
    height = models.PositiveIntegerField(_("height"), default=0)
    seconds = models.FloatField(_("length in seconds"), default=0)
    is_odd = models.BooleanField(_("converted for every channel"), default=False)
    """Whether channels get the copy even if they take such files: the image is not upright."""
    copy_size = models.PositiveIntegerField(_("bytes of the JPEG copy"), default=0)
    """That of an image which some channels would not take; 0 if there is no copy."""
    copy_sha256 = models.CharField(
        _("SHA-256 of the JPEG copy"), max_length=64, default="", blank=True
    )
    created_by = models.CharField(_("created by"), max_length=200)
    created_at = models.DateTimeField(_("created"), db_default=Now())
    used_at = models.DateTimeField(_("last used"), db_default=Now())
    """When a post or a plan with it was last stored, or has ended."""

    class Meta:
        verbose_name = _("asset")
        verbose_name_plural = _("assets")
        indexes = [
            models.Index(fields=["-created_at", "id"], name="publisher_asset_newest"),
            models.Index(fields=["used_at", "id"], name="publisher_asset_used"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def blob(self) -> str:
        """Return the key of its bytes in the store."""
        return f"publisher/{self.pk}"

    @property
    def copy_blob(self) -> str:
        """Return the key of its JPEG copy in the store."""
        return f"publisher/{self.pk}.jpg"
