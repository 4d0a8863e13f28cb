"""What ``manage.py check`` says about wrong settings and risky set-ups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.db import connections

import jobs
from jobs import registry
from jobs.engine import rq
from jobs.models import Attempt, Job
from jobs.router import JobsRouter

JSON = "rq.serializers.JSONSerializer"


@pytest.fixture(autouse=True)
def shared_cache(settings: Any) -> None:
    """As a sound project has it."""
    shared = "django.core.cache.backends.db.DatabaseCache"
    settings.CACHES = {"default": {"BACKEND": shared, "LOCATION": "cache"}}


def messages(deploy: bool = False) -> dict[str, str]:
    found = run_checks(tags=["jobs"], include_deployment_checks=deploy, databases=[])
    return {str(message.id): f"{message.msg} {message.hint or ''}" for message in found}


@pytest.fixture(autouse=True)
def _fresh_clients() -> Iterator[None]:
    rq.forget_clients()
    yield
    rq.forget_clients()


def test_a_sound_project_has_nothing_to_be_told() -> None:
    assert messages(deploy=True) == {}


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({"LEESE": 3}, "did you mean 'LEASE'"),
        ({"LEASE": 1}, "must be at least twice"),
        ({"TIMEOUT": "5"}, "must be a number of seconds"),
        ([], "must be a dict"),
    ],
)
def test_wrong_settings_are_one_error(settings: Any, raw: object, told: str) -> None:
    settings.JOBS = raw
    assert list(messages(deploy=True)) == ["jobs.E001"]
    assert told in messages()["jobs.E001"]


def test_an_unknown_database_is_an_error(settings: Any) -> None:
    settings.JOBS = {"DATABASE": "defalt"}
    assert "did you mean 'default'" in messages()["jobs.E002"]


def test_another_database_than_postgresql_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "sqlite", raising=False)
    assert "which is sqlite" in messages()["jobs.E003"]


def test_another_alias_needs_the_router(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {**connections.settings, "queue": connections.settings["default"]}
    monkeypatch.setitem(connections.__dict__, "settings", known)
    settings.JOBS = {**settings.KEYS, "DATABASE": "queue"}
    assert "jobs.router.JobsRouter" in messages()["jobs.E004"]
    settings.DATABASE_ROUTERS = ["jobs.router.JobsRouter"]
    assert messages() == {}


def test_the_router_minds_its_own_business(settings: Any) -> None:
    settings.JOBS = {"DATABASE": "queue"}
    ours = JobsRouter()
    assert (ours.db_for_read(Job), ours.db_for_write(Attempt)) == ("queue", "queue")
    assert (ours.db_for_read(User), ours.db_for_write(User)) == (None, None)
    assert (ours.allow_migrate("queue", "jobs"), ours.allow_migrate("default", "jobs")) == (
        True,
        False,
    )
    assert ours.allow_migrate("queue", "auth") is None
    assert (ours.allow_relation(Job(), Attempt()), ours.allow_relation(Job(), User())) == (
        True,
        None,
    )


def test_an_unknown_connection_is_an_error(settings: Any) -> None:
    settings.JOBS = {"CONNECTION": "defualt"}
    assert "did you mean 'default'" in messages(deploy=True)["jobs.E005"]


def test_a_pickling_serializer_is_warned_of(settings: Any) -> None:
    settings.RQ_QUEUES = {"default": {"URL": "redis://localhost"}}
    assert "JSONSerializer" in messages()["jobs.W006"]


def test_a_drain_shorter_than_the_grace_is_warned_of(settings: Any) -> None:
    settings.JOBS = {"DRAIN": 1, "GRACE": 2}
    assert "less time to end" in messages()["jobs.W007"]


def test_a_handler_that_a_shutdown_would_fail_is_warned_of(settings: Any) -> None:
    class Delicate(jobs.Payload, kind="checks.delicate"):
        pass

    jobs.handler(Delicate, timeout=60, on_lost="in_doubt")(lambda ctx, payload: None)
    try:
        assert "checks.delicate may run for 60 s" in messages()["jobs.W008"]
        settings.JOBS = {**settings.KEYS, "DRAIN": 60}
        assert messages() == {}
    finally:
        registry.unregister("checks.delicate")


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("redis://cache.example.com:6379", True),
        ("redis://10.0.0.5", True),
        ("redis://:secret@10.0.0.5", False),
        ("rediss://10.0.0.5", False),
        ("redis://localhost:6390", False),
        ("redis://127.0.0.8", False),
        ("redis://[::1]:6379", False),
        ("unix:///run/redis.sock", False),
    ],
)
def test_an_open_redis_is_warned_of(
    settings: Any, monkeypatch: pytest.MonkeyPatch, url: str, warned: bool
) -> None:
    monkeypatch.setattr(rq, "server_info", lambda: rq.ServerInfo("9", "1M", "noeviction"))
    settings.RQ_QUEUES = {"default": {"URL": url, "SERIALIZER": JSON}}
    told = messages(deploy=True)
    assert ("jobs.W009" in told) == warned
    assert "secret" not in str(told)
    assert "jobs.W009" not in messages()


def test_an_evicting_redis_is_warned_of() -> None:
    before = rq.server_info().policy
    rq.client().config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert "allkeys-lru" in messages(deploy=True)["jobs.W010"]
        assert messages() == {}
    finally:
        rq.client().config_set("maxmemory-policy", before)


def test_a_redis_that_is_away_is_warned_of(settings: Any) -> None:
    url = "unix:///nowhere/redis.sock"
    settings.RQ_QUEUES = {"default": {"URL": url, "SERIALIZER": JSON}}
    assert list(messages(deploy=True)) == ["jobs.W011"]
