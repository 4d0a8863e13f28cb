"""Uvicorn's protocols, with bounds for what a client sends ahead or does not read."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

UNREAD = 64 * 1024
"""Bytes of answers to pings that may wait for a client."""

AT_ONCE = 16 * 1024
"""Bytes of frames that are looked at together."""


class Http(H11Protocol):
    """Reads no further while requests wait that came ahead of the answer to an earlier one.

    Uvicorn goes on whenever the application asks for the body of a request, also when that is
    whole, and keeps whatever comes.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = _Flow(transport, self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self.flow.resume_reading()  # what waited may be the beginning of a request only

    @property
    def has_requests(self) -> bool:
        """Whether something waits behind the request that is being answered."""
        return self.conn.their_state is h11.DONE and bool(self.conn.trailing_data[0])


class _Flow(FlowControl):
    def __init__(self, transport: asyncio.Transport, protocol: Http) -> None:
        super().__init__(transport)
        self._protocol = protocol

    def resume_reading(self) -> None:
        if not self._protocol.has_requests:
            super().resume_reading()


class Socket(WebSocketsSansIOProtocol):
    """Ends when the client sends pings and does not read the answers."""

    def data_received(self, data: bytes) -> None:
        # The smallest frames take fifty times their size in memory while they are looked at.
        for start in range(0, len(data), AT_ONCE):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + AT_ONCE])

    def handle_ping(self) -> None:
        if self.transport.get_write_buffer_size() > UNREAD:
            self.transport.abort()
        else:
            super().handle_ping()
