"""The servers of a run, as a project would have them: over TCP, and Redis with its log on disk.

That is also how the rivals were measured; over unix sockets Redis would answer twice as fast,
while the disk under PostgreSQL would not.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.stage import Running, Stage, fsync_ms
from config.embedded import Postgres, Valkey, choice, private_postgres, private_redis
from config.embedded.ports import HOST, free

LASTING = Path("/var/tmp")  # noqa: S108 - mkdtemp makes a folder of our own in it


class TcpPostgres(Postgres):
    """The embedded PostgreSQL with a port on loopback; durable as always."""

    def __init__(self, folder: Path) -> None:
        self._port = free()
        super().__init__(folder, {"listen_addresses": HOST, "port": str(self._port)})

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self._port}/postgres"


class TcpValkey(Valkey):
    """The embedded Valkey with a port on loopback, writing its log to disk every second."""

    def __init__(self, folder: Path) -> None:
        self._port = free()
        super().__init__(folder)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._port}/0"

    def _command(self) -> list[str]:
        command = super()._command()
        for option, value in (("--port", str(self._port)), ("--appendonly", "yes")):
            command[command.index(option) + 1] = value
        return [*command, "--bind", HOST, "--appendfsync", "everysec"]


def servers(folder: Path) -> tuple[Postgres, Valkey]:
    """Return the servers of a run: embedded ones, or with SERVERS=stock the installed ones."""
    if choice.chosen() == "embedded":
        return TcpPostgres(folder / "postgres"), TcpValkey(folder / "valkey")
    return private_postgres(folder / "postgres"), private_redis(folder / "valkey")


@contextmanager
def opened() -> Iterator[Stage]:
    """Start fresh servers and remove everything of them afterwards."""
    folder = Path(
        tempfile.mkdtemp(prefix="jobdesk-bench-", dir=LASTING if LASTING.is_dir() else None)
    )
    postgres, redis = servers(folder)
    try:
        with postgres, redis:
            took = fsync_ms(postgres.folder)
            yield Stage(folder, _running(postgres), _running(redis), took)
    finally:
        for server in (postgres, redis):
            server.remove()
        shutil.rmtree(folder, ignore_errors=True)


def _running(server: Postgres | Valkey) -> Running:
    superuser = server.superuser_url if isinstance(server, Postgres) else server.url
    return Running(server.url, superuser, server.pid, server.folder, server.log)
