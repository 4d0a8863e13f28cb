"""What ``manage.py jobs doctor`` prints and answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError, connection, transaction

import jobs
from jobs import versions
from jobs.engine import leases, rq
from jobs.ids import uuid7
from jobs.operate import environment
from jobs.operate.environment import Finding, findings
from tests.jobs import factories
from tests.redis import redis_at
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
    assert "Nothing is broken" in printed or "Everything is as it should be." in printed
    assert ("WHAT TO DO" in printed) == ("there are warnings" in printed)
    assert "running_has_owner" in printed


def test_warnings_fail_only_when_strict(capsys: pytest.CaptureFixture[str]) -> None:
    jobs.enqueue(Noop())  # and no executor listens
    assert doctor() == 0
    assert "there are warnings: see above" in capsys.readouterr().out
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
    rq.client().delete(rq.dispatchers_key())
    assert finding("dispatchers").level == "warning"
    rq.note_dispatcher("tester")
    assert finding("dispatchers").detail == "1 live"
    rq.client().delete(rq.dispatchers_key())


def test_an_eviction_policy_is_warned_of() -> None:
    before = rq.server_info().policy
    rq.client().config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert finding("redis_policy").level == "warning"
    finally:
        rq.client().config_set("maxmemory-policy", before)
    assert finding("redis_policy").level == "ok"


@contextmanager
def limited(*rules: str) -> Iterator[None]:
    """Redis knows this process as a user with these rights."""
    redis, url = rq.client(), urlsplit(settings.RQ_QUEUES["default"]["URL"])
    redis.execute_command("ACL", "SETUSER", "limited", "reset", "on", ">word", *rules)  # type: ignore[no-untyped-call]
    at = url.netloc.rpartition("@")[2]
    try:
        with redis_at(urlunsplit(url._replace(netloc=f"limited:word@{at}"))):
            yield
    finally:
        rq.client().acl_deluser("limited")


def test_a_redis_that_tells_nothing_of_itself_is_a_warning() -> None:
    with limited("~*", "&*", "+@all", "-info"):
        assert finding("redis").level == "warning"
        assert finding("redis_commands").level == "ok"
        assert doctor() == 0


def test_a_redis_that_runs_no_scripts_is_an_error() -> None:
    with limited("~*", "&*", "+@all", "-evalsha", "-eval"):
        found = finding("redis_commands")
        assert (found.level, "evalsha" in found.detail) == ("error", True)
        assert doctor() == 1


def test_keys_that_redis_denies_are_an_error() -> None:
    with limited("~others:*", "&*", "+@all"):
        assert finding("redis_commands").level == "error"


def test_the_rehearsal_leaves_nothing_behind() -> None:
    before = set(rq.client().scan_iter("*"))
    assert finding("redis_commands").level == "ok"
    assert not [key for key in set(rq.client().scan_iter("*")) - before if b"probe" in key]


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


def test_workers_of_rq_itself_are_warned_of() -> None:
    assert finding("rq_workers").level == "ok"
    ours = rq.JobsWorker("ours", ["default"], int)
    ours.announce()
    key = "rq:worker:a-stock-one"
    rq.client().hset(key, "queues", "default")
    rq.client().sadd("rq:workers", key, "rq:worker:a-dead-one")
    try:
        found = finding("rq_workers")
        assert (found.level, found.detail) == ("warning", "1 of RQ's own workers: a-stock-one")
    finally:
        rq.client().delete(key)
        rq.client().srem("rq:workers", key, "rq:worker:a-dead-one")
        ours.register_death()  # type: ignore[no-untyped-call]


def test_ids_of_a_copy_of_the_database_are_warned_of() -> None:
    mine = factories.a_job("queued")
    run("INSERT INTO jobs_queue (name) VALUES ('default') ON CONFLICT DO NOTHING")
    rq.client().delete(rq.queue_key("default"))  # what other tests have left there
    rq.push("default", [mine])
    try:
        assert finding("redis_ids").level == "ok"
        rq.push("default", [uuid7()])
        assert finding("redis_ids").detail == "1 are of no job that is here"
        assert finding("redis_ids").level == "warning"
    finally:
        rq.client().delete(rq.queue_key("default"), rq._seq_key("default"))


def test_commits_that_do_not_wait_for_the_disk_are_warned_of() -> None:
    assert finding("durability").level == "ok"
    run("SET LOCAL synchronous_commit = off")
    assert finding("durability").level == "warning"


def test_a_database_that_takes_no_writes_is_an_error() -> None:
    assert finding("writable").level == "ok"
    with transaction.atomic():
        run("SET TRANSACTION READ ONLY")
        assert finding("writable").level == "error"
        transaction.set_rollback(True)


def test_more_connections_than_there_are_is_an_error_that_says_how_many() -> None:
    before = finding("connections")
    assert before.level == "ok", before
    available = int(before.detail.split()[-3])
    leases.open_lease(uuid7(), "tester", ["default"], available)
    leases.open_lease(uuid7(), "tester", ["default"], 8)
    found = finding("connections")
    assert found.level == "error"
    needed = (available + 2) + (8 + 2) + 1
    assert f"workers and dispatchers need {needed}" in found.detail
    others = int(found.detail.split(" others hold ")[1].split(",")[0])
    assert f"by {needed + others - available} or more" in found.remedy


def test_a_pooler_has_connections_of_its_own(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "PREPARE": False}
    monkeypatch.setattr(environment, "_backend_pid", lambda: -1)
    leases.open_lease(uuid7(), "tester", ["default"], 10_000)
    assert finding("connections").level == "ok"
    settings.JOBS = {**settings.JOBS, "PREPARE": True}
    assert "unset JOBS['PREPARE']" in finding("connections").remedy


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


@pytest.mark.parametrize(
    ("constant", "name", "title"),
    [("POSTGRESQL", "postgresql", "PostgreSQL"), ("REDIS", "redis", "Redis")],
)
def test_an_old_server_is_an_error(
    constant: str, name: str, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert finding(name).level == "ok"
    monkeypatch.setattr(versions, constant, (99, 1))
    assert finding(name).level == "error"
    assert finding(name).remedy.startswith(f"{title} ")
    assert finding(name).remedy.endswith("is too old: 99.1 or newer is needed")
