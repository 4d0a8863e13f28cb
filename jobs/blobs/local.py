"""Blobs as files below one folder, uploaded and downloaded through signed addresses of ours."""

from __future__ import annotations

import filecmp
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlencode

from django.conf import settings as django_settings
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac

from jobs.blobs import base
from jobs.blobs.base import Blob, Store, Upload

SALT = "jobs.blobs"
INCOMING = ".incoming"
"""Folder of files that are not whole yet; no key begins with a dot."""
ABANDONED = 2 * base.LONGEST.total_seconds()
"""Seconds after which a file that nobody writes any more is removed from it."""
FIELDS = ("expires", "size", "type", "sha256", "filename")


class Exists(Exception):
    """There is a blob of this key already, or one whose key is the beginning of a path to it."""


class Mismatch(Exception):
    """What came is not what was announced."""


class LocalStore(Store):
    """Blobs on a disk that all processes share.

    ``origin``, like ``https://files.example.com``, stands before the addresses, which are those of
    ``jobs.blobs.urls``.
    """

    def __init__(self, root: str | Path, origin: str = "") -> None:
        self._root, self._origin = Path(root), origin.rstrip("/")

    @property
    def origin(self) -> str:
        return base.origin_of(self._origin)

    def put_url(
        self,
        key: str,
        *,
        size: int,
        content_type: str = "application/octet-stream",
        sha256: str = "",
        expires: float | timedelta = 900,
    ) -> Upload:
        until = base.expiry(expires)
        signed = {
            "size": str(base.check_size(size)),
            "type": base.check_type(content_type),
            "sha256": base.check_sha256(sha256),
        }
        url = self._signed("PUT", base.check_key(key), until, signed)
        headers = {"Content-Type": content_type, "Content-Length": str(size)}
        return Upload(url, headers, until)

    def get_url(
        self,
        key: str,
        *,
        content_type: str = "application/octet-stream",
        filename: str = "",
        expires: float | timedelta = 900,
    ) -> str:
        signed = {
            "type": base.check_type(content_type),
            "filename": base.check_filename(filename),
        }
        return self._signed("GET", base.check_key(key), base.expiry(expires), signed)

    def head(self, key: str) -> Blob | None:
        try:
            status = self._path(key).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _blob(key, status) if stat.S_ISREG(status.st_mode) else None

    def write(self, key: str, data: bytes | BinaryIO) -> Blob:
        pieces = [data] if isinstance(data, bytes) else iter(lambda: data.read(base.PIECE), b"")
        return self.receive(key, pieces, replace=True)

    def receive(
        self, key: str, pieces: Iterable[bytes], *, sha256: str = "", replace: bool = False
    ) -> Blob:
        """Store what comes, once it is whole; raise Mismatch or Exists, and leave nothing then.

        An upload that is repeated because its answer was lost finds its own bytes, and succeeds.
        """
        path, digest = self._path(key), hashlib.sha256()
        folder = self._incoming()
        number, name = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(number, "wb") as file:
                for piece in pieces:
                    digest.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            if sha256 and digest.hexdigest() != sha256:
                raise Mismatch
            try:
                self._place(name, path, replace)
            except Exists:
                if not (path.is_file() and filecmp.cmp(name, path, shallow=False)):
                    raise
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)
        return _blob(key, path.stat())

    @contextmanager
    def read(self, key: str) -> Iterator[Iterator[bytes]]:
        file, _ = self.open(key)
        with file:
            yield iter(lambda: file.read(base.PIECE), b"")

    def open(self, key: str) -> tuple[BinaryIO, Blob]:
        """Open the file of a blob; raise FileNotFoundError if there is none."""
        try:
            file = self._path(key).open("rb")
        except (NotADirectoryError, IsADirectoryError):
            raise FileNotFoundError(key) from None
        return file, _blob(key, os.fstat(file.fileno()))

    def delete(self, key: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            self._path(key).unlink()

    def list(self, prefix: str = "") -> Iterator[Blob]:
        base.check_prefix(prefix)
        # No folder is left out that may hold a key of this beginning.
        top = self._root / prefix.rpartition("/")[0]
        for folder, folders, files in os.walk(top):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in files:
                path = Path(folder, name)
                key = path.relative_to(self._root).as_posix()
                if key.startswith(prefix):
                    with suppress(FileNotFoundError):
                        yield _blob(key, path.stat())

    def verified(self, method: str, key: str, query: Mapping[str, str]) -> dict[str, str] | None:
        """Return what the signature of an address fixes; None unless it is one of ours."""
        fields = {name: query.get(name, "") for name in FIELDS}
        shown = query.get("signature", "")
        secrets = [django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS]
        if any(
            constant_time_compare(_signature(method, key, fields, secret), shown)
            for secret in secrets
        ):
            return fields
        return None

    def _signed(self, method: str, key: str, until: datetime, signed: Mapping[str, str]) -> str:
        fields = {"expires": str(int(until.timestamp())), **signed}
        whole = {name: fields.get(name, "") for name in FIELDS}
        signature = _signature(method, key, whole, django_settings.SECRET_KEY)
        given = {name: value for name, value in fields.items() if value}
        query = urlencode({**given, "signature": signature})
        return f"{self._origin}{reverse('jobs-blob', args=[key])}?{query}"

    def _path(self, key: str) -> Path:
        return self._root / base.check_key(key)

    def _place(self, name: str, path: Path, replace: bool) -> None:
        """Give the whole file its name, for good once this returns."""
        made = [one for one in path.parents if one.is_relative_to(self._root) and not one.exists()]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if replace:
                os.replace(name, path)
            else:
                os.link(name, path)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise Exists(str(path)) from None
        for folder in {path.parent, *(one.parent for one in made)}:
            _sync(folder)

    def _incoming(self) -> Path:
        folder = self._root / INCOMING
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # What a killed process has left behind.
        oldest = time.time() - ABANDONED
        with os.scandir(folder) as files:
            for file in files:
                with suppress(FileNotFoundError):
                    if file.stat().st_mtime < oldest:
                        os.unlink(file.path)
        return folder


def is_over(fields: Mapping[str, str]) -> bool:
    """Return whether the signature with these fields has expired."""
    return time.time() > int(fields["expires"])


def _signature(method: str, key: str, fields: Mapping[str, str], secret: str | bytes) -> str:
    text = "\n".join([method, key, *(fields[name] for name in FIELDS)])
    return salted_hmac(SALT, text, secret=secret, algorithm="sha256").hexdigest()


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _blob(key: str, status: os.stat_result) -> Blob:
    etag = f"{status.st_mtime_ns:x}-{status.st_size:x}"
    return Blob(key, status.st_size, etag, datetime.fromtimestamp(status.st_mtime, UTC))
