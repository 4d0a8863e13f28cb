"""Media that a provider is sent in portions: read from their address, a range at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

import jobs
from jobs import http
from publisher.errors import ProviderError, Unclear

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)\Z")
TOTAL = 120.0
"""Seconds for one portion, there or back."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that was fetched."""

    data: bytes
    content_type: str


def fetched(ctx: jobs.Context, url: str, most: int) -> Picture:
    """Return the image at an address; raise ProviderError for none, and for a larger one."""
    client = ctx.enter(http.client(total=TOTAL, redirects=2, max_bytes=most))
    try:
        answer = client.get(url)
    except http.TooLarge:
        raise ProviderError("permanent", f"the image has more than {most} bytes") from None
    if answer.status_code >= 500 or answer.status_code == 429:
        raise Unclear(f"the media's server answers {answer.status_code}")
    content_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if answer.status_code != 200 or content_type not in IMAGES:
        raise ProviderError("permanent", "there is no image at the address")
    return Picture(answer.content, content_type)


class Source:
    """A file at a public address, whose server sends parts of it."""

    def __init__(self, ctx: jobs.Context, url: str) -> None:
        self._url = url
        self._client = ctx.enter(http.client(total=TOTAL, redirects=2))

    def size(self) -> int:
        """Return the number of bytes."""
        with self._part(0, 1) as (_, size):
            return size

    @contextmanager
    def portion(self, start: int, length: int, size: int) -> Iterator[IO[bytes]]:
        """Yield a part of the file, on disk; raise ProviderError if the file is not what it was.

        It has arrived whole before it is sent on, so that a slow server of media is not taken for
        a slow provider, and a large portion takes no memory.
        """
        with TemporaryFile() as file:
            with self._part(start, length) as (pieces, found):
                for piece in pieces:
                    file.write(piece)
            if found != size or file.tell() != length:
                raise ProviderError("permanent", "the media has changed")
            file.seek(0)
            yield file

    @contextmanager
    def _part(self, start: int, length: int) -> Iterator[tuple[Iterator[bytes], int]]:
        wanted = {"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"}
        with self._client.stream("GET", self._url, headers=wanted) as answer:
            if answer.status_code >= 500 or answer.status_code == 429:
                raise Unclear(f"the media's server answers {answer.status_code}")
            found = _RANGE.match(answer.headers.get("Content-Range", ""))
            if answer.status_code != 206 or found is None or int(found[1]) != start:
                raise ProviderError("permanent", "the media's server sends no parts of it")
            yield answer.iter_bytes(), int(found[3])
