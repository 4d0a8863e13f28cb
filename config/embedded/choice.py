"""Which servers a run uses: SERVERS=embedded (the default), stock or pgbouncer.

``stock`` are the PostgreSQL and the Redis of the system's packages, with nothing tuned;
``pgbouncer`` puts a PgBouncer in transaction mode before that PostgreSQL.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

from config.embedded.errors import EmbeddedError
from config.embedded.postgres import Postgres
from config.embedded.server import Server
from config.embedded.valkey import Valkey

CHOICES = ("embedded", "stock", "pgbouncer")


def chosen() -> str:
    choice = os.environ.get("SERVERS") or CHOICES[0]
    if choice not in CHOICES:
        raise EmbeddedError(f"SERVERS={choice} is not one of {', '.join(CHOICES)}")
    return choice


def private_postgres(
    folder: str | os.PathLike[str], settings: Mapping[str, str] | None = None
) -> Postgres:
    """Return a private PostgreSQL; ``settings`` tune the embedded one, the stock one has none."""
    if chosen() == "pgbouncer":
        from config.embedded.pgbouncer import PooledPostgres

        return PooledPostgres(folder)
    return _postgres(folder, settings)


def private_redis(folder: str | os.PathLike[str]) -> Valkey:
    """Return a private Valkey, or the stock Redis."""
    if chosen() == "embedded":
        return Valkey(folder)
    from config.embedded.installed import InstalledRedis

    return InstalledRedis(folder)


def pair(folder: Path) -> dict[str, Server]:
    """Return the two servers below ``folder``, without a pooler."""
    return {
        "postgres": _postgres(folder / _of_version("postgres", "POSTGRES_BIN")),
        "valkey": private_redis(folder / _of_version("valkey", "REDIS_SERVER")),
    }


def _of_version(name: str, variable: str) -> str:
    """Return the name of a folder that no other version has written."""
    program = os.environ.get(variable, "") if chosen() != "embedded" else ""
    return f"{name}-{crc32(program.encode()):08x}" if program else name


def _postgres(
    folder: str | os.PathLike[str], settings: Mapping[str, str] | None = None
) -> Postgres:
    if chosen() == "embedded":
        return Postgres(folder, settings)
    from config.embedded.installed import InstalledPostgres

    return InstalledPostgres(folder)
