"""A request body that a thread reads while it arrives at an ASGI server."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any

IDLE = 30.0
"""Seconds that a client may take before its first byte, and by which it may fall behind SLOWEST."""
SLOWEST = 4096
"""Bytes per second; a client that sends more slowly is given up."""


class IncomingBody(io.RawIOBase):
    """The messages of an ASGI server as a file; raises OSError when the client is gone or slow.

    The server holds no more than it has read ahead, some ten kilobytes.
    """

    def __init__(
        self,
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__()
        self._receive, self._loop = receive, loop
        self._ahead, self._taken, self._begun = b"", 0, time.monotonic()
        self._pending: Future[Mapping[str, Any]] | None = None
        self._has_ended = self._is_aborted = False

    @property
    def is_read(self) -> bool:
        """Return whether nothing of the body is left."""
        return self._has_ended and not self._ahead

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return up to ``size`` bytes, as soon as there are any; b"" at the end."""
        if size is None or size < 0:
            raise io.UnsupportedOperation("a streamed body is read in pieces: name a size")
        while not self._ahead and not self._has_ended:
            self._fetch()
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        return data

    def abort(self) -> None:
        """End a read that is under way, and refuse others."""
        self._is_aborted = True
        if self._pending is not None:
            self._pending.cancel()

    def _fetch(self) -> None:
        waited = time.monotonic() - self._begun
        patience = max(IDLE + self._taken / SLOWEST - waited, 0)
        message = self._next(patience)
        if message["type"] != "http.request":
            raise ConnectionError("the client has gone")
        self._ahead = message.get("body") or b""
        self._taken += len(self._ahead)
        self._has_ended = not message.get("more_body")

    def _next(self, patience: float) -> Mapping[str, Any]:
        waiting = self._message()
        try:
            self._pending = asyncio.run_coroutine_threadsafe(waiting, self._loop)
        except RuntimeError:  # the loop has ended
            waiting.close()
            raise ConnectionError("the server is shutting down") from None
        if self._is_aborted:
            self._pending.cancel()
        try:
            return self._pending.result(patience)
        except TimeoutError:
            self._pending.cancel()
            raise ConnectionError("the client is too slow") from None
        except CancelledError:
            raise ConnectionError("the request was given up") from None

    async def _message(self) -> Mapping[str, Any]:
        return await self._receive()
