"""Servers and settings as teams have them: each works, or is refused with a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.http.servers import Server, answer
from tests.integration.fleet import Fleet, Program
from tests.privacy import vault

pytestmark = pytest.mark.soak
CALM = {
    **vault.KEYS,
    "LEASE": 15.0,
    "HEARTBEAT": 5.0,
    "WEBHOOKS": True,
    "HTTP_ALLOW": ["127.0.0.0/8"],
}
QUEUES = "--queues=default,jobs.webhooks,jobs.bulk"


@pytest.fixture
def hook() -> Iterator[str]:
    """The address of a receiver of webhooks."""
    server = Server()
    server.replies["/hook"] = answer()
    yield f"http://127.0.0.1:{server.port}/hook"
    server.close()


def database(**options: Any) -> dict[str, str]:
    return {"FLEET_DATABASE": json.dumps(options)}


def settings(**values: Any) -> dict[str, str]:
    return {"FLEET_SETTINGS": json.dumps(values)}


def pool(**options: Any) -> dict[str, str]:
    return {"FLEET_POOL": json.dumps(options)}


@contextmanager
def altered(fleet: Fleet, changes: tuple[str, ...]) -> Iterator[None]:
    """Give new sessions of the database these parameters, also those of the test itself."""
    [(name,)] = fleet.query("SELECT current_database()")
    for change in changes:
        fleet.query(f'ALTER DATABASE "{name}" SET {change}')
    try:
        yield
    finally:
        fleet.end_programs()
        fleet.forget_connection()
        fleet.query(
            f'BEGIN; SET LOCAL transaction_read_only = off; ALTER DATABASE "{name}" RESET ALL; END'
        )
        fleet.forget_connection()
        fleet._end_client()


WORKS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "plain": ((), {}),
    "zone and interval style": (("timezone = 'America/Sao_Paulo'", "intervalstyle = iso_8601"), {}),
    "zone of Kathmandu": (("timezone = 'Asia/Kathmandu'",), settings(TIME_ZONE="Asia/Kathmandu")),
    "another language": ((), settings(LANGUAGE_CODE="pt-br", TIME_ZONE="America/Sao_Paulo")),
    "server in Italian dates": (("datestyle = 'ISO, DMY'",), {}),
    "timeouts": (
        ("statement_timeout = '5s'", "lock_timeout = '1s'",
         "idle_in_transaction_session_timeout = '5s'"), {},
    ),
    "commits that do not wait": (("synchronous_commit = off",), {}),
    "no parallel plans": (("max_parallel_workers_per_gather = 0",), {}),
    "plans of one kind": (("plan_cache_mode = force_generic_plan",), {}),
    "other plans": (("plan_cache_mode = force_custom_plan",), {}),
    "jit from the first row": (("jit = on", "jit_above_cost = 0"), {}),
    "little memory": (("work_mem = '64kB'",), {}),
    "a schema of its own first": (("search_path = own, public",), {}),
    "requests in transactions": (
        (), database(ATOMIC_REQUESTS=True, CONN_MAX_AGE=None, CONN_HEALTH_CHECKS=True)
    ),
    "connections closed at once": ((), database(CONN_MAX_AGE=0)),
    "no cursors of the server": ((), database(DISABLE_SERVER_SIDE_CURSORS=True)),
    "a pool": ((), pool(min_size=1, max_size=12)),
    "a small pool": ((), pool(min_size=1, max_size=2, timeout=5)),
    "prepared statements": ((), {"FLEET_PREPARE": "1"}),
    "a cache of Django in the same Redis": ((), {"FLEET_CACHE": "{redis}"}),
    "Redis by URL of a database": ((), {"FLEET_RQ": '{{"URL": "{redis_and}db=3"}}'}),
    "Redis by its old protocol": ((), {"FLEET_RQ": '{{"URL": "{redis_and}protocol=2"}}'}),
    "Redis that decodes": ((), {"FLEET_RQ": '{{"URL": "{redis_and}decode_responses=1"}}'}),
    "Redis without a time limit": (
        (), {"FLEET_RQ": '{{"URL": "{redis}", "REDIS_CLIENT_KWARGS": {{"socket_timeout": null}}}}'}
    ),
}  # fmt: skip


def environment(fleet: Fleet, given: dict[str, str]) -> dict[str, str]:
    url = fleet.valkey.url
    named = {"redis": url, "redis_and": url + ("&" if "?" in url else "?")}
    return {
        name: value.format(**named) if "{redis" in value else value for name, value in given.items()
    }


def jobs_of(env: dict[str, str]) -> dict[str, Any]:
    """Return the settings of the fleet's processes."""
    return {**CALM, "PREPARE": True} if "FLEET_PREPARE" in env else CALM


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", WORKS)
def test_a_bit_of_everything_works(fleet: Fleet, hook: str, tmp_path: Path, name: str) -> None:
    changes, given = WORKS[name]
    env = environment(fleet, given)
    options: dict[str, Any] = {"env": env, "jobs": jobs_of(env)}
    with altered(fleet, changes):
        fleet.dispatcher(**options)
        fleet.manage("relay", "jobs", "relay", **options)
        fleet.worker("--concurrency=4", QUEUES, **options)
        mix = fleet.program("mix", "tests/integration/mix.py", str(tmp_path), hook, **options)
        assert mix.ended(400) == 0, mix.logged()
        fleet.await_final(120)
        lost = "SELECT count(*) FROM jobs_attempt WHERE outcome = 'lost'"
        assert fleet.value(lost) == 0, fleet.states()


REFUSED: dict[str, tuple[tuple[str, ...], dict[str, str], tuple[str, ...], str]] = {
    "times without a zone": ((), settings(USE_TZ=False), ("check",), "jobs.E061"),
    "read only": (
        ("default_transaction_read_only = on",), {}, ("jobs", "doctor"),
        "default_transaction_read_only",
    ),
    "repeatable read": (
        ("default_transaction_isolation = 'repeatable read'",), {}, ("jobs", "doctor"),
        "isolation",
    ),
    "serializable": (
        ("default_transaction_isolation = 'serializable'",), {}, ("jobs", "doctor"), "isolation",
    ),
    "Redis without a port": (
        (), {"FLEET_RQ": '{"HOST": "127.0.0.1", "DB": 0}'}, ("check",), "PORT",
    ),
    "Redis without a host": ((), {"FLEET_RQ": '{"DB": 0}'}, ("check",), "HOST"),
    "Redis by a URL without a scheme": (
        (), {"FLEET_RQ": '{"URL": "127.0.0.1:6379"}'}, ("check",), "redis://",
    ),
    "Sentinels without a name": (
        (), {"FLEET_RQ": '{"SENTINELS": [["127.0.0.1", 26379]], "DB": 0}'}, ("check",),
        "MASTER_NAME",
    ),
    "another database": (
        (), database(ENGINE="django.db.backends.sqlite3", NAME=":memory:", OPTIONS={}),
        ("check",), "jobs.E003",
    ),
    "Redis away": (
        (), {"FLEET_RQ": '{"HOST": "127.0.0.1", "PORT": 9, "DB": 0}'}, ("jobs", "doctor"),
        "cannot be reached",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused_with_a_reason(fleet: Fleet, name: str) -> None:
    changes, given, command, reason = REFUSED[name]
    with altered(fleet, changes):
        said: Program = fleet.manage("said", *command, env=given)
        assert said.ended(120) != 0, said.logged()
        assert reason in said.logged() and "Traceback" not in said.logged()
