"""Statements of an app's own: one round trip, answers in JSON, Django's errors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django.db import DataError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from jobs.models import ApiKey
from jobs.statements import Columns, Statement

pytestmark = pytest.mark.django_db(transaction=True)
ECHO = Statement(
    "test_echo",
    "SELECT json_build_object('id', %(id)s::uuid, 'at', %(at)s::timestamptz, "
    "'names', %(names)s::text[], 'n', %(n)s::int, 'yes', %(yes)s::boolean, 'none', %(none)s::text)",
)


@pytest.mark.parametrize("prepare", [False, True])
def test_values_go_there_and_come_back(settings: Any, prepare: bool) -> None:
    settings.JOBS = {**settings.JOBS, "PREPARE": prepare}
    number, at = uuid4(), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    names = ['a"b', "c\\d", "e,{f}", "", "ü"]
    for _ in range(3):
        with transaction.atomic():
            [found] = ECHO.rows(
                {"none": None, "yes": True, "n": 7, "names": names, "at": at, "id": number}
            )
        assert datetime.fromisoformat(found.pop("at")) == at
        assert found == {"id": str(number), "names": names, "n": 7, "yes": True, "none": None}


def test_it_belongs_to_the_transaction() -> None:
    made = Statement(
        "test_made",
        "INSERT INTO jobs_apikey (name, prefix, secret_hash, permissions) "
        "SELECT %(name)s, %(prefix)s, '', '{}' RETURNING to_json(name)",
    )
    with pytest.raises(RuntimeError), transaction.atomic():
        assert made.rows({"name": "one", "prefix": "p1"}) == ["one"]
        raise RuntimeError
    assert not ApiKey.objects.exists()
    assert made.rows({"name": "two", "prefix": "p2"}) == ["two"]
    with pytest.raises(IntegrityError):
        made.rows({"name": "three", "prefix": "p2"})
    assert list(ApiKey.objects.values_list("name", flat=True)) == ["two"]
    assert Statement("test_none", "DELETE FROM jobs_apikey").rows() == []


def test_what_postgresql_would_not_take_is_refused_before() -> None:
    text = Statement("test_text", "SELECT to_json(%(x)s::text)")
    with pytest.raises(ValueError, match="NUL"):
        text.rows({"x": "a\0b"})
    with pytest.raises(TypeError, match="not"):
        text.rows({"x": {"a": 1}})  # type: ignore[dict-item]
    with pytest.raises(KeyError, match="x"):
        text.rows({"y": "a"})
    with pytest.raises(DataError):
        Statement("test_number", "SELECT to_json(%(x)s::int)").rows({"x": "x"})
    assert text.rows({"x": "$2 %s %(x)s '"}) == ["$2 %s %(x)s '"]


def test_a_parameter_is_bound_as_often_as_it_is_named() -> None:
    text = "SELECT to_json(%(b)s::text || %(a)s || %(b)s) WHERE 'a%' LIKE 'a%' AND 7 %3 = 1"
    assert Statement("test_twice", text).rows({"a": "1", "b": "2"}) == ["212"]


def test_logs_see_the_text_and_no_value() -> None:
    with CaptureQueriesContext(connection) as seen:
        Statement("test_seen", "SELECT to_json(%(x)s::text)").rows({"x": "secret"})
    assert [query["sql"] for query in seen.captured_queries] == ["SELECT to_json($1::text)"]


def test_an_insert_has_the_columns_of_its_model() -> None:
    columns = Columns(ApiKey, prefix="key")
    assert '"created_at"' not in columns.names and '"prefix"' in columns.names
    text = f"INSERT INTO jobs_apikey ({columns.names}) SELECT {columns.parameters}"
    statement = Statement("test_insert", text)
    row = ApiKey(name="n", prefix="p", secret_hash="h", permissions=["view_job"], tenants=None)
    assert columns.values(None) == dict.fromkeys(statement.parameters)
    statement.rows(columns.values(row))
    found = ApiKey.objects.get()
    assert (found.name, found.permissions, found.tenants) == ("n", ["view_job"], None)
    assert found.created_at is not None
