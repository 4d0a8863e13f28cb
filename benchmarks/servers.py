"""The servers of a run, as a project would have them: over TCP, and Redis with its log on disk.

That is also how the rivals were measured; over unix sockets Redis would answer twice as fast,
while the disk under PostgreSQL would not.
"""

from __future__ import annotations

import socket
from pathlib import Path

from config.embedded import Postgres, Valkey

HOST = "127.0.0.1"


class TcpPostgres(Postgres):
    """The embedded PostgreSQL with a port on loopback; durable as always."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        super().__init__(folder, {"listen_addresses": HOST, "port": str(self._port)})

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self._port}/postgres"


class TcpValkey(Valkey):
    """The embedded Valkey with a port on loopback, writing its log to disk every second."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        super().__init__(folder)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._port}/0"

    def _command(self) -> list[str]:
        command = super()._command()
        for option, value in (("--port", str(self._port)), ("--appendonly", "yes")):
            command[command.index(option) + 1] = value
        return [*command, "--bind", HOST, "--appendfsync", "everysec"]


def free_port() -> int:
    """A port on loopback that nobody listens to."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
