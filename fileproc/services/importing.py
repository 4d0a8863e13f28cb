"""Uploading a folder of this machine, straight into the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fileproc import config
from fileproc.models import File, FileStatus
from fileproc.services import announcing, batches, confirming, retrying
from jobs import blobs


@dataclass(frozen=True, slots=True)
class Step:
    """A file that was looked at: ``sent``, ``there``, ``retried``, ``failed`` or ``refused``."""

    path: Path
    result: str
    reason: str = ""


def walk(root: Path) -> Iterator[Path]:
    """Yield the files of a folder in order, without hidden ones and links; or the file itself."""
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
        if not hidden and path.is_file() and not path.is_symlink():
            yield path


def upload(
    owner: str, root: Path, *, by: str, retry_failed: bool = False, replace: bool = False
) -> Iterator[Step]:
    """Upload what is new in a folder, in batches; what is there already stays.

    ``replace`` lets files that have changed take the place of those uploaded before.
    """
    some: list[tuple[Path, announcing.Announced]] = []
    for path in walk(root):
        announced = _announced(root, path)
        if problem := announcing.problem_of(announced):
            yield Step(path, "refused", problem.code)
            continue
        if (old := _known(owner, announced)) is not None:
            yield _old(owner, path, old, by, retry_failed)
            continue
        if replace:
            announced = _replacing(owner, announced)
        some.append((path, announced))
        if len(some) == config.FILES_LIMIT:
            yield from _send(owner, some, by)
            some = []
    if some:
        yield from _send(owner, some, by)


def _announced(root: Path, path: Path) -> announcing.Announced:
    status = path.stat()
    folder = "" if root.is_file() else path.parent.relative_to(root.parent).as_posix()
    changed = datetime.fromtimestamp(status.st_mtime, UTC).isoformat()
    name = path.name.encode(errors="replace").decode()
    return announcing.Announced(name, status.st_size, folder.lstrip("./"), changed)


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


def _old(owner: str, path: Path, file: File, by: str, retry_failed: bool) -> Step:
    if file.status != FileStatus.FAILED:
        return Step(path, "there")
    if not retry_failed:
        return Step(path, "failed", file.error_code)
    retrying.retry(owner, file.pk, by=by)
    return Step(path, "retried")


def _send(owner: str, some: list[tuple[Path, announcing.Announced]], by: str) -> Iterator[Step]:
    announced = [one for _, one in some]
    batch, made, _ = batches.create_from(owner, announced, skip_duplicate_check=True)
    store, sent = blobs.store(), {}
    for (path, _), one in zip(some, made, strict=True):
        if one.file is None:
            yield Step(path, "refused", one.refused.code if one.refused else "")
            continue
        with path.open("rb") as opened:
            store.write(one.file.blob_key, opened)
        sent[one.file.pk] = path
    arrivals = [confirming.Arrival(pk) for pk in sent]
    known = confirming.heads(owner, batch.pk, list(sent))
    for done in confirming.confirm(owner, batch.pk, arrivals, known, by=by):
        reason = done.refused.code if done.refused is not None else ""
        yield Step(sent[done.file_id], "refused" if reason else "sent", reason)
