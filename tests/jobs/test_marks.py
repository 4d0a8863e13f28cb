"""The mark of a database: the same in all its processes, and another in every other database."""

from __future__ import annotations

import re
import time

import pytest
from django.db import ProgrammingError, connection

from jobs.engine import marks, rq, sql
from jobs.engine.executor import Executor
from jobs.engine.reconcile import Reconciler

pytestmark = pytest.mark.django_db


def test_every_key_of_a_database_has_its_mark() -> None:
    mark = marks.mark()
    assert re.fullmatch("[0-9a-f]{12}", mark)
    keys = [rq.queue_key("q"), rq._seq_key("q"), rq._open_key("q"), rq.nudge_key()]
    assert {key.split(":")[1] for key in [*keys, rq.dispatchers_key()]} == {mark}
    assert marks.ask(sql.rows) == mark


def test_it_is_asked_for_once(django_assert_num_queries: type) -> None:
    marks.mark()
    with django_assert_num_queries(0):
        marks.mark()


def test_tables_in_another_schema_are_another_projects() -> None:
    mark = marks.mark()
    sql.run("CREATE SCHEMA others")
    sql.run("CREATE TABLE others.jobs_job ()")
    sql.run("SET LOCAL search_path = others")
    assert marks.ask(sql.rows) != mark


def test_a_role_that_may_not_ask_the_server_has_a_mark_too() -> None:
    def rows(query: str) -> list[sql.Row]:
        assert "FROM pg_control_system" not in query
        return [(False,)] if query == marks._MAY_ASK else sql.rows(query)

    assert marks.ask(rows) not in ("", marks.mark())


def test_without_tables_there_is_none() -> None:
    sql.run("ALTER TABLE jobs_job RENAME TO elsewhere")
    with pytest.raises(ProgrammingError, match="jobs_job"):
        marks.ask(sql.rows)


def test_a_database_that_has_moved_gets_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "_known", dict(marks._known))
    monkeypatch.setattr(marks, "ask", lambda _: "moved")
    assert marks.refresh() == "moved"
    assert rq.queue_key("q") == "jobs:moved:queue:q"
    monkeypatch.setitem(connection.settings_dict, "NAME", "another")
    monkeypatch.setattr(marks, "ask", lambda _: "another")
    assert marks.mark() == "another"


def test_dispatchers_and_executors_notice_that_it_has_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(marks, "_known", dict(marks._known))
    monkeypatch.setattr(marks, "ask", lambda _: "moved")
    Reconciler("r").round([])
    assert marks.mark() == "moved"
    monkeypatch.setattr(marks, "ask", lambda _: "moved again")
    executor = Executor.__new__(Executor)
    executor._marked_at = time.monotonic()
    executor._refresh_mark()
    assert marks.mark() == "moved"
    executor._marked_at -= marks.REFRESH_INTERVAL
    executor._refresh_mark()
    assert marks.mark() == "moved again"
