"""The store of blobs, which may be away: files wait for it, as they do for a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO
from uuid import UUID

import jobs
from fileproc.errors import FileError, Refused
from fileproc.models import Batch, File
from jobs import blobs, http

_ERRORS = (http.HttpError, http.HTTPStatusError, OSError)
LISTED = 1000
"""Blobs that one call of a list returns."""


class Unavailable(Exception):
    """The store cannot be used at the moment, through no fault of a file."""


breaker = jobs.breaker("fileproc.store", threshold=3, open_for=30, counts=Unavailable)
"""Holds back every file that is to be read, until the store answers again."""


def folder(batch: Batch) -> str:
    """Return how the keys of a batch begin."""
    return f"fileproc/{batch.pk.hex}/"


def heads(batch: Batch, rows: Iterable[tuple[UUID, str]]) -> dict[UUID, blobs.Blob | None]:
    """Return what the store knows of files, given by id and key; raise Refused while it is away.

    The batch is listed where that takes fewer calls.
    """
    wanted, store = dict(rows), blobs.store()
    try:
        if len(wanted) <= 1 + batch.file_count // LISTED:
            return {pk: store.head(key) for pk, key in wanted.items()}
        found = {one.key: one for one in store.list(folder(batch))}
    except _ERRORS as error:
        raise Refused(
            "STORE_UNAVAILABLE", "the store of files does not answer; try again", retryable=True
        ) from error
    return {pk: found.get(key) for pk, key in wanted.items()}


def fetch(file: File, target: IO[bytes]) -> None:
    """Copy the blob that was confirmed; raise FileError if it is another one by now.

    Raises Unavailable while the store cannot be used.
    """
    store = blobs.store()
    try:
        head = store.head(file.blob_key)
        if head is None or (head.size, head.etag) != (file.size, file.blob_etag):
            raise FileError("CONTENT_CHANGED")
        with store.read(file.blob_key) as pieces:
            target.writelines(pieces)
        target.flush()
    except FileNotFoundError:
        raise FileError("CONTENT_CHANGED") from None
    except _ERRORS as error:
        raise Unavailable(f"{type(error).__name__}: {error}") from error
