"""What ``manage.py check`` says about wrong settings and risky set-ups."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import wraps
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from psycopg import IsolationLevel

import jobs
from jobs import principals, registry, versions
from jobs.engine import rq
from jobs.models import Attempt, Job
from jobs.operate import verbs
from jobs.operate.targets import Target
from jobs.principals import By
from jobs.router import JobsRouter


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


def test_times_without_a_zone_are_refused(settings: Any) -> None:
    settings.USE_TZ = False
    assert "USE_TZ = True" in messages()["jobs.E061"]


@pytest.mark.parametrize(
    ("pool", "size"),
    [(True, 4), ({"min_size": 2, "max_size": 9}, 9), ({"min_size": 6}, 6), ({"max_size": 8}, 8)],
)
def test_a_pool_that_is_too_small_is_told_how_large_to_be(
    monkeypatch: pytest.MonkeyPatch, pool: object, size: int
) -> None:
    monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "pool", pool)
    told = messages()["jobs.W060"]
    assert f"the pool of {size} connections" in told and "max_size'] to 10" in told


@pytest.mark.parametrize("pool", [{"max_size": 10}, {"min_size": 10}, None, False])
def test_a_pool_that_is_large_enough_is_none_of_our_business(
    monkeypatch: pytest.MonkeyPatch, pool: object
) -> None:
    monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "pool", pool)
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


@pytest.mark.parametrize(
    ("described", "problem"),
    [
        ({"HOST": "localhost"}, "lacks 'PORT'"),
        ({"DB": 1}, "'HOST'"),
        ({"UNIX_SOCKET_PATH": "/run/redis.sock"}, "lacks 'DB'"),
        ({"URL": "localhost:6379"}, "cannot be used: Redis URL must specify"),
        ({"SENTINELS": [("localhost", 26379)]}, "lacks 'MASTER_NAME'"),
        ({"USE_REDIS_CACHE": "default"}, "cannot be used"),
    ],
)
def test_a_connection_that_cannot_be_made_is_an_error(
    settings: Any, described: dict[str, Any], problem: str
) -> None:
    settings.RQ_QUEUES = {"default": described}
    assert problem in messages(deploy=True)["jobs.E005"]


@pytest.mark.parametrize("level", [IsolationLevel.SERIALIZABLE, IsolationLevel.REPEATABLE_READ])
def test_isolation_levels_that_refuse_concurrent_claims_are_warned_of(
    level: IsolationLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = connections.settings["default"]["OPTIONS"]
    monkeypatch.setitem(options, "isolation_level", level)
    assert level.name in messages()["jobs.W062"]
    monkeypatch.setitem(options, "isolation_level", IsolationLevel.READ_COMMITTED)
    assert "jobs.W062" not in messages()


def of_django_rq(request: HttpRequest) -> HttpResponse:
    """A view of django-rq, as far as its module tells."""
    return HttpResponse()


def wrapped(request: HttpRequest) -> HttpResponse:
    return of_django_rq(request)


of_django_rq.__module__ = "django_rq.views"


def test_pages_of_django_rq_are_warned_of(settings: Any) -> None:
    assert "jobs.W052" not in messages()
    inner = path("queues/<int:n>/", wraps(of_django_rq)(wrapped))
    settings.ROOT_URLCONF = (path("rq/", include([inner])),)
    assert "at 'rq/queues/<int:n>/'" in messages()["jobs.W052"]


CHECK = """
import django
from django.conf import settings
settings.RQ_SHOW_ADMIN_LINK = {link}
django.setup()
from jobs.checks.redis import dashboard_is_closed
print([message.id for message in dashboard_is_closed()])
"""


@pytest.mark.parametrize(("link", "told"), [(True, "['jobs.W052']"), (False, "[]")])
def test_its_link_in_the_admin_is_enough(link: bool, told: str) -> None:
    """As django-rq comes, it opens its pages to every staff user."""
    said = subprocess.run(
        [sys.executable, "-c", CHECK.format(link=link)],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.integration.settings",
             "FLEET_LEGACY": "1"},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert said.stdout.strip() == told


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


def test_loggers_that_are_silenced_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "jobs.W064" not in messages()
    monkeypatch.setattr(logging.getLogger("jobs.handler"), "disabled", True)
    assert "before it: jobs.handler" in messages()["jobs.W064"]


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
    settings.RQ_QUEUES = {"default": {"URL": url}}
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
    settings.RQ_QUEUES = {"default": {"URL": url}}
    assert list(messages(deploy=True)) == ["jobs.W011"]


@pytest.mark.parametrize("constant", ["PYTHON", "DJANGO", "REDIS_PY"])
def test_an_old_package_is_an_error(constant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, constant, (99,))
    assert list(messages()) == ["jobs.E070"]
    assert messages()["jobs.E070"].rstrip().endswith("is too old: 99 or newer is needed")


@pytest.mark.django_db
def test_an_old_postgresql_is_an_error_of_who_asks_for_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(versions, "POSTGRESQL", (99,))
    assert messages() == {}
    [found] = run_checks(tags=["database"], databases=["default"])
    assert found.id == "jobs.E071" and "PostgreSQL" in found.msg


def test_an_old_redis_is_an_error_when_deploying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "REDIS", (99,))
    assert messages() == {}
    assert list(messages(deploy=True)) == ["jobs.E072"]


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("14.23", ""),
        ("15.20 (Debian 15.20-0+deb12u1)", ""),
        ("18beta1", ""),
        ("13.9", "PostgreSQL 13.9 is too old: 14 or newer is needed"),
        ("9.6.24", "PostgreSQL 9.6.24 is too old: 14 or newer is needed"),
    ],
)
def test_versions_compare_by_their_numbers(version: str, problem: str) -> None:
    assert versions.too_old("PostgreSQL", version, (14,)) == problem


def test_a_store_of_blobs_is_whole(settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "BLOBS": {"STORE": "s3", "BUCKET": "b"}}
    assert "needs 'ENDPOINT'" in messages()["jobs.E080"]


def test_a_kernel_that_isolates_nobody_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs import sandbox
    from jobs.sandbox import jail

    monkeypatch.setattr(jail, "landlock_version", lambda: 0)
    assert "Landlock" in messages()["jobs.W080"]
    monkeypatch.delitem(sys.modules, sandbox.__name__)
    assert messages() == {}, "nobody uses it"


@pytest.mark.parametrize(
    ("permission", "known", "problem"),
    [
        ("specimens.approve", False, "jobs.E012"),
        ("aprove_job", False, "jobs.E012"),
        ("specimens.approve", True, "jobs.W013"),
        ("specimens.change_plan", True, ""),
        ("retry_job", False, ""),
    ],
)
def test_a_permission_of_a_verb_that_nobody_can_have_is_found(
    monkeypatch: pytest.MonkeyPatch, permission: str, known: bool, problem: str
) -> None:
    monkeypatch.setattr(verbs, "_VERBS", {**verbs.every()})
    if known:
        monkeypatch.setitem(principals._OF_APPS, permission, "Can approve")

    @verbs.verb("plan.wave", on=Target("wave"), permission=permission)
    def wave(plan_id: str, *, by: By) -> None:
        """Wave at a plan."""

    found = {id: text for id, text in messages().items() if id in ("jobs.E012", "jobs.W013")}
    assert list(found) == ([problem] if problem else [])
    assert all(repr(permission) in text for text in found.values())


def test_a_misspelt_permission_of_an_operation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from ninja import Router

    from jobs.api import endpoints

    monkeypatch.setattr(endpoints, "NEEDED", dict(endpoints.NEEDED))
    assert "jobs.E014" not in messages()
    endpoints.operation(Router(), "GET", "/x", "x_get", needs="veiw_job")(lambda request: None)
    assert "'veiw_job'" in messages()["jobs.E014"]
    [found] = [one for one in run_checks() if one.id == "jobs.E014"]
    assert found.hint == "did you mean 'view_job'?"
