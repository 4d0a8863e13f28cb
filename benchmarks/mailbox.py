"""An SMTP server that takes everything: ``python -m benchmarks.mailbox PORT``.

Of each mail it takes, the file named by BENCH_OUT has one record more, stamped when the server
has all of it and before it says so.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from aiosmtpd.smtp import SMTP

from benchmarks import records


class Taker:
    """Says yes to every mail."""

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        records.append(records.TAKEN)
        return "250 OK taken"


async def main(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(Taker(), data_size_limit=4_000_000, enable_SMTPUTF8=False), "127.0.0.1", port
    )
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
