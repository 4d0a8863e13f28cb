"""What ``manage.py jobs doctor`` prints and answers."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import OperationalError, connection

import jobs
from jobs.engine import leases, rq
from jobs.ids import uuid7
from jobs.operate import environment
from jobs.operate.environment import Finding, findings
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db


def doctor(*arguments: str) -> int:
    try:
        call_command("jobs", "doctor", *arguments)
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code
    return 0


def finding(name: str) -> Finding:
    [found] = [found for found in findings() if found.name == name]
    return found


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_sound_project_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor() == 0
    printed = capsys.readouterr().out
    assert "Everything is as it should be." in printed
    assert "running_has_owner" in printed


def test_warnings_fail_only_when_strict() -> None:
    jobs.enqueue(Noop())  # and no executor listens
    assert doctor() == 0
    assert doctor("--strict") == 1


def test_a_violation_is_exit_code_1_and_says_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("DROP TRIGGER jobs_job_guard ON jobs_job")
    assert doctor() == 1
    printed = capsys.readouterr().out
    assert "the trigger is missing" in printed
    assert "run manage.py migrate" in printed


def test_json_names_every_violation(capsys: pytest.CaptureFixture[str]) -> None:
    run("DROP TRIGGER jobs_job_guard ON jobs_job")
    assert doctor("--json") == 1
    report = json.loads(capsys.readouterr().out)
    [violation] = report["violations"]
    assert (violation["invariant"], violation["subject"]) == ("schema_complete", "jobs_job_guard")
    assert report["code"] == 1
    assert {f["name"] for f in report["surroundings"]} >= {"postgresql", "redis", "executors"}


def test_what_cannot_be_checked_is_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise OperationalError("canceling statement\ndue to statement timeout")

    monkeypatch.setattr("jobs.operate.doctor.check", refuse)
    assert doctor() == 2
    assert "canceling statement due to statement timeout" in capsys.readouterr().out


def test_a_queue_with_work_and_no_executor_is_named() -> None:
    jobs.enqueue(Noop(), queue="forlorn")
    run("INSERT INTO jobs_queue (name) VALUES ('forlorn')")
    assert "forlorn" in finding("queues").detail
    leases.open_lease(uuid7(), "tester", ["forlorn"], 3)
    assert finding("queues").level == "ok"
    assert finding("executors").detail == "1 live with 3 slots"


def test_a_dispatcher_that_announced_itself_is_counted() -> None:
    rq.client().delete(rq.DISPATCHERS)
    assert finding("dispatchers").level == "warning"
    rq.note_dispatcher("tester")
    assert finding("dispatchers").detail == "1 live"
    rq.client().delete(rq.DISPATCHERS)


def test_an_eviction_policy_is_warned_of() -> None:
    before = rq.server_info().policy
    rq.client().config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert finding("redis_policy").level == "warning"
    finally:
        rq.client().config_set("maxmemory-policy", before)
    assert finding("redis_policy").level == "ok"


def test_a_redis_that_is_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ConnectionRefusedError("nobody there")

    monkeypatch.setattr(rq, "server_info", refuse)
    assert finding("redis") == Finding(
        "redis",
        "error",
        "cannot be reached: nobody there",
        "jobs wait until it answers; none is lost",
    )


def test_a_pickling_serializer_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rq, "serializer", lambda: "")
    assert finding("rq_serializer").level == "warning"


def test_commits_that_do_not_wait_for_the_disk_are_warned_of() -> None:
    assert finding("durability").level == "ok"
    run("SET LOCAL synchronous_commit = off")
    assert finding("durability").level == "warning"


def test_a_missing_migration_is_an_error() -> None:
    run("DELETE FROM django_migrations WHERE app = 'jobs' AND name LIKE '0003%'")
    assert finding("migrations").level == "error"
    assert "0003_dispatch" in finding("migrations").detail


@pytest.mark.django_db(transaction=True)
def test_an_old_transaction_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "OLD_TRANSACTION", 0.0)
    other = psycopg.connect(**connection.get_connection_params())
    try:
        pid = other.info.backend_pid
        other.execute("SELECT 1")
        assert finding("oldest_transaction").level == "warning"
        assert str(pid) in finding("oldest_transaction").detail
    finally:
        other.close()


def test_clocks_that_disagree_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding("clock").level == "ok"
    monkeypatch.setattr(environment, "CLOCK_TOLERANCE", -1.0)
    assert finding("clock").level == "warning"


def test_an_old_postgresql_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "OLDEST_SERVER", 990000)
    assert finding("postgresql").level == "error"
