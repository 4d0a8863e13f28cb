"""Sockets: ``/ws/events``, and those of the channels of apps.

The first message says where one begins; at ``/ws/events`` it is
``{"type": "events", "position": …, "events": []}``. Such messages come as keep-alives, too. What a
client sends is not read.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from channels.consumer import AsyncConsumer
from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from django.http import HttpRequest

from jobs.api import throttle
from jobs.api.problem import Problem
from jobs.realtime.access import principal_of, request_of
from jobs.realtime.answers import TROUBLES, answer
from jobs.realtime.channels import Channel
from jobs.realtime.hub import TooManyOfOne, hub
from jobs.realtime.questions import Question, View, question
from jobs.realtime.refusals import NobodyKnown
from jobs.realtime.staying import Stay

log = logging.getLogger("jobs.realtime")

STALL = 30.0
"""Seconds in which a client takes a message, or is gone."""


class Events(AsyncConsumer):  # type: ignore[misc]
    """One client."""

    _telling: asyncio.Task[None] | None = None

    def __init__(self, channel: Channel | None = None) -> None:
        self._channel = channel

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
        except Exception:
            log.exception("a socket failed")
            await self._close(1011, "internal error")

    async def _tell_all(self) -> None:
        asked = await database_sync_to_async(self._asked)()
        if asked is None:
            raise NobodyKnown
        stay = Stay(asked.view, self._again)
        stream = hub().listen(asked)
        try:
            async for parcel in stream:
                async with asyncio.timeout(STALL):
                    for text in parcel.messages:
                        await self.send({"type": "websocket.send", "text": text})
                await stay.check()
        finally:
            await stream.aclose()

    async def _again(self) -> View | None:
        asked = await database_sync_to_async(self._asked)(is_again=True)
        return None if asked is None else asked.view

    def _asked(self, *, is_again: bool = False) -> Question | None:
        """Return what the client asks for; None if it is not authenticated."""
        request, channel = request_of(self.scope, is_again=is_again), self._channel
        who = principal_of(request) if channel is None else principal_of(request, channel.needs)
        if who is None:
            if not is_again:
                _count_refused(request)
            return None
        if channel is None:
            return question(request.GET, who)
        path = self.scope.get("url_route", {}).get("kwargs", {})
        return channel.question(request.GET, path, who)

    async def _close(self, code: int, reason: str) -> None:
        with suppress(TimeoutError, OSError):  # a client that takes nothing gets nothing
            async with asyncio.timeout(STALL):
                await self.send({"type": "websocket.close", "code": code, "reason": reason})


def _count_refused(request: HttpRequest) -> None:
    """Count a failed login of this address; raise TooManyOfOne if there were too many."""
    try:
        throttle.check_refused(request)
    except Problem:
        raise TooManyOfOne("too many failed logins: come again later") from None
    throttle.refuse(request)
