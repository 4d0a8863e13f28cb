"""Postgres and Valkey as private servers, children of the process that wants them."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from config.addresses import parse_database_url
from config.embedded import EmbeddedError, Postgres, Valkey, client, places
from tests.wait import wait_until


def value(server: Postgres, query: str) -> object:
    with psycopg.connect(server.url) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


def inet_sockets(pid: int) -> list[object]:
    return list(psutil.Process(pid).net_connections(kind="inet"))


def test_postgres_is_durable_and_speaks_utf8_in_utc(folder: Path) -> None:
    with Postgres(folder / "pg") as server:
        shown = {
            name: value(server, f"SHOW {name}")
            for name in (
                "fsync",
                "synchronous_commit",
                "max_connections",
                "shared_buffers",
                "timezone",
                "server_encoding",
                "listen_addresses",
            )
        }
        locale = value(server, "SELECT datlocale FROM pg_database WHERE datname = 'postgres'")
    assert shown == {
        "fsync": "on",
        "synchronous_commit": "on",
        "max_connections": "200",
        "shared_buffers": "128MB",
        "timezone": "UTC",
        "server_encoding": "UTF8",
        "listen_addresses": "",
    }
    assert locale == "C.UTF-8"


def test_servers_have_only_a_unix_socket_in_a_private_folder(folder: Path) -> None:
    with Postgres(folder / "pg") as postgres, Valkey(folder / "vk") as valkey:
        for server in (postgres, valkey):
            assert inet_sockets(server.pid) == []
            assert stat.S_IMODE(server.sockets.stat().st_mode) == 0o700
            assert server.sockets.stat().st_uid == places.server_user().uid != 0
            assert psutil.Process(server.pid).uids().effective != 0
            assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
        assert not postgres.sockets.is_relative_to(folder)
    assert not postgres.sockets.parent.exists()
    assert not valkey.sockets.parent.exists()


def test_the_url_is_one_our_settings_accept(folder: Path) -> None:
    server = Postgres(folder / "pg")
    address = parse_database_url(server.url)
    assert (address.host, address.user, address.name) == (
        str(server.sockets),
        "postgres",
        "postgres",
    )


def test_postgres_keeps_its_data_through_every_end(folder: Path) -> None:
    with Postgres(folder / "pg", {"max_connections": "20"}) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept (how text)")
            connection.execute("INSERT INTO kept VALUES ('here')")
        server.restart("fast")
        assert value(server, "SELECT how FROM kept") == "here"
        server.restart("immediate")
        assert value(server, "SELECT how FROM kept") == "here"
        with psycopg.connect(server.url) as witness:
            server.kill()
            assert not server.alive
            with pytest.raises(psycopg.OperationalError):
                witness.execute("SELECT 1")
        server.start()
        assert value(server, "SELECT how FROM kept") == "here"
        assert value(server, "SHOW max_connections") == "20"


def test_valkey_keeps_nothing_and_evicts_nothing(folder: Path) -> None:
    with Valkey(folder / "vk") as server:
        with redis.Redis.from_url(server.url) as connection:
            connection.set("key", "value")
            assert connection.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            assert connection.config_get("save") == {"save": ""}
            assert connection.config_get("appendonly") == {"appendonly": "no"}
            assert connection.config_get("dir") == {"dir": str(server.data)}
        server.kill()
        server.start()
        with redis.Redis.from_url(server.url) as connection:
            assert connection.get("key") is None
        server.restart()
        with redis.Redis.from_url(server.url) as connection:
            assert connection.ping()


def test_many_private_servers_live_side_by_side(folder: Path) -> None:
    with Valkey(folder / "a") as first, Valkey(folder / "b") as second:
        assert first.url != second.url
        with redis.Redis.from_url(first.url) as connection:
            connection.set("only", "in a")
        with redis.Redis.from_url(second.url) as connection:
            assert connection.get("only") is None


def test_one_folder_has_one_server(folder: Path) -> None:
    with Valkey(folder / "vk") as server:
        with pytest.raises(EmbeddedError, match="already runs"):
            server.start()
        with pytest.raises(EmbeddedError, match="in use by another process"):
            Valkey(folder / "vk").start()
        assert server.alive


@pytest.mark.slow
def test_a_pid_file_that_names_a_stranger_is_no_obstacle(folder: Path) -> None:
    server = Postgres(folder / "pg")
    with server:
        pass
    with subprocess.Popen(["/bin/sleep", "60"]) as stranger:
        (server.data / "postmaster.pid").write_text(f"{stranger.pid}\n{server.data}\n")
        places.own_folder(server.sockets.parent)
        places.server_folder(server.sockets)
        (server.sockets / ".s.PGSQL.5432").touch()
        (server.sockets / ".s.PGSQL.5432.lock").write_text(f"{stranger.pid}\n")
        with server:
            assert value(server, "SELECT 1") == 1
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.slow
def test_an_interrupted_first_start_is_begun_anew(folder: Path) -> None:
    server = Postgres(folder / "pg")
    half = server.folder / "data.new" / "base"
    half.mkdir(parents=True)
    with server:
        assert value(server, "SELECT 1") == 1
        assert not half.parent.exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["with a space, 'quote' and é", "long-" + "x" * 200])
def test_the_path_of_the_folder_does_not_matter(folder: Path, name: str) -> None:
    with Postgres(folder / name / "pg") as postgres, Valkey(folder / name / "vk") as valkey:
        assert value(postgres, "SELECT 1") == 1
        with redis.Redis.from_url(valkey.url) as connection:
            assert connection.ping()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent")
def test_a_server_dies_with_its_parent(folder: Path) -> None:
    code = (
        "import sys; from config.embedded import Postgres, Valkey\n"
        "servers = Postgres(sys.argv[1] + '/pg'), Valkey(sys.argv[1] + '/vk')\n"
        "for server in servers: server.start()\n"
        "print(*[server.pid for server in servers], flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        cwd=client.CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), message="the servers are gone")
    with Postgres(folder / "pg") as postgres, Valkey(folder / "vk") as valkey:
        assert value(postgres, "SELECT 1") == 1
        assert valkey.alive


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why_in_one_line(folder: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"postgres did not start: .*max_connections") as caught:
        Postgres(folder / "pg", {"max_connections": "none"}).start()
    assert "\n" not in str(caught.value)
    with Postgres(folder / "pg") as server:
        assert server.alive


def test_a_prepared_link_or_a_foreign_folder_is_refused(folder: Path) -> None:
    (folder / "target").mkdir(mode=0o700)
    (folder / "link").symlink_to(folder / "target")
    with pytest.raises(EmbeddedError, match="not a folder"):
        Postgres(folder / "link").start()
    (folder / "file").touch()
    with pytest.raises(EmbeddedError, match="not a folder"):
        places.own_folder(folder / "file")
    with pytest.raises(EmbeddedError, match="belongs to user"):
        places._folder(folder / "target", os.geteuid() + 1, 0o700)
    assert list((folder / "target").iterdir()) == []


def test_a_prepared_socket_folder_is_refused(folder: Path) -> None:
    server = Valkey(folder / "vk")
    server.sockets.parent.symlink_to(folder)
    try:
        with pytest.raises(EmbeddedError, match="not a folder"):
            server.start()
    finally:
        server.sockets.parent.unlink()
    assert not server.alive


def test_an_own_folder_is_closed_to_others(folder: Path) -> None:
    (folder / "open").mkdir(mode=0o777)
    (folder / "open").chmod(0o777)
    places.own_folder(folder / "open")
    assert stat.S_IMODE((folder / "open").stat().st_mode) & 0o066 == 0


def test_others_may_not_write_in_the_data_folder(folder: Path) -> None:
    (folder / "open").mkdir()
    (folder / "open").chmod(0o777)
    with pytest.raises(EmbeddedError, match="others may write"):
        places.data_folder(folder / "open")
    (folder / "file").touch()
    with pytest.raises(EmbeddedError, match="not a folder"):
        places.data_folder(folder / "file")
