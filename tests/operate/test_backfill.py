"""Older jobs are found by fields that were declared since."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

import jobs
from jobs import registry
from jobs.engine import sql
from jobs.errors import InvalidOption, UnknownKind
from jobs.operate import backfill, search
from tests.jobs.factories import a_job
from tests.specimens.handlers import Noop
from tests.wait import wait_until


class Parcel(jobs.Payload, kind="test.parcel"):
    code: str
    weight: int | None = None


def handle(ctx: jobs.Context, payload: Parcel) -> None:
    """Carries it."""


def declare(*paths: str) -> None:
    if registry.find("test.parcel"):
        registry.unregister("test.parcel")
    jobs.handler(Parcel, searchable=paths)(handle)


@pytest.fixture(autouse=True)
def parcels() -> Iterator[None]:
    declare()
    yield
    registry.unregister("test.parcel")


def found(query: str) -> list[UUID]:
    return [job.pk for job in search.jobs(query, by="test").jobs]


def filled(**options: Any) -> int:
    return sum(portion.filled for portion in backfill.backfill("test.parcel", **options))


@pytest.mark.django_db
def test_older_jobs_are_found_afterwards() -> None:
    old = jobs.enqueue(Parcel(code="A")).id
    jobs.enqueue(Noop())
    declare("code", "weight")
    new = jobs.enqueue(Parcel(code="A")).id
    assert found("payload.code:A") == [new]
    assert filled() == 1
    assert found("payload.code:A") == [new, old]
    assert filled() == 0, "again changes nothing"
    assert sql.rows("SELECT path FROM jobs_search WHERE job_id = %s", [old]) == [("payload.code",)]


@pytest.mark.django_db
def test_it_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "PAGE", 2)
    for _ in range(5):
        jobs.enqueue(Parcel(code="A"))
    declare("code")
    first = next(iter(backfill.backfill("test.parcel")))
    assert (first.looked, first.filled) == (2, 2) and first.before is not None
    assert len(found("payload.code:A")) == 2
    rest = list(backfill.backfill("test.parcel", before=first.before))
    assert (sum(p.filled for p in rest), rest[-1].before) == (3, None)
    assert len(found("payload.code:A")) == 5


@pytest.mark.django_db
def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidOption, match="declares no searchable"):
        filled()
    with pytest.raises(UnknownKind):
        list(backfill.backfill("nobodys.kind"))
    declare("code")
    with pytest.raises(InvalidOption, match="before"):
        filled(before=datetime(2026, 1, 1))


@pytest.mark.django_db(transaction=True)
def test_a_job_that_is_deleted_meanwhile_leaves_nothing() -> None:
    job = a_job("succeeded", Parcel(code="A"))
    declare("code")
    told: list[int] = []

    def fill() -> None:
        try:
            told.append(filled())
        finally:
            connection.close()

    with transaction.atomic():
        sql.rows("SELECT 1 FROM jobs_job WHERE id = %s FOR UPDATE", [job])
        thread = threading.Thread(target=fill)
        thread.start()
        wait_until(lambda: bool(sql.rows("SELECT 1 FROM pg_locks WHERE NOT granted")), timeout=10)
        sql.run("DELETE FROM jobs_job WHERE id = %s", [job])
    thread.join(10)
    assert told == [0] and sql.rows("SELECT 1 FROM jobs_search") == []


@pytest.mark.django_db
def test_the_command_says_where_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backfill, "PAGE", 2)
    for _ in range(3):
        jobs.enqueue(Parcel(code="A"))
    declare("code")
    call_command("jobs", "search-backfill", "test.parcel", "--limit", "1")
    told = capsys.readouterr().out
    assert "Looked at 2 jobs; 2 are found" in told
    place = told.split("--before ")[1].strip()
    call_command("jobs", "search-backfill", "test.parcel", "--before", place, "--json")
    assert json.loads(capsys.readouterr().out) == {"looked": 2, "filled": 1, "before": None}
    with pytest.raises((CommandError, SystemExit)):
        call_command("jobs", "search-backfill", "test.parcel", "--before", "2026-01-01")
