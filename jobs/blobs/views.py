"""The addresses of a local store: what a signature allows, and nothing else."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack
from typing import BinaryIO

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from jobs import blobs
from jobs.api import uploads
from jobs.api.problem import Problem
from jobs.blobs import base, local
from jobs.blobs.local import LocalStore

log = logging.getLogger("jobs.blobs")
FULL = (errno.ENOSPC, errno.EDQUOT)
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")


@uploads.streamed(limit=base.MOST)
def blob(request: HttpRequest, key: str) -> HttpResponseBase:
    """Take the upload, or serve the download, that the address is signed for."""
    store = blobs.store()
    if not isinstance(store, LocalStore):
        raise Problem(404, "not-found", "there is no such thing")
    if request.method not in ("PUT", "GET", "HEAD"):
        raise Problem(405, "method-not-allowed", headers={"Allow": "GET, HEAD, PUT"})
    method = "PUT" if request.method == "PUT" else "GET"
    fields = store.verified(method, key, request.GET.dict())
    if fields is None:
        raise Problem(403, "signature-invalid", "the address is not signed for this")
    if local.is_over(fields):
        raise Problem(403, "signature-expired", "the address has expired")
    return _take(store, request, key, fields) if method == "PUT" else _serve(
        store, request, key, fields
    )  # fmt: skip


def _take(
    store: LocalStore, request: HttpRequest, key: str, fields: Mapping[str, str]
) -> HttpResponseBase:
    if uploads.length(request) != int(fields["size"]):
        raise Problem(400, "length-mismatch", f"Content-Length must be {fields['size']}")
    if request.headers.get("Content-Type", "") != fields["type"]:
        raise Problem(400, "type-mismatch", f"Content-Type must be {fields['type']}")
    found = store.head(key)
    if found is not None and found.size != int(fields["size"]):
        raise Problem(409, "exists", "the blob has been uploaded before")
    try:
        made = store.receive(key, uploads.pieces(request), sha256=fields["sha256"])
    except local.Exists:
        raise Problem(409, "exists", "the blob has been uploaded before") from None
    except local.Mismatch:
        raise Problem(400, "checksum-mismatch", "the content is not the announced one") from None
    except OSError as error:
        if error.errno not in FULL:
            raise
        log.error("the disk of the blobs is full: %s", error.strerror)
        raise Problem(
            507, "storage-full", "there is no room for the file; try again later"
        ) from None
    return HttpResponse(headers={"ETag": f'"{made.etag}"'})


def _serve(
    store: LocalStore, request: HttpRequest, key: str, fields: Mapping[str, str]
) -> HttpResponseBase:
    try:
        file, found = store.open(key)
    except FileNotFoundError:
        raise Problem(404, "not-found", "there is no such blob") from None
    with ExitStack() as stack:
        stack.enter_context(file)
        first, last, status = _part(request, found)
        headers = _headers(found, fields, last - first + 1)
        if status == 206:
            headers["Content-Range"] = f"bytes {first}-{last}/{found.size}"
        if request.method == "HEAD":
            return HttpResponse(status=status, headers=headers)
        file.seek(first)
        reader = _later if isinstance(request, ASGIRequest) else _pieces
        pieces = reader(file, last - first + 1)
        response = StreamingHttpResponse(pieces, status=status, headers=headers)
        response._resource_closers.append(stack.pop_all().close)  # type: ignore[attr-defined]
        return response


def _headers(found: base.Blob, fields: Mapping[str, str], length: int) -> dict[str, str]:
    name = content_disposition_header(True, fields["filename"])
    return {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-store",
        "Content-Disposition": name or "attachment",
        "Content-Length": str(length),
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Content-Type": fields["type"],
        "ETag": f'"{found.etag}"',
    }


def _part(request: HttpRequest, found: base.Blob) -> tuple[int, int, int]:
    """Return the first and the last byte that are asked for, and the status of the answer."""
    whole = 0, found.size - 1, 200
    wanted = _RANGE.match(request.headers.get("Range", ""))
    if wanted is None or request.headers.get("If-Range", f'"{found.etag}"') != f'"{found.etag}"':
        return whole
    start, end = wanted.groups()
    if start:
        first, last = int(start), min(int(end) if end else found.size, found.size - 1)
        if end and int(end) < int(start):
            return whole
    elif end:
        first, last = max(found.size - int(end), 0), found.size - 1
    else:
        return whole
    if first > last:
        headers = {"Content-Range": f"bytes */{found.size}"}
        raise Problem(416, "range-unsatisfiable", "the blob is shorter", headers=headers)
    return first, last, 206


def _pieces(file: BinaryIO, left: int) -> Iterator[bytes]:
    while left and (piece := file.read(min(left, base.PIECE))):
        left -= len(piece)
        yield piece


async def _later(file: BinaryIO, left: int) -> AsyncIterator[bytes]:
    while left and (piece := await asyncio.to_thread(file.read, min(left, base.PIECE))):
        left -= len(piece)
        yield piece
