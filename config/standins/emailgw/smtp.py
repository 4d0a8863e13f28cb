"""An SMTP server on loopback that is in a mood now and then."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from email import message_from_bytes
from typing import Any

from aiosmtpd.smtp import SMTP

logging.getLogger("mail.log").setLevel(logging.WARNING)  # aiosmtpd logs every line it reads


class Mailbox:
    """An SMTP server in a thread that counts what it accepts by Message-ID.

    The first part of the address decides: ``gone`` does not exist, ``busy`` is accepted the second
    time, and the answer about ``silent`` is lost.
    """

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None

    def start(self) -> int:
        """Start listening on a free port of this machine, and return it."""

        def protocol() -> asyncio.BaseProtocol:
            return SMTP(self, hostname="demo", loop=self._loop)

        self._server = self._loop.run_until_complete(
            self._loop.create_server(protocol, "127.0.0.1", 0)
        )
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        return int(self._server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._loop.call_soon_threadsafe(self._server.close)
            self._server = None

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        self._asked[address] += 1
        if address.startswith("gone"):
            return "550 no such user"
        if address.startswith("busy") and self._asked[address] == 1:
            return "451 come back later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.taken[str(message_from_bytes(envelope.content)["Message-ID"])] += 1
        if envelope.rcpt_tos[0].startswith("silent"):
            server.transport.abort()  # it has the mail, and nobody hears so
        return "250 OK"
