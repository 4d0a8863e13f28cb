"""The body of an answer, unpacked here in small pieces, so that no packed bomb goes off."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx

from jobs.http.errors import TooLarge, Unreachable

PIECE = 65536
"""Bytes that are unpacked at a time."""
Guard = Callable[[], AbstractContextManager[None]]


class Body:
    """Counts the bytes as they come and as they are unpacked; raises TooLarge at either limit."""

    def __init__(self, host: str, encoding: str, most: int) -> None:
        self._host, self._most = host, most
        self._packed = self._plain = 0
        self._unpacker: Any = None
        if encoding in ("gzip", "x-gzip"):
            self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        elif encoding == "deflate":
            self._unpacker = zlib.decompressobj()
        elif encoding not in ("", "identity"):
            raise Unreachable(f"{host} gave no proper answer", "it is packed as was not asked for")
        self._is_deflate = encoding == "deflate"

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What the bytes amount to, in pieces."""
        self._packed += len(data)
        self._limit(self._packed)
        if self._unpacker is None:
            yield data
            return
        piece = self._unpack(data)
        while piece:
            self._plain += len(piece)
            self._limit(self._plain)
            yield piece
            piece = self._unpack(self._unpacker.unconsumed_tail)

    def finish(self) -> None:
        """Nothing is missing at the end; raises Unreachable where something is."""
        if self._unpacker is not None and self._packed and not self._unpacker.eof:
            raise Unreachable(f"{self._host} gave no proper answer", "it ends too early")

    def _unpack(self, data: bytes) -> bytes:
        if self._unpacker.eof:
            return b""
        first, self._is_deflate = self._is_deflate, False
        try:
            return bytes(self._unpacker.decompress(data, PIECE))
        except zlib.error as error:
            if not first:
                detail = f"it cannot be unpacked: {error}"
                raise Unreachable(f"{self._host} gave no proper answer", detail) from None
        # Half of the world leaves the header out that the standard asks for.
        self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        return self._unpack(data)

    def _limit(self, size: int) -> None:
        if size > self._most:
            raise TooLarge(f"{self._host} answered with more than {self._most} bytes")


def opened(
    host: str, method: bytes, headers: list[tuple[bytes, bytes]], most: int
) -> tuple[Body, list[tuple[bytes, bytes]]]:
    """The body to come, and the headers that fit what will be handed on.

    Raises TooLarge when the headers tell that it is.
    """
    told = httpx.Headers(headers)
    if method == b"HEAD":
        return Body(host, "", most), headers
    length = told.get("content-length", "")
    if length.isdigit() and (len(length) > 18 or int(length) > most):
        raise TooLarge(f"{host} answered with more than {most} bytes")
    encoding = told.get("content-encoding", "").strip().lower()
    body = Body(host, encoding, most)
    if encoding in ("", "identity"):
        return body, headers
    dropped = (b"content-encoding", b"content-length")
    return body, [(k, v) for k, v in headers if k.lower() not in dropped]


class Stream(httpx.SyncByteStream):
    """The body as httpx reads it."""

    def __init__(self, inner: Iterable[bytes], body: Body, guard: Guard) -> None:
        self._inner, self._body, self._guard = inner, body, guard

    def __iter__(self) -> Iterator[bytes]:
        with self._guard():
            for data in self._inner:
                yield from self._body.feed(data)
            self._body.finish()

    def close(self) -> None:
        if hasattr(self._inner, "close"):
            self._inner.close()


class AsyncStream(httpx.AsyncByteStream):
    """The body as httpx reads it."""

    def __init__(self, inner: AsyncIterable[bytes], body: Body, guard: Guard) -> None:
        self._inner, self._body, self._guard = inner, body, guard

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with self._guard():
            async for data in self._inner:
                for piece in self._body.feed(data):
                    yield piece
            self._body.finish()

    async def aclose(self) -> None:
        if hasattr(self._inner, "aclose"):
            await self._inner.aclose()
