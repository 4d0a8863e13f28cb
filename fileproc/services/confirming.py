"""Confirming uploads: in one transaction the file is queued and its jobs exist."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from fileproc import config, flow, states, storing
from fileproc.errors import Refused, message
from fileproc.models import Batch, BatchStatus, File, FileStatus
from fileproc.services import batches
from jobs import blobs

_MD5 = re.compile(r"[0-9a-fA-F]{32}\Z")
UNCONFIRMED = (FileStatus.REGISTERED, FileStatus.UPLOADED)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A file that its client has uploaded."""

    file_id: UUID
    size: int | None = None
    md5: str = ""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What became of a confirmation."""

    file_id: UUID
    status: str = FileStatus.QUEUED
    md5: str = ""
    refused: Refused | None = None


Heads = Mapping[UUID, blobs.Blob | None]


def heads(owner: str, batch_id: UUID, file_ids: Sequence[UUID]) -> Heads:
    """Return what the store knows of the files; to be called outside of a transaction.

    Raises Refused while the store does not answer.
    """
    batch = Batch.objects.filter(pk=batch_id, owner=owner).first()
    if batch is None:
        return {}
    rows = File.objects.shown().filter(
        batch=batch, pk__in=file_ids, status__in=UNCONFIRMED
    )  # fmt: skip
    return storing.heads(batch, rows.values_list("pk", "blob_key"))


def confirm(
    owner: str, batch_id: UUID, arrivals: Sequence[Arrival], known: Heads, *, by: str
) -> list[Confirmed]:
    """Queue the files that are there, and enqueue their jobs; each is judged on its own.

    A file that was confirmed before stays as it is.
    """
    if len(arrivals) > config.FILES_LIMIT:
        raise Refused("BATCH_TOO_LARGE", f"at most {config.FILES_LIMIT} files", "files")
    with transaction.atomic():
        batch = batches.locked(owner, batch_id)
        wanted = {one.file_id for one in arrivals}
        rows = File.objects.shown().filter(pk__in=wanted, batch=batch).order_by("pk")
        files = rows.select_for_update(no_key=True).in_bulk()
        answers, good = [], dict[UUID, File]()
        for one in arrivals:
            file = files.get(one.file_id)
            try:
                if _judge(batch, file, one, known) and file is not None:
                    good[file.pk] = file
                status = FileStatus.QUEUED if file is None or file.pk in good else file.status
                answers.append(Confirmed(one.file_id, str(status), _about_md5(one.md5)))
            except Refused as error:
                answers.append(Confirmed(one.file_id, refused=error))
        _queue(batch, good, {one.file_id: one for one in arrivals}, known, by)
    return answers


def _judge(batch: Batch, file: File | None, one: Arrival, known: Heads) -> bool:
    """Return whether the file is to be queued now; raise Refused if it cannot be."""
    if file is None:
        raise Refused("FILE_NOT_FOUND", "there is no such file")
    if file.status not in UNCONFIRMED:
        return False
    if batch.status == BatchStatus.EXPIRED or batch.expires_at <= timezone.now():
        raise Refused("BATCH_EXPIRED", "the time to upload its files is over")
    if batch.status not in batches.OPEN:
        raise Refused("STATE_CONFLICT", f"the batch is {batch.status}")
    blob = known.get(file.pk)
    if blob is None or blob.key != file.blob_key:
        raise Refused("BLOB_NOT_FOUND", "the file has not been uploaded", retryable=True)
    if blob.size != file.size or one.size not in (None, file.size):
        raise Refused("SIZE_MISMATCH", f"the announced size is {file.size} bytes", "size")
    if blob.md5 and _MD5.match(one.md5) and one.md5.lower() != blob.md5:
        raise Refused("HASH_MISMATCH", message("HASH_MISMATCH"), "md5")
    return True


def _queue(
    batch: Batch, good: Mapping[UUID, File], arrivals: Mapping[UUID, Arrival], known: Heads,
    by: str,
) -> None:  # fmt: skip
    if not good:
        return
    for pk, file in good.items():
        blob, md5 = known[pk], arrivals[pk].md5
        file.blob_etag = "" if blob is None else blob.etag
        file.md5 = md5.lower() if _MD5.match(md5) else ""
        file.confirmed_at = timezone.now()
    File.objects.bulk_update(good.values(), ["blob_etag", "md5", "confirmed_at"])
    states.files.move_many(list(good), FileStatus.UPLOADED, expect=FileStatus.REGISTERED, by=by)
    states.files.move_many(list(good), FileStatus.QUEUED, expect=FileStatus.UPLOADED, by=by)
    Batch.objects.filter(pk=batch.pk).update(used_at=timezone.now())
    flow.enqueue(good.values())


def _about_md5(md5: str) -> str:
    """Return what is done with the checksum that the client has sent."""
    if not md5:
        return "none"
    return "compared when the file is read" if _MD5.match(md5) else "not compared: no MD5"
