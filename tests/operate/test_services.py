"""Who does the platform's own work is told from what the database shows of its connections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.db.backends.signals import connection_created
from django.db.models import F
from django.test import Client

import jobs
from jobs.engine import presence, rq, sql
from jobs.errors import Denied
from jobs.models import Schedule
from jobs.operate import overview, schedules, services
from jobs.principals import Principal, Scope
from tests.specimens.handlers import Noop
from tests.wait import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis has heard of none; what another test's process has said there is not ours."""
    monkeypatch.setattr(rq, "live_dispatchers", list)


@contextmanager
def a_process(role: str, name: str) -> Iterator[None]:
    """Another connection to the same database, which says who it is."""
    given = {
        k: v for k, v in connection.get_connection_params().items()
        if k in ("host", "port", "user", "password", "dbname")
    }  # fmt: skip
    with psycopg.connect(**given, application_name=f"jobs:{role}:{name}"):
        _look_anew()
        yield
    # The server notices a moment later that somebody has gone.
    wait_until(lambda: not _is_there(f"jobs:{role}:{name}"))


def _is_there(application: str) -> bool:
    _look_anew()
    return bool(
        sql.rows("SELECT 1 FROM pg_stat_activity WHERE application_name = %s", [application])
    )


def _look_anew() -> None:
    """A transaction, like that of a test, sees the connections that it saw first."""
    sql.rows("SELECT pg_stat_clear_snapshot()")


def found(by: Any = "ada") -> dict[str, services.Service]:
    return {one.name: one for one in services.services(by=by)}


def names(service: services.Service) -> list[str]:
    return [holder.name for holder in service.holders]


def test_nobody_is_there() -> None:
    assert {name: one.state for name, one in found().items()} == {
        "dispatch": "silent", "schedules": "silent", "relay": "silent",
    }  # fmt: skip


def test_a_dispatcher_does_everything_and_a_relay_relays() -> None:
    with a_process("relay", "host.7"), a_process("dispatch", "host.8"):
        now = found()
        assert {name: one.state for name, one in now.items()} == dict.fromkeys(now, "active")
        assert names(now["dispatch"]) == names(now["schedules"]) == ["host.8"]
        assert sorted(names(now["relay"])) == ["host.7", "host.8"]
        [(moment,)] = sql.rows("SELECT clock_timestamp()")
        [holder] = now["dispatch"].holders
        assert holder.since is not None and holder.since <= moment
    with a_process("relay", "host.7"):
        now = found()
        assert (now["relay"].state, now["schedules"].state) == ("active", "silent")


def test_a_dispatcher_that_a_pooler_hides_is_heard_of_by_redis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rq, "live_dispatchers", lambda: ["hidden.1", "host.8"])
    with a_process("dispatch", "host.8"):
        assert sorted(names(found()["dispatch"])) == ["hidden.1", "host.8"]

    def away() -> list[str]:
        raise OSError("no route")

    monkeypatch.setattr(rq, "live_dispatchers", away)
    with a_process("dispatch", "host.8"):
        assert names(found()["dispatch"]) == ["host.8"]
    assert found()["dispatch"].state == "silent"


def test_what_is_behind_is_told() -> None:
    schedules.create("nightly", Noop(), interval=60, by="ada", reason="asked for")
    jobs.emit("example.happened", {"a": 1})
    with a_process("dispatch", "host.8"):
        assert {one.state for one in found().values()} == {"active"}
        sql.run("UPDATE jobs_outbox SET occurred_at = occurred_at - interval '1 h'")
        Schedule.objects.update(next_slot=F("next_slot") - timedelta(hours=1))
        now = found()
        assert (now["relay"].state, now["schedules"].state) == ("late", "late")
        assert now["relay"].lag >= 3600 and now["schedules"].lag > 3000


def test_it_is_nobodys_business_who_sees_a_part_only() -> None:
    assert found(Principal("ann", scope=Scope(tenants=frozenset({"acme"})))) == {}
    with pytest.raises(Denied):
        services.services(by=Principal("ann", permissions=frozenset()))


def test_a_process_says_who_it_is_on_every_connection() -> None:
    before = sql.rows("SELECT current_setting('application_name')")
    try:
        presence.introduce("dispatch", "a" * 100)
        [(name,)] = sql.rows("SELECT current_setting('application_name')")
        assert name == ("jobs:dispatch:" + "a" * 100)[:63]
        made = connection.copy()
        try:
            with made.cursor() as cursor:
                cursor.execute("SELECT current_setting('application_name')")
                assert cursor.fetchone() == (name,)
        finally:
            made.close()
    finally:
        connection_created.disconnect(dispatch_uid="jobs.engine.presence")
        sql.rows("SELECT set_config('application_name', %s, false)", [before[0][0]])


# ---- told everywhere


def test_the_first_page_says_that_nobody_does_it() -> None:
    codes = {problem.code for problem in overview.overview(by="ada").problems}
    assert {"no_dispatcher", "no_scheduler", "no_relay"} <= codes
    with a_process("relay", "host.7"):
        codes = {problem.code for problem in overview.overview(by="ada").problems}
        assert "no_relay" not in codes and "no_scheduler" in codes


def test_pages_show_who_does_it(admin_client: Client) -> None:
    for page in ("workerpage/", "queue/"):
        text = admin_client.get(f"/admin/jobs/{page}").content.decode()
        assert "Relaying events" in text and "nobody" in text
    assert "No relay is running" in admin_client.get("/admin/jobs/overview/").content.decode()
    with a_process("dispatch", "host.8"):
        for page in ("workerpage/", "queue/"):
            assert "host.8" in admin_client.get(f"/admin/jobs/{page}").content.decode()
        text = admin_client.get("/admin/jobs/overview/").content.decode()
        assert "No relay is running" not in text and "No scheduler is running" not in text


def test_programs_and_the_command_line_are_told(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.force_login(User.objects.create_superuser("root"))
    with a_process("relay", "host.7"):
        told = client.get("/api/v1/services").json()
        assert {one["name"]: one["state"] for one in told} == {
            "dispatch": "silent", "schedules": "silent", "relay": "active",
        }  # fmt: skip
        call_command("jobs", "services", "list", "--json")
        assert [one["name"] for one in json.loads(capsys.readouterr().out)] == [
            "dispatch", "schedules", "relay",
        ]  # fmt: skip
