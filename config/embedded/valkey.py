"""A Valkey server that keeps nothing on disk."""

import signal
from pathlib import Path
from socket import AF_UNIX
from socket import socket as Connection
from typing import ClassVar
from urllib.parse import quote

from config.embedded import binaries, places, processes
from config.embedded.server import Server


class Valkey(Server):
    """A Valkey without persistence, as Redis is used here: for hints only."""

    name: ClassVar[str] = "valkey"
    polite: ClassVar[signal.Signals] = signal.SIGTERM

    @property
    def socket(self) -> Path:
        return self.sockets / "valkey.sock"

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self.socket), safe='/')}?db=0"

    def stop(self) -> None:
        """The server has shut down and its content is gone."""
        self._end(self.polite)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _prepare(self) -> None:
        places.server_folder(self.data)
        self._program = str(self._find_program())
        try:
            pid = int(self._note.read_text())
        except (OSError, ValueError):
            pid = 0
        if pid:
            processes.end_orphan(pid, str(self.data), self.polite)
        self.socket.unlink(missing_ok=True)

    def _launch(self) -> None:
        super()._launch()
        self._note.write_text(str(self.pid))

    @property
    def _note(self) -> Path:
        return self.folder / f"{self.name}.pid"

    def _find_program(self) -> Path:
        return binaries.valkey_program()

    def _command(self) -> list[str]:
        return [
            self._program,
            *("--port", "0"),
            *("--unixsocket", str(self.socket)),
            *("--unixsocketperm", "700"),
            *("--dir", str(self.data)),
            *("--save", ""),
            *("--appendonly", "no"),
            *("--maxmemory-policy", "noeviction"),
            *("--daemonize", "no"),
            # Keep the command line, by which an orphan is recognised.
            *("--set-proc-title", "no"),
        ]

    def _ready(self) -> bool:
        try:
            with self._door() as probe:
                probe.sendall(b"PING\r\n")
                return probe.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def _door(self) -> Connection:
        door = Connection(AF_UNIX)
        door.settimeout(5)
        try:
            door.connect(str(self.socket))
        except OSError:
            door.close()
            raise
        return door
