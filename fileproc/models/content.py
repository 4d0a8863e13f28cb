"""Contents: the text of equal files of one owner, its chunks, and vectors to be used again."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models

from fileproc.clock import Now
from fileproc.languages import ConfigurationField


class Content(models.Model):
    """What was read from bytes that an owner has uploaded, however often."""

    objects: ClassVar[models.Manager[Content]] = models.Manager()

    owner = models.TextField()
    sha256 = models.CharField(max_length=64)
    pipeline = models.CharField(max_length=32)
    edition = models.CharField(max_length=32, default="", blank=True)
    """Empty for the one that new files share; else a former one, or one that is being made."""
    holder = models.UUIDField(null=True)
    """The file that is being processed for all of them."""
    is_ready = models.BooleanField(default=False)
    type = models.CharField(max_length=20, default="", blank=True)
    text = models.TextField(default="", blank=True)
    pages = models.JSONField(default=list)
    """Offsets at which pages begin; empty where there are none."""
    headings = models.JSONField(default=list)
    """Offset, level and text of each heading."""
    is_table = models.BooleanField(default=False)
    warnings = models.JSONField(default=list)
    model = models.CharField(max_length=60, default="", blank=True)
    """The embedding model; empty where there are no vectors."""
    index_key = models.CharField(max_length=60, default="", blank=True)
    """How the keys of its documents begin in the index of another host, if it has any there."""
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "sha256", "pipeline", "edition"], name="fileproc_content_once"
            )
        ]

    def __str__(self) -> str:
        return self.sha256[:12]


class Chunk(models.Model):
    """A piece of a content, as it is found by searches."""

    objects: ClassVar[models.Manager[Chunk]] = models.Manager()

    content = models.ForeignKey(Content, models.CASCADE, related_name="chunks")
    number = models.PositiveIntegerField()
    text = models.TextField()
    start = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    first_page = models.PositiveIntegerField(null=True)
    last_page = models.PositiveIntegerField(null=True)
    headings = models.JSONField(default=list)
    tokens = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    language = ConfigurationField(default="english")
    words = models.GeneratedField(
        expression=SearchVector("text", config=models.F("language")),
        output_field=SearchVectorField(),
        db_persist=True,
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["content", "number"], name="fileproc_chunk_once")
        ]
        indexes = [GinIndex(fields=["words"], name="fileproc_chunk_words")]

    def __str__(self) -> str:
        return f"{self.content_id}/{self.number}"

    @property
    def pages(self) -> str:
        """Its first and last page; nothing where the type has none."""
        if self.first_page is None or self.first_page == self.last_page:
            return str(self.first_page or "")
        return f"{self.first_page}-{self.last_page}"


class CachedVector(models.Model):
    """A vector of an owner's text; owners share none, since speed would tell what others have."""

    objects: ClassVar[models.Manager[CachedVector]] = models.Manager()

    owner = models.TextField()
    model = models.CharField(max_length=60)
    sha256 = models.CharField(max_length=64)
    vector = models.BinaryField()
    """Half-precision numbers, little-endian."""
    used_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "model", "sha256"], name="fileproc_vector_once"
            )
        ]
        indexes = [models.Index(fields=["used_at"], name="fileproc_vector_used")]

    def __str__(self) -> str:
        return self.sha256[:12]
