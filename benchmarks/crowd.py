"""Many cheap clients: ``python -m benchmarks.crowd PORT COUNT MODE NUMBER COOKIE``.

They speak WebSocket in raw frames and parse next to nothing, to leave the machine to the server.
Prints ``ready``, reads the last position from its input, and prints what was told when.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import Any

from benchmarks.listeners import TENANTS

_POSITION = re.compile(rb'\{"type":"events","position":(\d+)')


class Client(asyncio.Protocol):
    def __init__(self, path: str, host: str, cookie: str, tenant: str) -> None:
        self.path, self.host, self.cookie, self.tenant = path, host, cookie, tenant
        self.buffer = bytearray()
        self.is_open = False
        self.frames: list[tuple[float, int]] = []
        self.events = 0
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(
            f"GET {self.path} HTTP/1.1\r\nHost: {self.host}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            f"Sec-WebSocket-Version: 13\r\nOrigin: http://{self.host}\r\n"
            f"Cookie: {self.cookie}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.is_open:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self.is_open = True
            del self.buffer[: end + 4]
        while (frame := self._frame()) is not None:
            found = _POSITION.match(frame)
            if found is None:
                continue
            if not self.opened.done():
                self.opened.set_result(None)
            self.events += frame.count(b'"topic":')
            self.frames.append((time.time(), int(found[1])))

    def _frame(self) -> bytes | None:
        buffer = self.buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1] & 127, 2
        if size > 125:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < start + size:
            return None
        if buffer[0] & 15 == 9:  # a ping wants its pong; a mask of zeros changes nothing
            self.transport.write(b"\x8a" + bytes([0x80 | size]) + bytes(4) + buffer[2 : 2 + size])
        frame = bytes(buffer[start : start + size])
        del buffer[: start + size]
        return frame


async def main(port: int, count: int, mode: str, number: int, cookie: str) -> None:
    loop = asyncio.get_running_loop()
    host = f"127.0.0.1:{port}"
    clients = []
    for n in range(count):
        tenant = f"tenant-{(number * count + n) % TENANTS}" if mode == "own" else ""
        path = "/ws/events" + (f"?tenant={tenant}" if tenant else "")
        made = Client(path, host, cookie, tenant)
        await loop.create_connection(lambda made=made: made, "127.0.0.1", port)  # type: ignore[misc]
        await asyncio.wait_for(made.opened, 30)
        clients.append(made)
    print("ready", flush=True)
    head = int(await loop.run_in_executor(None, sys.stdin.readline))
    end = time.monotonic() + 20
    slack = 2 * TENANTS if mode == "own" else 0
    while any(c.frames[-1][1] < head - slack for c in clients) and time.monotonic() < end:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    told = [{"tenant": c.tenant, "events": c.events, "frames": c.frames} for c in clients]
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5])
    )
