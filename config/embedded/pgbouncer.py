"""A PostgreSQL behind PgBouncer, which gives its connections out for one transaction at a time."""

import os
import shutil
import signal
import socket
from pathlib import Path
from typing import ClassVar

from config.embedded import ports
from config.embedded.errors import EmbeddedError
from config.embedded.installed import ROLE, InstalledPostgres, OnPort

SETTINGS = """\
[databases]
* = host={host} port={server}

[pgbouncer]
pool_mode = transaction
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
server_login_retry = 1
"""


class PgBouncer(OnPort):
    """The PgBouncer of the system's package, in transaction mode."""

    name: ClassVar[str] = "pgbouncer"
    polite: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, folder: str | os.PathLike[str], server: InstalledPostgres) -> None:
        super().__init__(folder)
        self._server = server

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}:{ROLE}@{ports.HOST}:{self.port}/{ROLE}"

    def _prepare(self) -> None:
        self._program = pgbouncer_program()
        self._keep_port()
        users = self._write("users.txt", f'"{ROLE}" "{ROLE}"\n')
        self._settings = self._write(
            "pgbouncer.ini",
            SETTINGS.format(host=ports.HOST, port=self.port, server=self._server.port, users=users),
        )

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o644)  # the server's user is not always this one
        return path

    def _command(self) -> list[str]:
        return [self._program, str(self._settings)]

    def _ready(self) -> bool:
        try:
            socket.create_connection((ports.HOST, self.port), timeout=5).close()
        except OSError:
            return False
        return True


class PooledPostgres(InstalledPostgres):
    """A stock PostgreSQL which the program reaches through PgBouncer alone.

    What is done to the server (``stop``, ``kill``, ``restart``) leaves PgBouncer running.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(folder)
        self.pooler = PgBouncer(Path(folder).with_name(f"{Path(folder).name}-pooler"), self)

    @property
    def url(self) -> str:
        return self.pooler.url

    @property
    def direct_url(self) -> str:
        return super().url

    def start(self) -> None:
        super().start()
        if not self.pooler.alive:
            self.pooler.start()

    def remove(self) -> None:
        self.pooler.remove()
        super().remove()

    def __exit__(self, *_: object) -> None:
        self.pooler.__exit__()
        super().__exit__()


def pgbouncer_program() -> str:
    """Return the path of ``pgbouncer``."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise EmbeddedError("PgBouncer is not installed: apt install pgbouncer")
    return found
