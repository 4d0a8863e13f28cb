"""What every store of blobs offers, and what a key may look like."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import BinaryIO
from urllib.parse import urlsplit

from jobs.errors import InvalidOption

MOST = 2 * 1024**3
"""Bytes of the largest blob: what one answer of ``jobs.http`` may have."""
PIECE = 64 * 1024
LONGEST = timedelta(days=7)
"""How long a signed address may be good, as in S3."""
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=-]*(/[A-Za-z0-9_][A-Za-z0-9._=-]*)*\Z")
_WORD = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}"
_TYPE = re.compile(rf"{_WORD}/{_WORD}(; ?charset=[a-z0-9-]{{1,20}})?\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f"\\/]')


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored blob: its key, its size in bytes, a tag of its content, and when it was written."""

    key: str
    size: int
    etag: str
    written_at: datetime
    md5: str = ""
    """Of the content, where the store knows it: S3 does not if a key of KMS or ours encrypts."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A signed address to which one blob may be uploaded, by a PUT with exactly these headers."""

    url: str = field(repr=False)
    headers: Mapping[str, str]
    expires_at: datetime
    method: str = "PUT"


class Store(ABC):
    """A place for blobs. Errors of S3 are ``jobs.http.HttpError``, those of a disk ``OSError``."""

    @property
    @abstractmethod
    def origin(self) -> str:
        """Scheme and host of signed addresses, for a Content-Security-Policy.

        Empty where the addresses are those of this site.
        """

    @abstractmethod
    def put_url(
        self,
        key: str,
        *,
        size: int,
        content_type: str = "application/octet-stream",
        sha256: str = "",
        expires: float | timedelta = 900,
    ) -> Upload:
        """Sign an upload of exactly ``size`` bytes, which never replaces a blob.

        ``sha256``, in hexadecimal, also fixes the content.
        """

    @abstractmethod
    def get_url(
        self,
        key: str,
        *,
        content_type: str = "application/octet-stream",
        filename: str = "",
        expires: float | timedelta = 900,
    ) -> str:
        """Sign a download, which is served as this type and as an attachment of this name."""

    @abstractmethod
    def head(self, key: str) -> Blob | None:
        """Return what is known of a blob; None if there is none."""

    @abstractmethod
    def write(self, key: str, data: bytes | BinaryIO) -> Blob:
        """Store the blob, in place of an older one; a file is read from where it stands."""

    @abstractmethod
    def read(self, key: str) -> AbstractContextManager[Iterator[bytes]]:
        """Open a blob, to be read piece by piece; raise FileNotFoundError if there is none."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete the blob, if it is there."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[Blob]:
        """Yield the blobs whose keys begin with ``prefix``, in no particular order."""


def origin_of(url: str) -> str:
    """Return the scheme and the host of an address; nothing of an empty one."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


def check_key(key: object) -> str:
    """Return the key; raise InvalidOption unless it is one that every store takes."""
    if not isinstance(key, str) or len(key) > 512 or not _KEY.match(key):
        raise InvalidOption(
            "key",
            "must have up to 512 letters, digits and . _ = - in parts separated by /, "
            "none of which begins with a dot or a dash",
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return the prefix; raise InvalidOption unless keys can begin like this."""
    if prefix:
        check_key(prefix.removesuffix("/"))
    return prefix


def check_type(content_type: object) -> str:
    """Return the content type; raise InvalidOption unless it is one."""
    if not isinstance(content_type, str) or not _TYPE.match(content_type):
        raise InvalidOption("content_type", f"must be like 'image/png', got {content_type!r:.100}")
    return content_type


def check_size(size: object) -> int:
    """Return the size of an upload; raise InvalidOption unless a blob can have it."""
    if type(size) is not int or not 0 < size <= MOST:
        raise InvalidOption("size", f"must be a whole number of bytes from 1 to {MOST}")
    return size


def check_sha256(sha256: object) -> str:
    """Return the checksum, which may be empty; raise InvalidOption unless it is one."""
    if not isinstance(sha256, str) or (sha256 and not _SHA256.match(sha256)):
        raise InvalidOption("sha256", "must be 64 digits in lower-case hexadecimal")
    return sha256


def check_filename(filename: object) -> str:
    """Return the name, which may be empty; raise InvalidOption unless a file can be called so."""
    if not isinstance(filename, str) or len(filename) > 255 or _UNSAFE.search(filename):
        raise InvalidOption("filename", 'must have up to 255 characters, none of them / \\ or "')
    return filename


def expiry(expires: float | timedelta) -> datetime:
    """Return the moment at which a signature of now ends; raise InvalidOption if it is too late."""
    span = expires if isinstance(expires, timedelta) else timedelta(seconds=expires)
    if not timedelta(seconds=1) <= span <= LONGEST:
        raise InvalidOption("expires", "must lie between a second and seven days")
    return datetime.now(UTC) + span
