"""A real SMTP server on loopback that does what a script says, and remembers what it took."""

from __future__ import annotations

import asyncio
import email
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP


@dataclass(frozen=True, slots=True)
class Taken:
    """A mail that the server has accepted."""

    sender: str
    envelope: tuple[str, ...]
    content: bytes = field(repr=False)

    @property
    def message(self) -> Message:
        return email.message_from_bytes(self.content)

    @property
    def outbox_id(self) -> str:
        """As the Message-ID says it."""
        found = re.match(r"<([0-9a-f-]{36})@", str(self.message["Message-ID"]))
        assert found is not None
        return found[1]


Script = Callable[[str, str, int], str | None]
"""Answers a step (``MAIL``, ``RCPT``, ``DATA``, ``END``) for an address, the n-th time:
``"550 no"``, ``"stall"``, ``"hang up"``, ``"take and hang up"``, or None for yes."""


def agree(step: str, address: str, times: int) -> str | None:
    return None


class _Server(SMTP):
    async def smtp_DATA(self, arg: str) -> None:
        """Asks the script before it says 354, which aiosmtpd has no hook for."""
        sink = self.event_handler
        envelope = self.envelope
        if envelope is not None and envelope.rcpt_tos and not arg:
            answer = await sink.ask("DATA", envelope.rcpt_tos[0], self)
            if answer is not None:
                await self.push(answer)
                return
        await super().smtp_DATA(arg)


class _Controller(Controller):
    def factory(self) -> SMTP:
        return _Server(self.handler, **self.SMTP_kwargs)


class Sink:
    """The server; ``taken`` is what it has accepted, in that order."""

    def __init__(self) -> None:
        self.script: Script = agree
        self.taken: list[Taken] = []
        self.on_step: Callable[[str, Any], None] = lambda step, session: None
        self._asked: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._controller = _Controller(
            self, hostname="127.0.0.1", port=0, enable_SMTPUTF8=False, data_size_limit=4_000_000
        )

    @property
    def port(self) -> int:
        server: Any = self._controller.server
        return int(server.sockets[0].getsockname()[1])

    def start(self) -> None:
        # Its own look at whether it is up goes to the port that was asked for, which is none.
        self._controller._trigger_server = self._knock  # type: ignore[method-assign]
        self._controller.start()

    def _knock(self) -> None:
        socket.create_connection(("127.0.0.1", self.port)).close()

    def stop(self) -> None:
        self._controller.stop()

    def reset(self) -> None:
        self.script, self.on_step = agree, lambda step, session: None
        with self._lock:
            self.taken.clear()
            self._asked.clear()

    def count(self) -> Counter[str]:
        """How often each email was accepted, by its outbox id."""
        return Counter(one.outbox_id for one in list(self.taken))

    def asked(self, step: str, address: str) -> int:
        return self._asked[step, address]

    async def ask(self, step: str, address: str, server: Any) -> str | None:
        """The script's refusal, if any; it may also stall or hang up."""
        self.on_step(step, server)
        with self._lock:
            self._asked[step, address] += 1
            times = self._asked[step, address]
        answer = self.script(step, address, times)
        if answer == "stall":
            await asyncio.sleep(30)
        if answer == "hang up":
            server.transport.abort()
            return "421 gone"
        return answer

    # ---- hooks of aiosmtpd

    async def handle_MAIL(
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if (answer := await self.ask("MAIL", address, server)) is not None:
            return answer
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if (answer := await self.ask("RCPT", address, server)) is not None:
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        answer = await self.ask("END", envelope.rcpt_tos[0], server)
        if answer is not None and not answer.startswith("take"):
            return answer
        taken = Taken(envelope.mail_from, tuple(envelope.rcpt_tos), envelope.original_content)
        with self._lock:
            self.taken.append(taken)
        self.on_step("TAKEN", server)
        if answer == "take and hang up":
            server.transport.abort()
        return "250 OK taken"
