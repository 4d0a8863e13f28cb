"""Batches: announcing files, renewing addresses, sealing, cancelling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from django.utils import timezone

import jobs
from fileproc import config, embedding, extraction, states, storing
from fileproc.errors import Refused
from fileproc.languages import CONFIGURATIONS, DEFAULT
from fileproc.models import Batch, BatchStatus, File, FileStatus
from fileproc.payloads import CancelRest
from fileproc.services import announcing, folders, quotas
from jobs import blobs

OPEN = quotas.OPEN
COUNT_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Options:
    """How the files of a batch are cut and searched; None and empty are the settings' own."""

    chunk_tokens: int | None = None
    chunk_overlap: int | None = None
    language: str = ""
    with_ocr: bool = True


@dataclass(frozen=True, slots=True)
class Registered:
    """A new file with the address to upload it to, or why it was refused."""

    announced: announcing.Announced
    file: File | None = None
    upload: blobs.Upload | None = None
    refused: Refused | None = None


def create(
    owner: str,
    count: int,
    metadata: Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> Batch:
    """Create a batch for ``count`` files, which are announced one by one."""
    if not 1 <= count <= COUNT_LIMIT:
        raise Refused("INVALID_REQUEST", f"must be from 1 to {COUNT_LIMIT}", "fileCount")
    with transaction.atomic():
        quotas.check_batches(owner)
        return _new_batch(owner, count, BatchStatus.PENDING_UPLOAD, metadata or {}, options)


def create_from(
    owner: str,
    announced: Sequence[announcing.Announced],
    *,
    skip_duplicate_check: bool = False,
    metadata: Mapping[str, Any] | None = None,
    options: Options | None = None,
    announced_folders: Sequence[folders.Announced] = (),
) -> tuple[Batch, list[Registered], dict[str, UUID]]:
    """Create a batch with its files and folders; return the ids of folders by their temporary ones.

    Files that cannot be taken are refused one by one.
    """
    if not announced:
        raise Refused("INVALID_MANIFEST", "must have at least one file", "files")
    if len(announced) > config.FILES_LIMIT:
        raise Refused("BATCH_TOO_LARGE", f"must have at most {config.FILES_LIMIT} files", "files")
    used = Counter([one.temp_id for one in announced] + [one.temp_id for one in announced_folders])
    if any(key and n > 1 for key, n in used.items()):
        raise Refused("INVALID_MANIFEST", "each tempId may be used once", "files")
    with transaction.atomic():
        quotas.check_batches(owner)
        places = folders.make(owner, announced_folders)
        announced, missing = announcing.with_replaced(
            owner, [_placed(one, places) for one in announced]
        )
        if not skip_duplicate_check and (found := announcing.duplicates(owner, announced)):
            raise Refused("DUPLICATE_FILES", "some files are there already", duplicates=found)
        problems = [missing.get(n) or announcing.problem_of(one)
                    for n, one in enumerate(announced)]  # fmt: skip
        good = [one for one, problem in zip(announced, problems, strict=True) if problem is None]
        if not good:
            first = next(problem for problem in problems if problem is not None)
            raise Refused(first.code, first.message, "files")
        quotas.check_bytes(owner, sum(one.size for one in good))
        batch = _new_batch(owner, len(good), BatchStatus.ACTIVE, metadata or {}, options)
        files = {id(one): file for one, file in zip(good, _add(batch, good), strict=True)}
    made = [
        Registered(one, refused=problem) if problem is not None
        else Registered(one, files[id(one)], sign(files[id(one)]))
        for one, problem in zip(announced, problems, strict=True)
    ]  # fmt: skip
    return batch, made, {key: place.folder.pk for key, place in places.items()}


def _placed(one: announcing.Announced, places: Mapping[str, folders.Place]) -> announcing.Announced:
    """Return the file with its folder of the manifest."""
    if not one.parent:
        return one
    if (place := places.get(one.parent)) is None:
        raise Refused("INVALID_MANIFEST", "a file lies in no folder of the manifest", "files")
    return replace(one, path=place.path, folder=place.folder.pk)


def register(owner: str, batch_id: UUID, announced: announcing.Announced) -> Registered:
    """Announce one more file of a batch."""
    if problem := announcing.problem_of(announced):
        raise problem
    with transaction.atomic():
        batch = locked(owner, batch_id)
        check_open(batch)
        if batch.registered_count >= batch.file_count:
            raise Refused("BATCH_FULL", f"all {batch.file_count} files have been announced")
        quotas.check_bytes(owner, announced.size)
        [announced], missing = announcing.with_replaced(owner, [announced])
        if missing:
            raise missing[0]
        [file] = _add(batch, [announced])
        if batch.status == BatchStatus.PENDING_UPLOAD:
            batch.status = BatchStatus.ACTIVE
            batch.save(update_fields=["status"])
    return Registered(announced, file, sign(file))


def renew(owner: str, batch_id: UUID, file_id: UUID) -> Registered:
    """Give a file that has not been confirmed a new address, and forget what was uploaded."""
    with transaction.atomic():
        batch = locked(owner, batch_id)
        check_open(batch)
        file = found(owner, file_id, batch_id)
        if file.status != FileStatus.REGISTERED:
            raise Refused("STATE_CONFLICT", f"it is {file.status}")
        old, file.blob_key = file.blob_key, _key(batch)
        file.save(update_fields=["blob_key"])
        transaction.on_commit(lambda: blobs.store().delete(old))
    announced = announcing.Announced(file.name, file.size, file.path)
    return Registered(announced, file, sign(file))


def seal(owner: str, batch_id: UUID) -> Batch:
    """Close a batch: no more files come, and slots that nobody used leave its total."""
    with transaction.atomic():
        batch = locked(owner, batch_id)
        check_open(batch)
        unused = batch.file_count - batch.registered_count
        if not batch.registered_count:
            raise Refused("STATE_CONFLICT", "it has no files; cancel it instead")
        if unused:
            states.recount(batch.pk, Counter(), -unused)
        return Batch.objects.get(pk=batch.pk)


def cancel(owner: str, batch_id: UUID, *, by: str) -> Batch:
    """Cancel a batch: its unfinished files fail, and what was found stays."""
    with transaction.atomic():
        batch = locked(owner, batch_id)
        if batch.status == BatchStatus.CANCELLED:
            return batch
        if batch.status not in OPEN:
            raise Refused("STATE_CONFLICT", f"it is {batch.status}")
        Batch.objects.filter(pk=batch.pk).update(status=BatchStatus.CANCELLED)
        files = list(File.objects.shown().filter(batch=batch, status__in=states.OPEN))
        for file in files:
            states.fail(file, "CANCELLED", by=by)
        for start in range(0, len(files), config.FILES_LIMIT):
            ids = [file.pk for file in files[start : start + config.FILES_LIMIT]]
            jobs.enqueue(CancelRest(file_ids=ids), tenant=owner, priority=80)
        return Batch.objects.get(pk=batch.pk)


def expire(batch_id: UUID) -> bool:
    """End the upload of a batch whose time is over; confirmed files go on."""
    with transaction.atomic():
        batch = Batch.objects.select_for_update(no_key=True).get(pk=batch_id)
        if batch.status not in OPEN or batch.expires_at > timezone.now():
            return False
        waiting = [FileStatus.REGISTERED, FileStatus.UPLOADED]
        missing = list(batch.files.filter(deleted_at__isnull=True, status__in=waiting))
        is_unused = batch.registered_count == len(missing)
        if is_unused:
            Batch.objects.filter(pk=batch.pk).update(status=BatchStatus.EXPIRED)
        for file in missing:
            states.fail(file, "NOT_UPLOADED", by="fileproc")
        batch.refresh_from_db()
        if unused := batch.file_count - batch.registered_count:
            states.recount(batch.pk, Counter(), -unused)
        return bool(missing or unused or is_unused)


def sign(file: File) -> blobs.Upload:
    """Return the address to which a file may be uploaded for an hour."""
    return blobs.store().put_url(
        file.blob_key, size=file.size, content_type=file.content_type, sha256=file.sha256,
        expires=config.URL_LIFETIME,
    )  # fmt: skip


def waiting(file_ids: Sequence[str]) -> list[File]:
    """Return those of the files that may still be uploaded."""
    rows = File.objects.shown().filter(pk__in=file_ids, status=FileStatus.REGISTERED)
    return list(rows.filter(batch__status__in=OPEN, batch__expires_at__gt=timezone.now()))


def locked_with(owner: str, file_id: UUID) -> tuple[Batch, File]:
    """Return the owner's file with its batch, both locked; raise FILE_NOT_FOUND."""
    known = File.objects.shown().filter(pk=file_id, owner=owner).values_list("batch_id").first()
    if known is None:
        raise Refused("FILE_NOT_FOUND", "there is no such file")
    return locked(owner, known[0]), found(owner, file_id)


def locked(owner: str, batch_id: UUID) -> Batch:
    """Return the owner's batch, locked; raise BATCH_NOT_FOUND."""
    rows = Batch.objects.select_for_update(no_key=True)
    batch = rows.filter(pk=batch_id, owner=owner).first()
    if batch is None:
        raise Refused("BATCH_NOT_FOUND", "there is no such batch")
    return batch


def found(owner: str, file_id: UUID, batch_id: UUID | None = None) -> File:
    """Return the owner's file, locked; raise FILE_NOT_FOUND."""
    rows = File.objects.shown().select_for_update(no_key=True)
    file = rows.filter(pk=file_id, owner=owner).first()
    if file is None or (batch_id is not None and file.batch_id != batch_id):
        raise Refused("FILE_NOT_FOUND", "there is no such file")
    return file


def check_open(batch: Batch) -> None:
    """Check that files may be added to the batch."""
    if batch.status == BatchStatus.EXPIRED or batch.expires_at <= timezone.now():
        raise Refused("BATCH_EXPIRED", "the time to upload its files is over")
    if batch.status not in OPEN:
        raise Refused("STATE_CONFLICT", f"the batch is {batch.status}")


def set_metadata(owner: str, changes: Mapping[UUID, Mapping[str, Any]]) -> int:
    """Set the metadata of files, all or none; return how many there were."""
    for metadata in changes.values():
        if problem := announcing.metadata_problem(metadata):
            raise Refused("INVALID_REQUEST", problem, "metadata")
    with transaction.atomic():
        rows = File.objects.shown().filter(owner=owner, pk__in=list(changes)).order_by("pk")
        files = list(rows.select_for_update(no_key=True))
        if len(files) < len(changes):
            raise Refused("FILE_NOT_FOUND", "there is no such file")
        for file in files:
            file.metadata = dict(changes[file.pk])
        File.objects.bulk_update(files, ["metadata"])
    return len(files)


def _new_batch(
    owner: str, count: int, status: BatchStatus, metadata: Mapping[str, Any],
    options: Options | None,
) -> Batch:  # fmt: skip
    if problem := announcing.metadata_problem(metadata):
        raise Refused("INVALID_REQUEST", problem, "metadata")
    options = options or Options()
    _check_options(options)
    return Batch.objects.create(
        owner=owner, file_count=count, status=status, metadata=dict(metadata),
        chunk_tokens=options.chunk_tokens, chunk_overlap=options.chunk_overlap,
        language=options.language or DEFAULT, with_ocr=options.with_ocr,
        expires_at=timezone.now() + config.BATCH_LIFETIME,
    )  # fmt: skip


def _check_options(options: Options) -> None:
    least, most = config.CHUNK_RANGE
    if used := embedding.current():
        most = min(most, used.tokens)
    size, _ = embedding.chunk_size(options.chunk_tokens)
    if options.chunk_tokens is not None and not least <= size <= most:
        raise Refused("INVALID_REQUEST", f"must be from {least} to {most}", "chunkSize")
    asked = options.chunk_overlap
    if asked is not None and not 0 <= asked <= size // 2:
        raise Refused("INVALID_REQUEST", f"must be from 0 to {size // 2}", "chunkOverlap")
    if options.language and options.language not in CONFIGURATIONS:
        known = ", ".join(CONFIGURATIONS)
        raise Refused("INVALID_REQUEST", f"must be one of {known}", "language")


def _add(batch: Batch, announced: Sequence[announcing.Announced]) -> list[File]:
    files = File.objects.bulk_create(
        File(
            batch=batch, owner=batch.owner, name=one.name, path=one.path, size=one.size,
            folder_id=one.folder, modified=one.modified[:64], sha256=one.sha256,
            metadata=dict(one.metadata), replaces=one.replaces,
            content_type=extraction.ENDINGS[announcing.ending(one.name)],
            blob_key=_key(batch),
        )
        for one in announced
    )  # fmt: skip
    Batch.objects.filter(pk=batch.pk).update(
        registered=batch.registered + len(files), used_at=timezone.now()
    )
    batch.registered += len(files)
    return files


def _key(batch: Batch) -> str:
    return f"{storing.folder(batch)}{uuid4().hex}"
