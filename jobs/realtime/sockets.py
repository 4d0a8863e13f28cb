"""``/ws/events``: the feed through a WebSocket.

The first message is ``{"type": "events", "position": …, "events": []}``: where one begins. Such
messages come as keep-alives, too. What a client sends is not read.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer
from django.http import HttpRequest

from jobs.realtime.access import find_principal, request_of
from jobs.realtime.answers import TROUBLES, NobodyKnown, answer
from jobs.realtime.hub import hub
from jobs.realtime.questions import question
from jobs.realtime.staying import Stay

STALL = 30.0
"""Seconds in which a client takes a message, or is gone."""


class Events(AsyncConsumer):  # type: ignore[misc]
    """One client."""

    _telling: asyncio.Task[None] | None = None

    async def websocket_connect(self, _: dict[str, Any]) -> None:
        # A browser is shown the code and the reason only of sockets that were open.
        await self.send({"type": "websocket.accept"})
        self._telling = asyncio.create_task(self._tell(), name="jobs-socket")

    async def websocket_receive(self, _: dict[str, Any]) -> None:
        """Nothing is asked here."""

    async def websocket_disconnect(self, _: dict[str, Any]) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait([self._telling])
        raise StopConsumer

    async def _tell(self) -> None:
        try:
            await self._tell_all()
        except TROUBLES as trouble:
            found = answer(trouble)
            await self._close(found.code, found.reason)
        except TimeoutError:
            await self._close(4408, "too slow")
        except OSError:
            pass  # the client is gone

    async def _tell_all(self) -> None:
        request = request_of(self.scope)
        who = await _known(request)
        asked = question(request.GET, who)
        stay = Stay(asked.view, self._again)
        stream = hub().listen(asked)
        try:
            async for parcel in stream:
                async with asyncio.timeout(STALL):
                    await self.send({"type": "websocket.send", "text": parcel.message})
                await stay.check()
        finally:
            await stream.aclose()

    def _again(self) -> HttpRequest:
        return request_of(self.scope, is_again=True)

    async def _close(self, code: int, reason: str) -> None:
        with suppress(TimeoutError, OSError):  # who takes nothing is not told either
            async with asyncio.timeout(STALL):
                await self.send({"type": "websocket.close", "code": code, "reason": reason})


async def _known(request: HttpRequest) -> Any:
    if (who := await find_principal(request)) is None:
        raise NobodyKnown
    return who
