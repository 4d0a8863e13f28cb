"""Requests that begin when they are due, whether or not the ones before have been answered.

What a request takes is counted from the moment at which it was due, so that a server that stalls
cannot hide it by keeping clients from asking.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

Make = Callable[[int], bytes]
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter, float]
IDLE = 2.0
"""Seconds after which a connection is not used again."""


@dataclass(slots=True)
class Answers:
    """What was answered: seconds of each, in the order of the answers, and the wrong ones."""

    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    late: float = 0.0
    """The longest that a request waited in this process before it was sent."""


def request(path: str, key: str, body: bytes) -> bytes:
    """A POST on a connection that stays open."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def drive(
    ports: Sequence[int], make: Make, per_second: float, seconds: float, expected: int
) -> Answers:
    """So many requests per second for so long; each is to have the expected status.

    The servers at the ports are asked in turns.
    """
    return asyncio.run(_drive(ports, make, per_second, seconds, expected))


async def _drive(
    ports: Sequence[int], make: Make, rate: float, seconds: float, expected: int
) -> Answers:
    answers = Answers()
    free: dict[int, list[Connection]] = {port: [] for port in ports}
    began = time.monotonic() + 0.05

    async def ask(number: int, due: float) -> None:
        answers.late = max(answers.late, time.monotonic() - due)
        port = ports[number % len(ports)]
        idle = free[port]
        while idle and time.monotonic() - idle[-1][2] > IDLE:  # the server hangs up before long
            idle.pop()[1].close()
        reader, writer = idle.pop()[:2] if idle else await connect(port)
        writer.write(make(number))
        status, said = await _answer(reader)
        answers.seconds.append(time.monotonic() - due)
        if status != expected:
            answers.wrong.append(f"{status} {said[:200]!r}")
        idle.append((reader, writer, time.monotonic()))

    asked = []
    for number in range(int(rate * seconds)):
        due = began + number / rate
        await asyncio.sleep(due - time.monotonic())
        asked.append(asyncio.create_task(ask(number, due)))
    await asyncio.wait_for(asyncio.gather(*asked), 60)
    for _, writer, _ in chain.from_iterable(free.values()):
        writer.close()
    return answers


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)
