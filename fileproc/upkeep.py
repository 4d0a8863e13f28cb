"""Clean-ups: erased files, expired batches, stages that are stuck, vectors nobody uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from fileproc import flow, indexing, states
from fileproc.indexing import postgres
from fileproc.models import (
    Batch,
    BatchStatus,
    CachedVector,
    Content,
    File,
    FileStatus,
    Folder,
    Stage,
    StageRun,
)
from fileproc.payloads import KINDS
from fileproc.services import batches
from jobs import blobs
from jobs.blobs import Blob
from jobs.models import DeadLetter, Job

STUCK = timedelta(minutes=30)
RESTARTS = 3
KEEP_VECTORS = timedelta(days=90)
ORPHAN = timedelta(days=1)
SETTLED = timedelta(minutes=1)
"""How long ago a file failed whose dead letter is surely there."""
KEEP_FAILED = timedelta(days=90)
"""How long a failed file can be retried; longer while its dead letter is open."""


def erase(file: File) -> None:
    """Remove the blob of a deleted file, and its text if no other file has the same.

    The blob of a draft is its file's, which also inherits the runs of its stages.
    """
    if not file.is_draft:
        blobs.store().delete(file.blob_key)
    with transaction.atomic():
        content_id = file.content_id
        if content_id is not None:
            content = Content.objects.select_for_update().filter(pk=content_id).first()
            others = File.objects.live().filter(content_id=content_id)
            if content is not None and not others.exists():
                indexing.forget(content)
                postgres.delete_of(content_id)
                Content.objects.filter(pk=content_id).delete()
        heir = File.objects.shown().select_for_update(no_key=True).filter(pk=file.shown_id)
        if file.is_draft and heir.exists():
            StageRun.objects.filter(file=file).update(file=file.shown_id)
        File.objects.filter(pk=file.pk).delete()


def sweep(dry_run: bool, chunk: int) -> Iterator[Mapping[str, int]]:
    """Remove cached vectors that nobody has used for long, and what deletions left behind."""
    old = CachedVector.objects.filter(used_at__lt=timezone.now() - KEEP_VECTORS)
    gone = File.objects.filter(
        deleted_at__isnull=False, deleted_at__lt=timezone.now() - timedelta(hours=1)
    )
    empty = Folder.objects.filter(
        files=None, children=None, created_at__lt=timezone.now() - timedelta(days=1)
    )
    if dry_run:
        yield {
            "cached vectors": old.count(), "deleted files": gone.count(), "folders": empty.count(),
        }  # fmt: skip
        return
    while unused := list(empty[:chunk]):
        Folder.objects.filter(pk__in=[one.pk for one in unused]).delete()
        yield {"folders": len(unused)}
    while True:
        ids = list(old.values_list("pk", flat=True)[:chunk])
        if not ids:
            break
        CachedVector.objects.filter(pk__in=ids).delete()
        yield {"cached vectors": len(ids)}
    for file in list(gone[:chunk]):
        flow.cancel([file], by="fileproc")
        erase(file)
        yield {"deleted files": 1}


def expire_batches() -> int:
    """End the uploads of all batches whose time is over."""
    late = Batch.objects.filter(status__in=batches.OPEN, expires_at__lte=timezone.now())
    return sum(batches.expire(pk) for pk in list(late.values_list("pk", flat=True)[:500]))


def stuck() -> QuerySet[File]:
    """Return the files that have not moved for long, and whose jobs are not there to move them.

    A file that waits its turn, or for a model, is not stuck.
    """
    unfinished = Job.objects.filter(
        pk__in=StageRun.objects.filter(file=OuterRef(OuterRef("pk"))).values("job_id"),
        state__in=["pending", "queued", "running"],
    )
    return File.objects.live().filter(
        ~Exists(unfinished), status__in=states.PROCESSING, moved_at__lt=timezone.now() - STUCK
    )


def restart(file_id: UUID, batch_id: UUID, *, by: str) -> bool:
    """Give a stuck file new jobs from its stage on; it fails when that has not helped thrice."""
    with transaction.atomic():
        file = states.lock(batch_id, file_id)
        if file is None or not stuck().filter(pk=file_id).exists():
            return False
        stage = states.STAGE_OF.get(FileStatus(file.status), Stage.EXTRACT)
        if file.status == FileStatus.QUEUED and file.resume_stage:
            stage = Stage(file.resume_stage)
        if file.runs.filter(stage=stage).count() > RESTARTS:
            states.fail(file, "INTERNAL_ERROR", by=by)
            return True
        flow.enqueue([file], stage)
        File.objects.filter(pk=file.pk).update(moved_at=timezone.now())
    return True


def cancel_closed() -> int:
    """Cancel what is left of the jobs of failed files whose dead letter is closed.

    Nobody will retry them there, and a waiting job keeps those that it waits for.
    """
    own = StageRun.objects.filter(file=OuterRef(OuterRef("pk"))).values("job_id")
    files = File.objects.live().filter(
        Exists(Job.objects.filter(pk__in=own, state="blocked", kind__in=KINDS)),
        ~Exists(DeadLetter.objects.filter(job_id__in=own, state="open")),
        status=FileStatus.FAILED, moved_at__lt=timezone.now() - SETTLED,
    )  # fmt: skip
    return sum(flow.cancel([file], by="fileproc") for file in list(files.order_by("pk")[:500]))


def restart_stuck() -> int:
    """Restart all files that are stuck."""
    rows = list(stuck().values_list("pk", "batch_id")[:500])
    return sum(restart(pk, batch_id, by="fileproc") for pk, batch_id in rows)


@dataclass(frozen=True, slots=True)
class Orphans:
    """Blobs that belong to no file and are older than a day; ended files without their blob."""

    blobs: list[Blob]
    files: list[UUID]


def orphans() -> Orphans:
    """Return what the store and the table of files do not agree about."""
    there = list(blobs.store().list("fileproc/"))
    keys = {one.key for one in there}
    rows = File.objects.shown().exclude(blob_etag="").values_list("pk", "blob_key")
    return Orphans(_unknown(there), [pk for pk, key in rows.iterator() if key not in keys])


def _unknown(some: Iterable[Blob]) -> list[Blob]:
    before = timezone.now() - ORPHAN
    old = {one.key: one for one in some if one.written_at < before}
    keys = list(old)
    for start in range(0, len(keys), 1000):
        known = File.objects.filter(blob_key__in=keys[start : start + 1000])
        known = known.exclude(status=FileStatus.FAILED, blob_etag="")
        for key in known.values_list("blob_key", flat=True):
            old.pop(key, None)
    return list(old.values())


def let_go() -> int:
    """Let failed files go that nobody has retried: their blobs become orphans.

    Those of a cancelled batch, which cannot be retried, go after a day.
    """
    now = timezone.now()
    letters = DeadLetter.objects.filter(
        state="open",
        job_id__in=StageRun.objects.filter(file=OuterRef(OuterRef("pk"))).values("job_id"),
    )
    old = Q(ended_at__lt=now - KEEP_FAILED) & ~Exists(letters)
    cancelled = Q(ended_at__lt=now - ORPHAN, batch__status=BatchStatus.CANCELLED)
    rows = File.objects.shown().filter(old | cancelled, status=FileStatus.FAILED)
    return rows.exclude(blob_etag="").update(blob_etag="")


def remove_orphans() -> int:
    """Delete the blobs that belong to no file, or to a failed one that cannot be retried."""
    found = _unknown(blobs.store().list("fileproc/"))
    for one in found:
        blobs.store().delete(one.key)
    return len(found)
