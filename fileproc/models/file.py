"""Files, and the runs of their stages."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from fileproc.clock import Now
from fileproc.models.batch import Batch
from fileproc.models.content import Content
from fileproc.models.folder import Folder


class FileStatus(models.TextChoices):
    """The status of a file."""

    REGISTERED = "registered", _("announced")
    UPLOADED = "uploaded", _("uploaded")
    QUEUED = "queued", _("queued")
    EXTRACTING = "extracting", _("extracting")
    CHUNKING = "chunking", _("chunking")
    EMBEDDING = "embedding", _("embedding")
    READY = "ready", pgettext_lazy("document", "ready")
    FAILED = "failed", pgettext_lazy("document", "failed")


class Stage(models.TextChoices):
    """The stages of the pipeline."""

    EXTRACT = "extract", _("extract")
    CHUNK = "chunk", _("chunk")
    EMBED = "embed", _("embed")


class Files(models.Manager["File"]):
    """All files, those that are processed, and those that their owners see."""

    def live(self) -> models.QuerySet[File]:
        """Return the files that have not been deleted, with new generations of them."""
        return self.filter(deleted_at__isnull=True)

    def shown(self) -> models.QuerySet[File]:
        """Return the files that have not been deleted."""
        return self.live().filter(is_draft=False)


class File(models.Model):
    """A file of a batch."""

    objects: ClassVar[Files] = Files()

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    batch = models.ForeignKey(Batch, models.PROTECT, related_name="files")
    owner = models.TextField(_("owner"))
    name = models.TextField(_("name"))
    path = models.TextField(_("folder"), default="", blank=True)
    folder = models.ForeignKey(Folder, models.SET_NULL, null=True, related_name="files")
    """Where it lies, if its manifest named folders."""
    size = models.BigIntegerField(_("size"))
    modified = models.TextField(default="", blank=True)
    """When it was last changed, as the client says; together with path and size it shows whether
    the same file comes again."""
    content_type = models.CharField(max_length=255)
    type = models.CharField(_("type"), max_length=20, default="", blank=True)
    """What the content turned out to be."""
    status = models.CharField(
        _("status"), max_length=12, choices=FileStatus, default=FileStatus.REGISTERED
    )
    resume_stage = models.CharField(max_length=10, choices=Stage, default="", blank=True)
    blob_key = models.TextField()
    blob_etag = models.TextField(default="", blank=True)
    md5 = models.CharField(max_length=32, default="", blank=True)
    sha256 = models.CharField(max_length=64, default="", blank=True)
    """Announced by the client until the content was read, and ours from then on."""
    content = models.ForeignKey(Content, models.SET_NULL, null=True, related_name="files")
    replaces = models.UUIDField(null=True)
    """The file that is deleted, or for a draft gets a new generation, when this one is ready."""
    is_draft = models.BooleanField(default=False)
    """Whether this is the next generation of a file, which only that shows."""
    generation = models.PositiveIntegerField(_("generation"), default=1)
    chunk_count = models.PositiveIntegerField(_("chunks"), default=0)
    error_code = models.CharField(_("error"), max_length=30, default="", blank=True)
    error_stage = models.CharField(max_length=12, default="", blank=True)
    warnings = models.JSONField(default=list, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    isolation = models.CharField(max_length=10, default="", blank=True)
    created_at = models.DateTimeField(_("created"), db_default=Now())
    moved_at = models.DateTimeField(db_default=Now())
    confirmed_at = models.DateTimeField(_("confirmed"), null=True)
    ended_at = models.DateTimeField(pgettext_lazy("document", "ended"), null=True)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("document")
        verbose_name_plural = _("documents")
        permissions = [("view_content", "Can see the text of others' documents")]
        indexes = [
            models.Index(fields=["owner", "-created_at", "-id"], name="fileproc_file_owner"),
            models.Index(fields=["-created_at", "-id"], name="fileproc_file_newest"),
            models.Index(fields=["batch", "-created_at", "-id"], name="fileproc_file_batch"),
            models.Index(fields=["content"], name="fileproc_file_content"),
            models.Index(fields=["owner", "sha256"], name="fileproc_file_sha256"),
            models.Index(
                fields=["replaces"], condition=models.Q(is_draft=True), name="fileproc_file_draft"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def shown_id(self) -> uuid.UUID:
        """Return the id under which the file is known: that of a draft is nobody's business."""
        return self.replaces if self.is_draft and self.replaces is not None else self.pk

    def draft(self) -> File | None:
        """Return the next generation, which is being built or has failed; None without one."""
        return File.objects.live().filter(replaces=self.pk, is_draft=True).first()

    def all_runs(self) -> models.QuerySet[StageRun]:
        """Return the runs of its stages, also of a next generation, in their order."""
        own = models.Q(file=self.pk)
        next_one = models.Q(file__replaces=self.pk, file__is_draft=True)
        return StageRun.objects.filter(own | next_one).order_by("pk")

    @property
    def error(self) -> dict[str, Any] | None:
        """Return what users read about a failure; None for a file that has not failed."""
        from fileproc.errors import message

        if self.status != FileStatus.FAILED:
            return None
        return {
            "code": self.error_code, "message": message(self.error_code),
            "stage": self.error_stage,
            "retryable": self.error_code not in ("NOT_UPLOADED",),
        }  # fmt: skip


class StageRun(models.Model):
    """A stage of a file: its job, and what became of it. It outlives the job."""

    objects: ClassVar[models.Manager[StageRun]] = models.Manager()

    file = models.ForeignKey(File, models.CASCADE, related_name="runs")
    stage = models.CharField(_("stage"), max_length=10, choices=Stage)
    job_id = models.UUIDField(_("job"), unique=True)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    outcome = models.CharField(_("outcome"), max_length=10, default="", blank=True)
    """Empty, ``done`` or ``failed``."""
    error_code = models.CharField(_("error"), max_length=30, default="", blank=True)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(pgettext_lazy("document", "started"), null=True)
    ended_at = models.DateTimeField(pgettext_lazy("document", "ended"), null=True)
    retried_at = models.DateTimeField(null=True)
    retried_by = models.TextField(default="", blank=True)

    class Meta:
        verbose_name = _("stage")
        verbose_name_plural = _("stages")
        indexes = [models.Index(fields=["file", "id"], name="fileproc_run_file")]

    def __str__(self) -> str:
        return f"{self.stage} {self.job_id}"
