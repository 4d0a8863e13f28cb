"""A domain model as apps have them, with states of its own."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Plan(models.Model):
    """Something that is drafted, approved and published."""

    class Status(models.TextChoices):
        DRAFT = "draft"
        READY = "ready"
        APPROVED = "approved"
        PUBLISHED = "published"
        FAILED = "failed"

    objects: ClassVar[models.Manager[Plan]] = models.Manager()

    status = models.CharField(max_length=20, choices=Status.choices, default=Status.DRAFT)
    title = models.CharField(max_length=50, default="")
    moves = models.IntegerField(default=0)
    mood = models.CharField(max_length=20, default="calm")
    reviewed_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.title


class Announcement(models.Model):
    """What was said about a move, in its transaction."""

    objects: ClassVar[models.Manager[Announcement]] = models.Manager()

    text = models.CharField(max_length=200)

    def __str__(self) -> str:
        return self.text
