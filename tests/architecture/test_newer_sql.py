"""All SQL runs on the oldest PostgreSQL that is supported, also where no test has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.newer_sql import newer_sql, texts
from tests.architecture.sources import ROOT

PACKAGES = ("jobs", "emailgw", "trading", "config", "benchmarks", "tests")


def test_no_statement_needs_a_newer_server() -> None:
    found = newer_sql(ROOT, *PACKAGES)
    assert [place for place in found if not place.startswith(__file__)] == []


def test_the_statements_are_found() -> None:
    claims = [text for _, text in texts(ROOT / "jobs/engine/claims.py")]
    assert any("INSERT INTO jobs_attempt" in text for text in claims)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0x6c696e65))",
        "SELECT * FROM a WHERE b > 1_000",
        "CREATE UNIQUE INDEX i ON t (a) NULLS NOT DISTINCT",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "SELECT any_value(a) FROM t",
        "SELECT * FROM t WHERE regexp_like(a, 'x')",
        "SELECT count(*) FROM (SELECT 1 FROM t LIMIT 5)",
        "SELECT * FROM t JOIN (SELECT (1) AS n) ON t.n = n",
        "SELECT * FROM t WHERE a IS JSON",
        "UPDATE t SET a = 1 RETURNING old.a",
    ],
)
def test_newer_syntax_is_found(tmp_path: Path, statement: str) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "module.py").write_text(f"QUERY = {statement!r}\n")
    assert len(newer_sql(tmp_path, "app")) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT x'6A6F'::bigint, '0x10', count(*) FROM (SELECT 1 AS a_1_2) AS s -- 0x10",
        "SELECT * FROM (SELECT (1)) s JOIN LATERAL (SELECT 2) t ON true",
        "UPDATE t SET a = 1 WHERE b IN (SELECT 1) RETURNING t.a",
    ],
)
def test_older_syntax_is_left_alone(tmp_path: Path, statement: str) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "module.py").write_text(f"QUERY = {statement!r}\n")
    assert newer_sql(tmp_path, "app") == []
