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
    "SELECT json_build_object('id', $1::uuid, 'at', $2::timestamptz, 'names', $3::text[], "
    "'n', $4::int, 'yes', $5::boolean, 'none', $6::text)",
)


@pytest.mark.parametrize("prepare", [False, True])
def test_values_go_there_and_come_back(settings: Any, prepare: bool) -> None:
    settings.JOBS = {**settings.JOBS, "PREPARE": prepare}
    number, at = uuid4(), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    names = ['a"b', "c\\d", "e,{f}", "", "ü"]
    for _ in range(3):
        with transaction.atomic():
            [found] = ECHO.rows([number, at, names, 7, True, None])
        assert datetime.fromisoformat(found.pop("at")) == at
        assert found == {"id": str(number), "names": names, "n": 7, "yes": True, "none": None}


def test_it_belongs_to_the_transaction() -> None:
    made = Statement(
        "test_made",
        "INSERT INTO jobs_apikey (name, prefix, secret_hash, permissions) "
        "SELECT $1, $2, '', '{}' RETURNING to_json(name)",
    )
    with pytest.raises(RuntimeError), transaction.atomic():
        assert made.rows(["one", "p1"]) == ["one"]
        raise RuntimeError
    assert not ApiKey.objects.exists()
    assert made.rows(["two", "p2"]) == ["two"]
    with pytest.raises(IntegrityError):
        made.rows(["three", "p2"])
    assert list(ApiKey.objects.values_list("name", flat=True)) == ["two"]
    assert Statement("test_none", "DELETE FROM jobs_apikey").rows() == []


def test_what_postgresql_would_not_take_is_refused_before() -> None:
    text = Statement("test_text", "SELECT to_json($1::text)")
    with pytest.raises(ValueError, match="NUL"):
        text.rows(["a\0b"])
    with pytest.raises(TypeError, match="not"):
        text.rows([{"a": 1}])  # type: ignore[list-item]
    with pytest.raises(DataError):
        Statement("test_number", "SELECT to_json($1::int)").rows(["x"])
    assert text.rows(["$2 %s '"]) == ["$2 %s '"]


def test_logs_see_the_text_and_no_value() -> None:
    with CaptureQueriesContext(connection) as seen:
        Statement("test_seen", "SELECT to_json($1::text)").rows(["secret"])
    assert [query["sql"] for query in seen.captured_queries] == ["SELECT to_json($1::text)"]


def test_an_insert_has_the_columns_of_its_model() -> None:
    columns = Columns(ApiKey)
    assert '"created_at"' not in columns.names and '"prefix"' in columns.names
    text = f"INSERT INTO jobs_apikey ({columns.names}) SELECT {columns.holes(1)}"
    statement = Statement("test_insert", text)
    row = ApiKey(name="n", prefix="p", secret_hash="h", permissions=["view_job"], tenants=None)
    values = columns.values(row)
    assert len(values) == len(columns)
    statement.rows(values)
    found = ApiKey.objects.get()
    assert (found.name, found.permissions, found.tenants) == ("n", ["view_job"], None)
    assert found.created_at is not None
