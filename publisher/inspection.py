"""What the bytes of an asset are: sniffed, cleaned of metadata, hashed and decoded."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from publisher import images, metadata, sniffing
from publisher.errors import Fault, Refused

INVALID = "fp_publisher_invalid_plan"


@dataclass(frozen=True, slots=True)
class Declared:
    """What was said of a file before it was uploaded."""

    size: int
    content_type: str


@dataclass(frozen=True, slots=True)
class Inspected:
    """A file that channels would take. Nothing of it is stored yet."""

    file: BinaryIO
    found: sniffing.Found
    sha256: str
    size: int
    decoded: images.Decoded | None
    """Of an image, if Pillow is installed."""
    is_new: bool
    """Whether the store has other bytes, or none."""


@contextmanager
def temporary() -> Iterator[BinaryIO]:
    """Yield an empty file, which has a name and is deleted afterwards."""
    with tempfile.NamedTemporaryFile(prefix="publisher-") as file:
        yield cast(BinaryIO, file)


@contextmanager
def inspect(file: BinaryIO, declared: Declared | None = None) -> Iterator[Inspected]:
    """Yield what a file is; raise Refused for what channels would not take.

    ``declared`` is None for a file that was not uploaded to the store.
    """
    found = _sniffed(file, declared)
    with temporary() as clean:
        try:
            is_changed = metadata.clean(file, clean, found.content_type)
            yield _inspected(clean if is_changed else file, found, is_changed or declared is None)
        except sniffing.Broken as error:
            raise Refused(INVALID, Fault("", str(error))) from None


def _sniffed(file: BinaryIO, declared: Declared | None) -> sniffing.Found:
    size = file.seek(0, os.SEEK_END)
    if declared is not None and size != declared.size:
        raise Refused(INVALID, Fault("size", f"is {size} and not {declared.size}"))
    file.seek(0)
    try:
        found = sniffing.sniff(file)
    except sniffing.Broken as error:
        raise Refused(INVALID, Fault("", str(error))) from None
    if declared is not None and found.content_type != declared.content_type:
        raise Refused(INVALID, Fault("content_type", f"the file is {found.content_type}"))
    if found.kind == "image" and found.width * found.height > images.MOST_PIXELS:
        raise Refused(INVALID, Fault("", "the image has more than 60 megapixels"))
    return found


def _inspected(file: BinaryIO, found: sniffing.Found, is_new: bool) -> Inspected:
    file.seek(0)
    sha256 = hashlib.file_digest(cast(Any, file), "sha256").hexdigest()
    size = file.tell()
    file.flush()
    decoded = images.decode(file.name, found, size) if found.kind == "image" else None
    return Inspected(file, found, sha256, size, decoded, is_new)
