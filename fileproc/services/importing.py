"""Uploading what is in a folder or a bucket, straight into the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from fileproc import config
from fileproc.models import File, FileStatus
from fileproc.services import announcing, batches, confirming, retrying
from fileproc.services.sources import Item
from jobs import blobs


@dataclass(frozen=True, slots=True)
class Step:
    """A file that was looked at: ``sent``, ``there``, ``retried``, ``failed`` or ``refused``."""

    label: str
    result: str
    reason: str = ""


def upload(
    owner: str,
    items: Iterable[Item],
    *,
    by: str,
    retry_failed: bool = False,
    replace: bool = False,
    with_ocr: bool = True,
) -> Iterator[Step]:
    """Upload what is new in a source, in batches; what is there already stays.

    ``replace`` lets files that have changed take the place of those uploaded before. Without
    ``with_ocr``, the text of pictures is not recognised.
    """
    some: list[Item] = []
    for item in items:
        if problem := announcing.problem_of(item.announced):
            yield Step(item.label, "refused", problem.code)
            continue
        if (old := _known(owner, item.announced)) is not None:
            yield _old(owner, item.label, old, by, retry_failed)
            continue
        if replace:
            announced = _replacing(owner, item.announced)
            item = dataclasses.replace(item, announced=announced)
        some.append(item)
        if len(some) == config.FILES_LIMIT:
            yield from _send(owner, some, by, with_ocr)
            some = []
    if some:
        yield from _send(owner, some, by, with_ocr)


def _known(owner: str, one: announcing.Announced) -> File | None:
    """Return the newest file of the same place, size and date, unless it never arrived."""
    rows = File.objects.shown().filter(
        owner=owner, name=one.name, path=one.path, size=one.size, modified=one.modified
    )  # fmt: skip
    return rows.exclude(blob_etag="").order_by("-created_at").first()


def _replacing(owner: str, one: announcing.Announced) -> announcing.Announced:
    rows = File.objects.shown().filter(
        owner=owner, name=one.name, path=one.path, status=FileStatus.READY
    )
    former = rows.order_by("-created_at").values_list("pk", flat=True).first()
    return dataclasses.replace(one, replaces=former)


def _old(owner: str, label: str, file: File, by: str, retry_failed: bool) -> Step:
    if file.status != FileStatus.FAILED:
        return Step(label, "there")
    if not retry_failed:
        return Step(label, "failed", file.error_code)
    retrying.retry(owner, file.pk, by=by)
    return Step(label, "retried")


def _send(owner: str, some: list[Item], by: str, with_ocr: bool) -> Iterator[Step]:
    announced = [item.announced for item in some]
    batch, made, _ = batches.create_from(
        owner, announced, skip_duplicate_check=True, options=batches.Options(with_ocr=with_ocr)
    )
    store, sent = blobs.store(), {}
    for item, one in zip(some, made, strict=True):
        if one.file is None:
            yield Step(item.label, "refused", one.refused.code if one.refused else "")
            continue
        try:
            with item.open() as opened:
                store.write(one.file.blob_key, cast("BinaryIO", opened))
        except FileNotFoundError:  # it is gone since it was listed
            yield Step(item.label, "refused", "BLOB_NOT_FOUND")
            continue
        sent[one.file.pk] = item.label
    arrivals = [confirming.Arrival(pk) for pk in sent]
    known = confirming.heads(owner, batch.pk, list(sent))
    for done in confirming.confirm(owner, batch.pk, arrivals, known, by=by):
        reason = done.refused.code if done.refused is not None else ""
        yield Step(sent[done.file_id], "refused" if reason else "sent", reason)
