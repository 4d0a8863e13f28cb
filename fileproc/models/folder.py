"""Folders of an owner, as manifests name them."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models

from fileproc.clock import Now


class Folder(models.Model):
    """A folder; the same name in the same place is the same folder in every batch."""

    objects: ClassVar[models.Manager[Folder]] = models.Manager()

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.TextField()
    parent = models.ForeignKey("self", models.CASCADE, null=True, related_name="children")
    name = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "parent", "name"], name="fileproc_folder_once"
            ),
            models.UniqueConstraint(
                fields=["owner", "name"], condition=models.Q(parent=None),
                name="fileproc_folder_top",
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return self.name
