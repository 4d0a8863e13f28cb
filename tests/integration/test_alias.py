"""Jobs on a database alias of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.integration.fleet import Fleet

ENV = {"DJANGO_SETTINGS_MODULE": "tests.alias_settings", "ALIAS_DATABASE": "second"}
ENQUEUE = """
import jobs
from tests.specimens.handlers import Echo, Fail, Noop
with transaction.atomic(using="queue"):
    jobs.enqueue(Noop())
    jobs.enqueue(Fail())
    jobs.enqueue_many([Echo(text="a"), Echo(text="b")])
"""


@pytest.fixture
def second(fleet: Fleet) -> Iterator[str]:
    """The URL of a second, empty database; the first has no tables of jobs in this test's eyes."""
    fleet.query("CREATE DATABASE second")
    yield urlsplit(fleet.postgres.url)._replace(path="/second").geturl()
    fleet.end_programs()
    fleet.query("DROP DATABASE second WITH (FORCE)")


def run(fleet: Fleet, *arguments: str) -> str:
    program = fleet.manage("alias", *arguments, env=ENV)
    code = program.ended(120)
    logged = program.logged()
    program.log.unlink()
    assert code == 0, logged
    return logged


def test_everything_works_on_a_second_alias(fleet: Fleet, second: str) -> None:
    run(fleet, "check")
    run(fleet, "migrate", "--database=queue", "--verbosity=0")
    run(fleet, "shell", "-v0", "-c", f"from django.db import transaction\n{ENQUEUE}")
    run(fleet, "jobs", "worker", "--burst", "--processes=1")
    with psycopg.connect(second) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchall()
        states = connection.execute(
            "SELECT kind, state, failures FROM jobs_job ORDER BY created_at, id"
        ).fetchall()
    assert states[0] == ("test.noop", "succeeded", 0)
    assert states[1][0] == "test.fail" and states[1][2] >= 1
    assert [state for _, state, _ in states[2:]] == ["succeeded", "succeeded"]
    assert ("jobs_job",) in tables
    assert fleet.value("SELECT count(*) FROM jobs_job") == 0
    report = json.loads(run(fleet, "jobs", "doctor", "--json"))
    assert report["violations"] == []
