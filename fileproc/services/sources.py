"""Where files are imported from: a folder of this machine, or a bucket of S3."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from fileproc import config
from fileproc.errors import Refused
from fileproc.services.announcing import Announced
from jobs import blobs

SCHEME = "s3://"


@dataclass(frozen=True, slots=True)
class Item:
    """A file of a source."""

    label: str
    announced: Announced
    open: Callable[[], AbstractContextManager[IO[bytes]]]


def of_folder(root: Path) -> Iterator[Item]:
    """Yield the files of a folder in order, without hidden ones and links; or the file itself."""
    for path in [root] if root.is_file() else sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if any(part.startswith(".") for part in parts) or not path.is_file():
            continue
        if path.is_symlink() and path != root:
            continue
        status = path.stat()
        folder = "" if root.is_file() else path.parent.relative_to(root.parent).as_posix()
        changed = datetime.fromtimestamp(status.st_mtime, UTC).isoformat()
        name = path.name.encode(errors="replace").decode()
        one = Announced(name, status.st_size, folder.lstrip("./"), changed)
        yield Item(str(path), one, partial(_opened, path))


def _opened(path: Path) -> IO[bytes]:
    return path.open("rb")


def of_bucket(address: str) -> Iterator[Item]:
    """Yield the files of a bucket, ``s3://bucket/prefix``, without hidden ones; raise Refused."""
    bucket, _, prefix = address.removeprefix(SCHEME).partition("/")
    if not bucket:
        raise Refused("INVALID_REQUEST", f"must be like {SCHEME}bucket/folder", "path")
    store = _store(bucket)
    for one in store.list(prefix):
        place = PurePosixPath(one.key)
        if one.key.endswith("/") or any(part.startswith(".") for part in place.parts):
            continue
        folder = "" if str(place.parent) == "." else place.parent.as_posix().lstrip("/")
        path = f"{bucket}/{folder}".rstrip("/")
        announced = Announced(place.name, one.size, path, one.written_at.isoformat())
        yield Item(f"{SCHEME}{bucket}/{one.key}", announced, partial(_fetched, store, one.key))


@contextmanager
def _fetched(store: blobs.Store, key: str) -> Iterator[IO[bytes]]:
    """Copy a blob into a file, which is what a store can write."""
    with tempfile.TemporaryFile(prefix="fileproc-") as target:
        with store.read(key) as pieces:
            target.writelines(pieces)
        target.seek(0)
        yield target


def _store(bucket: str) -> blobs.Store:
    if given := config.settings().IMPORT_S3:
        return blobs.S3Store(
            endpoint=given["ENDPOINT"], bucket=bucket, region=given["REGION"],
            key_id=given["KEY_ID"], secret=given["SECRET"], any_key=True,
        )  # fmt: skip
    own = blobs.store()
    if isinstance(own, blobs.S3Store):
        return own.other(bucket)
    raise Refused("INVALID_REQUEST", "FILEPROC['IMPORT_S3'] names no server of buckets", "path")
