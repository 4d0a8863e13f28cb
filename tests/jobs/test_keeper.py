"""The keeper: what it has heard is told once it can be, and it says so once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import DataError, OperationalError, ProgrammingError
from psycopg import errors

from jobs.engine import leases, roll
from jobs.engine import sql as engine_sql
from jobs.engine.board import Board
from jobs.engine.executor import Plan
from jobs.engine.keeper import Death, Keeper
from jobs.ids import uuid7
from tests.jobs.factories import WORKER


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    monkeypatch.setattr(engine_sql, "close", lambda: None)
    reading, writing = os.pipe()
    yield Keeper(Board(1, 1), reading, Plan(WORKER, (("default", 1),), 1), None)
    os.close(reading)
    os.close(writing)


def failing(error: Exception, cause: Exception) -> Any:
    error.__cause__ = cause

    def fail(*_: object) -> None:
        raise error

    return fail


LOCKED = (OperationalError("canceling statement due to lock timeout"), errors.LockNotAvailable())


def test_a_death_is_told_once_it_can_be(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    deaths = [Death(uuid7(), "crashed", {}) for _ in range(2)]
    keeper._deaths = list(deaths)
    monkeypatch.setattr(leases, "bury", failing(*LOCKED))
    keeper._database(keeper._report_deaths)
    assert keeper._deaths == deaths
    buried: list[object] = []
    monkeypatch.setattr(leases, "bury", lambda owner, *_: buried.append(owner))
    keeper._database(keeper._report_deaths)
    assert buried == [death.owner for death in deaths] and not keeper._deaths


def test_a_death_that_is_refused_is_left_to_the_reaper(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper._deaths = [Death(uuid7(), "crashed", {})]
    refused = failing(DataError("invalid"), errors.UntranslatableCharacter())
    monkeypatch.setattr(leases, "bury", refused)
    keeper._database(keeper._report_deaths)
    assert not keeper._deaths


def test_a_database_without_tables_is_one_line_that_says_what_to_do(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    error = ProgrammingError('relation "jobs_worker" does not exist')
    tries: list[int] = []
    fail = failing(error, errors.UndefinedTable())

    def announce(*_: object) -> None:
        tries.append(1)
        fail()

    monkeypatch.setattr(roll, "announce", announce)
    for _ in range(100):
        keeper._database(keeper._announce)
    assert len(tries) < 50, "it does not try all the time"
    [told] = [r.getMessage() for r in caplog.records]
    assert "manage.py migrate" in told and "Traceback" not in caplog.text
