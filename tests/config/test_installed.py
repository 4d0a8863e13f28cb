"""SERVERS=stock: private servers from the system's packages, with nothing tuned."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from config.embedded import EmbeddedError, choice, client, installed, private_postgres
from config.embedded.installed import InstalledPostgres, InstalledRedis

has_servers = pytest.mark.skipif(
    not (list(installed.PACKAGES.glob("*/bin/initdb")) and shutil.which("redis-server")),
    reason="needs the packages postgresql and redis-server",
)


@has_servers
def test_the_application_has_few_rights_and_the_server_its_own_settings(folder: Path) -> None:
    with InstalledPostgres(folder / "pg") as server:
        with psycopg.connect(server.url) as connection:
            shown = {
                name: connection.execute(f"SHOW {name}").fetchone()
                for name in ("jit", "fsync", "shared_buffers", "max_connections")
            }
            assert shown == {
                "jit": ("on",),
                "fsync": ("on",),
                "shared_buffers": ("128MB",),
                "max_connections": ("100",),
            }
            assert connection.info.host == "127.0.0.1"
        url = server.url
        server.restart()
        assert server.url == url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE made_by_the_application")
        for name in ("application", "made_by_the_application"):
            with psycopg.connect(url.removesuffix("application") + name) as connection:
                assert rights(connection) == (False, False, True)
        with psycopg.connect(server.superuser_url) as connection:
            assert rights(connection)[0]


def rights(connection: psycopg.Connection[tuple[bool, bool, bool]]) -> tuple[bool, bool, bool]:
    """Whether the role is a superuser, owns the schema public, and may create in it."""
    row = connection.execute(
        "SELECT rolsuper, nspowner = pg_roles.oid OR pg_has_role(nspowner, 'member'), "
        "has_schema_privilege('public', 'CREATE') "
        "FROM pg_roles, pg_namespace WHERE rolname = current_user AND nspname = 'public'"
    ).fetchone()
    assert row is not None
    return row


@has_servers
def test_redis_keeps_its_port_and_its_snapshots(folder: Path) -> None:
    with InstalledRedis(folder / "redis") as server:
        url = server.url
        with redis.Redis.from_url(url) as connection:
            assert connection.config_get("save")["save"]
        server.restart()
        assert server.url == url
        with redis.Redis.from_url(url) as connection:
            assert connection.ping()


@has_servers
def test_a_process_shares_them_with_others(folder: Path) -> None:
    code = "from config import embedded; print(embedded.hold('postgres', 'valkey'))"
    environment = {**os.environ, "SERVERS": "stock", "JOBDESK_DATA": str(folder / "data")}
    command = [sys.executable, "-c", code]
    shared = subprocess.run(
        command, cwd=client.CHECKOUT, env=environment, capture_output=True, text=True, check=True
    )
    assert "application@127.0.0.1" in shared.stdout and "redis://127.0.0.1" in shared.stdout
    assert (folder / "data" / "stock" / "postgres").exists()


@pytest.mark.skipif(not shutil.which("pgbouncer"), reason="needs the package pgbouncer")
@has_servers
def test_clients_of_pgbouncer_take_turns_at_one_connection(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVERS", "pgbouncer")
    with private_postgres(folder / "pg") as server:
        pid = server.pid
        with (
            psycopg.connect(server.url, autocommit=True) as one,
            psycopg.connect(server.url, autocommit=True) as other,
        ):
            assert backend(one) == backend(other)
        with psycopg.connect(server.direct_url) as direct:
            assert direct.info.port != int(server.url.rpartition(":")[2].partition("/")[0])
        server.restart()
        assert server.pid != pid
        with psycopg.connect(server.url) as again:
            assert backend(again)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url)


def backend(connection: psycopg.Connection[tuple[int]]) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("POSTGRES_BIN", "POSTGRES_BIN=/nowhere holds no initdb"),
        ("REDIS_SERVER", "REDIS_SERVER=/nowhere is no program"),
    ],
)
def test_what_is_missing_is_named(
    variable: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVERS", "stock")
    monkeypatch.setenv(variable, "/nowhere")
    kind = {"POSTGRES_BIN": "postgres", "REDIS_SERVER": "valkey"}[variable]
    with pytest.raises(EmbeddedError, match=message):
        choice.pair(folder)[kind].start()


def test_without_a_package_the_error_names_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "PACKAGES", folder)
    monkeypatch.setenv("PATH", str(folder))
    for variable in ("POSTGRES_BIN", "REDIS_SERVER"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(EmbeddedError, match=r"apt install postgresql$"):
        InstalledPostgres(folder / "pg").start()
    with pytest.raises(EmbeddedError, match=r"apt install redis-server$"):
        InstalledRedis(folder / "redis").start()


def test_an_unknown_choice_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVERS", "stok")
    with pytest.raises(EmbeddedError, match="SERVERS=stok is not one of"):
        private_postgres(folder)


def test_other_versions_have_folders_of_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVERS", "stock")
    usual = {name: server.folder for name, server in choice.pair(folder).items()}
    monkeypatch.setenv("POSTGRES_BIN", "/opt/postgresql-14/bin")
    monkeypatch.setenv("REDIS_SERVER", "/opt/redis-6.2/redis-server")
    others = {name: server.folder for name, server in choice.pair(folder).items()}
    assert not set(usual.values()) & set(others.values())
