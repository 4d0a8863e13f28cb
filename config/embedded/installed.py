"""The PostgreSQL and Redis that the system's packages have installed, with their stock settings.

Debian's packages are found by version; ``POSTGRES_BIN`` (a folder with ``initdb`` and
``postgres``) and ``REDIS_SERVER`` (a program) name others. The servers are private all the same:
their files are below ``folder``, and services of the system are neither used nor touched.
"""

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import psycopg

from config.embedded import ports
from config.embedded.errors import EmbeddedError
from config.embedded.postgres import Postgres
from config.embedded.server import Server
from config.embedded.valkey import Valkey

PACKAGES = Path("/usr/lib/postgresql")
ROLE = "application"
"""Name of the role, of its password and of its database."""

RIGHTS = (
    f"DO $$ BEGIN CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD '{ROLE}'; "
    "EXCEPTION WHEN duplicate_object THEN NULL; END $$",
    # The role creates its test databases as copies of template1, and would by default own the
    # schema public of what it has created.
    "ALTER SCHEMA public OWNER TO postgres",
    f"GRANT CREATE, USAGE ON SCHEMA public TO {ROLE}",
)


class OnPort(Server):
    """A server on a port of loopback, which it keeps for as long as its folder lives."""

    _chosen: int | None = None

    @property
    def port(self) -> int:
        try:
            return int(self._port_note.read_text())
        except (OSError, ValueError):
            self._chosen = self._chosen or ports.free()
            return self._chosen

    @property
    def _port_note(self) -> Path:
        return self.folder / "port"

    def _keep_port(self) -> None:
        port = self.port
        self._port_note.write_text(str(port if ports.is_free(port) else ports.free()))


class InstalledPostgres(OnPort, Postgres):
    """PostgreSQL as a package installs it; the program logs in as a role with few rights."""

    def __init__(
        self, folder: str | os.PathLike[str], settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder)
        self._settings = dict(settings or {})

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}:{ROLE}@{ports.HOST}:{self.port}/{ROLE}"

    @property
    def superuser_url(self) -> str:
        folder = quote(str(self.sockets), safe="/")
        return f"postgresql://postgres@/{ROLE}?host={folder}&port={self.port}"

    def _prepare(self) -> None:
        super()._prepare()
        self._keep_port()

    def _programs(self) -> Path:
        return postgres_programs()

    def _initdb_options(self) -> list[str]:
        return ["--auth-local=trust", "--auth-host=scram-sha-256", "--locale=C.UTF-8"]

    def _command(self) -> list[str]:
        self._settings |= {"listen_addresses": ports.HOST, "port": str(self.port)}
        return super()._command()

    def _launch_until_ready(self, patience: float = 30) -> None:
        super()._launch_until_ready(patience)
        done = self.folder / "role"
        if not done.exists():
            self._create_role()
            done.touch()

    def _create_role(self) -> None:
        with self._connect("template1") as connection:
            for statement in RIGHTS:
                connection.execute(statement)
        with self._connect("postgres") as connection:
            # A first start that was interrupted may have left it.
            connection.execute(f"DROP DATABASE IF EXISTS {ROLE}")
            connection.execute(f"CREATE DATABASE {ROLE}")

    def _connect(self, database: str) -> psycopg.Connection[Any]:
        url = self.superuser_url.replace(f"/{ROLE}?", f"/{database}?")
        return psycopg.connect(url, autocommit=True)


class InstalledRedis(OnPort, Valkey):
    """Redis as a package installs it: snapshots on disk, no limit of memory."""

    name: ClassVar[str] = "redis"

    @property
    def url(self) -> str:
        return f"redis://{ports.HOST}:{self.port}/0"

    def _prepare(self) -> None:
        super()._prepare()
        self._keep_port()

    def _find_program(self) -> Path:
        return redis_program()

    def _command(self) -> list[str]:
        return [
            self._program,
            *("--bind", ports.HOST),
            *("--port", str(self.port)),
            *("--dir", str(self.data)),
            *("--set-proc-title", "no"),
        ]

    def _door(self) -> socket.socket:
        return socket.create_connection((ports.HOST, self.port), timeout=5)


def postgres_programs() -> Path:
    """Return the folder of ``initdb``: POSTGRES_BIN, else the one of the newest package."""
    if given := os.environ.get("POSTGRES_BIN"):
        if not Path(given, "initdb").exists():
            raise EmbeddedError(f"POSTGRES_BIN={given} holds no initdb")
        return Path(given).resolve()
    found = [path.parent for path in PACKAGES.glob("*/bin/initdb")]
    if not found:
        raise EmbeddedError("PostgreSQL is not installed: apt install postgresql")
    return max(found, key=lambda path: int(path.parent.name))


def redis_program() -> Path:
    """Return the path of ``redis-server``: of REDIS_SERVER, else the one in PATH."""
    if given := os.environ.get("REDIS_SERVER"):
        if not os.access(given, os.X_OK):
            raise EmbeddedError(f"REDIS_SERVER={given} is no program")
        return Path(given).resolve()
    found = shutil.which("redis-server")
    if found is None:
        raise EmbeddedError("Redis is not installed: apt install redis-server")
    return Path(found).absolute()  # not resolved: a link to a program that looks at its name
