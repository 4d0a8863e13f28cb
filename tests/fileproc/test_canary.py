"""Text and names of documents stay in their tables."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest
from django.db import connection

from jobs.testing import emitted
from tests.fileproc.caller import user
from tests.fileproc.conftest import process

pytestmark = pytest.mark.django_db
CANARY = "zanzibarcanary"
HOMES = {
    "fileproc_content", "fileproc_chunk", "fileproc_file",
}  # fmt: skip
"""Tables whose rows hold texts and names."""


def test_a_canary_reaches_no_event_log_job_or_error(caplog: Any, capfd: Any) -> None:
    caplog.set_level(logging.DEBUG)
    ana = user("ana")
    ana.upload(f"{CANARY}.md", f"# {CANARY}\n\nThe {CANARY} sings.".encode())
    ana.upload(f"{CANARY}.pdf", f"%PDF-1.4 {CANARY}".encode())
    ana.upload(f"{CANARY}.json", f'{{"{CANARY}": '.encode())
    process()
    found = ana("POST", "/search", {"q": CANARY})
    assert len(found.data["hits"]) == 1
    sys.stdout.flush()
    assert CANARY not in caplog.text
    assert CANARY not in "".join(capfd.readouterr())
    assert CANARY not in str([event.payload for event in emitted("*")])
    assert {table for table in tables() if holds(table)} <= HOMES


def tables() -> list[str]:
    with connection.cursor() as cursor:
        return list(connection.introspection.table_names(cursor))


def holds(table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            f'SELECT count(*) FROM "{table}" t WHERE t::text LIKE %s',  # noqa: S608
            [f"%{CANARY}%"],
        )
        return bool(cursor.fetchone()[0])


def test_a_refusal_quotes_nothing() -> None:
    ana = user("ana")
    for body in ({"fileCount": CANARY}, {"files": [{"fileName": CANARY, "sizeBytes": 1}]}):
        answer = ana("POST", "/batches", body)
        assert answer.status_code >= 400 and CANARY not in answer.content.decode()
