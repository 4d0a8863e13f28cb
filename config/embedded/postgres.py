"""A PostgreSQL server made of the programs ``initdb`` and ``postgres``."""

import os
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import quote

from config.embedded import binaries, places, processes
from config.embedded.errors import EmbeddedError
from config.embedded.server import Server

Mode = Literal["fast", "immediate"]

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "shared_buffers": "128MB",
    "max_connections": "200",
    "fsync": "on",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
}
SIGNALS: Mapping[Mode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class Postgres(Server):
    """A durable PostgreSQL; ``settings`` override the server's parameters."""

    name: ClassVar[str] = "postgres"
    polite: ClassVar[signal.Signals] = signal.SIGINT

    def __init__(
        self, folder: str | os.PathLike[str], settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder)
        self._settings = {**SETTINGS, **(settings or {})}

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={quote(str(self.sockets), safe='/')}"

    @property
    def direct_url(self) -> str:
        """The same server without a pooler in between."""
        return self.url

    @property
    def superuser_url(self) -> str:
        """The same server for a superuser."""
        return self.url

    def stop(self, mode: Mode = "fast") -> None:
        """The server has shut down: cleanly (fast), or leaving recovery to the next start."""
        self._end(SIGNALS[mode])

    def restart(self, mode: Mode = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """The server and its backends are gone at once, as in a crash."""
        if self._process is not None:
            backends = processes.children(self._process.pid)
            self._process.kill()
            for backend in backends:
                processes.send(backend, signal.SIGKILL)
            self._reap()

    def _prepare(self) -> None:
        self._clear_leftovers()
        version = self.data / "PG_VERSION"
        if not version.exists():
            self._create_cluster()
        self._program = str(self._programs() / "postgres")

    def _programs(self) -> Path:
        return binaries.postgres_programs()

    def _clear_leftovers(self) -> None:
        note = self.data / "postmaster.pid"
        try:
            pid = int(note.read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            pid = 0
        if pid:
            processes.end_orphan(pid, str(self.data), self.polite)
        # PostgreSQL would refuse to start when an unrelated process got the noted pid.
        note.unlink(missing_ok=True)
        for stale in self.sockets.iterdir():
            stale.unlink()

    def _create_cluster(self) -> None:
        """``data`` holds a whole, empty cluster: never half of one."""
        fresh = self.folder / "data.new"
        if fresh.exists():
            shutil.rmtree(fresh)
        places.server_folder(fresh)
        command = [
            str(self._programs() / "initdb"),
            f"--pgdata={fresh}",
            "--username=postgres",
            "--encoding=UTF8",
            "--no-instructions",
            *self._initdb_options(),
        ]
        with self._open_log() as log:
            status = self.spawn(command, log.fileno()).wait()
        if status != 0:
            raise EmbeddedError(f"initdb failed: {self._last_words()}")
        fresh.rename(self.data)

    def _initdb_options(self) -> list[str]:
        # The built-in provider sorts alike on every system; macOS lacks the C.UTF-8 locale.
        locale = "C" if sys.platform == "darwin" else "C.UTF-8"
        return [
            "--auth=trust",
            f"--locale={locale}",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
        ]

    def _command(self) -> list[str]:
        settings = {**self._settings, "unix_socket_directories": str(self.sockets)}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return [self._program, "-D", str(self.data), *options]

    def _ready(self) -> bool:
        try:
            note = (self.data / "postmaster.pid").read_text().split("\n")
        except OSError:
            return False
        return len(note) > 7 and note[0] == str(self.pid) and note[7].strip() == "ready"
