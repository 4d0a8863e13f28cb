"""Input that is wrong in every way: told so, never a fault of ours, and nothing is written."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

import jobs
from jobs.models import Job
from tests.api import world
from tests.api.conftest import Caller
from tests.jobs import factories
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
COLUMNS = [field.name for field in Job._meta.get_fields() if hasattr(field, "attname")]
KNOWN = {"kind", "payload", "id", "queue", "priority", "run_at", "expires_at", "max_attempts",
         "tenant", "tags", "correlation_id", "batch"}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*COLUMNS, "is_staff", "tenant_id", "idem_key"} - KNOWN))
def test_a_body_sets_no_column_that_it_does_not_know(root: Caller, name: str) -> None:
    response = root("POST", "/jobs", {"kind": "test.noop", name: 1})
    assert response.status_code == 422, response.data
    assert response.data["errors"][0]["pointer"] == f"/{name}"
    assert not Job.objects.exists()


RAW: dict[str, tuple[bytes, int]] = {
    "no JSON": (b"{", 400),
    "no UTF-8": (b'{"kind": "\xff"}', 400),
    "a deep list": (b"[" * 20_000, 400),
    "a list too deep to be parsed": (b"[" * 100_000, 413),
    "a deep object": (b'{"payload":' + b'{"a":' * 50 + b"1" + b"}" * 51, 400),
    "too much": (b'{"kind": "' + b"x" * 1_100_000 + b'"}', 413),
    "NUL": (b'{"kind": "test.noop", "payload": {"data": "\\u0000"}}', 422),
    "NUL in a key": (b'{"kind": "test.noop", "payload": {"\\u0000": 1}}', 422),
    "a lone surrogate": (b'{"kind": "test.noop", "payload": {"data": "\\ud800"}}', 422),
    "NaN": (b'{"kind": "test.noop", "payload": {"data": NaN}}', 422),
    "Infinity": (b'{"kind": "test.noop", "priority": Infinity}', 422),
    "1e400": (b'{"kind": "test.noop", "priority": 1e400}', 422),
    "10^5000": (b'{"kind": "test.noop", "priority": 1' + b"0" * 5000 + b"}", 400),
    "10^30": (b'{"kind": "test.noop", "priority": 1' + b"0" * 30 + b"}", 422),
    "the year 0": (b'{"kind": "test.noop", "run_at": "0000-01-01T00:00:00Z"}', 422),
    "the year 10000": (b'{"kind": "test.noop", "run_at": "10000-01-01T00:00:00Z"}', 422),
    "the year 9999": (b'{"kind": "test.noop", "run_at": "9999-12-31T23:59:59Z"}', 422),
    "no time zone": (b'{"kind": "test.noop", "run_at": "2026-01-01T00:00:00"}', 422),
    "an odd zone": (b'{"kind": "test.noop", "run_at": "2026-01-01T00:00:00+00:00:60"}', 422),
    "a key twice": (b'{"kind": "test.noop", "kind": "test.noop"}', 422),
    "a list": (b"[]", 422),
    "null": (b"null", 422),
    "nothing": (b"", 422),
    "an unknown kind": (b'{"kind": "no.such"}', 404),
    "a wrong payload": (b'{"kind": "test.echo", "payload": {"text": 5}}', 422),
    "too many tags": (b'{"kind": "test.noop", "tags": [' + b'"a",' * 99 + b'"a"]}', 422),
    "a long tag": (b'{"kind": "test.noop", "tags": ["' + b"a" * 5000 + b'"]}', 422),
    "a bad queue": (b'{"kind": "test.noop", "queue": "a b"}', 422),
}


@pytest.mark.parametrize("name", RAW)
def test_a_bad_body_is_refused(root: Caller, name: str) -> None:
    body, status = RAW[name]
    response = root("POST", "/jobs", body)
    assert response.status_code == status, response.data
    assert response["Content-Type"] == "application/problem+json"
    assert not Job.objects.exists()


def test_more_than_a_thousand_are_refused(root: Caller) -> None:
    many = [{"kind": "test.noop"}] * 1001
    assert root("POST", "/jobs/batch", {"jobs": many}).status_code == 422
    ids = [f"00000000-0000-7000-8000-{n:012}" for n in range(1001)]
    body = {"action": "cancel", "ids": ids, "reason": "a test"}
    assert root("POST", "/bulk-operations", body).status_code == 422
    assert not Job.objects.exists()


def test_one_wrong_job_of_many_refuses_all(root: Caller) -> None:
    body = {"jobs": [{"kind": "test.noop"}, {"kind": "test.echo", "payload": {"text": 1}}]}
    assert root("POST", "/jobs/batch", body).status_code == 422
    assert not Job.objects.exists()


NASTY = [
    "'; DROP TABLE jobs_job; --", "%s", "%(a)s", "\\", "$$", "{}", "a" * 1001, "\x00", "\ud800",
    "created>10000-01-01", "created>now()", "attempts>99999999999999999999", "payload.a'b:1",
    "payload.a.b.c.d.e.f.g.h:1", 'state:"', "-", ":", "a:b", "id:x", "state:nope",
    "created<-99999999999d", "runtime>1e400s",
]  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize(
    "parameter",
    ["/jobs?query=", "/jobs?cursor=", "/jobs?limit=", "/jobs?include=", "/jobs?order=",
     "/dead-letters?fingerprint=", "/dead-letters?state=", "/audit?actor=", "/audit?target_id=",
     "/stats/throughput?since=", "/queues/", "/kinds/", "/schedules/", "/jobs/", "/outbox/"],
)  # fmt: skip
def test_nasty_text_is_data_or_refused(root: Caller, parameter: str, text: str) -> None:
    jobs.enqueue(Noop())
    response = root("GET", parameter + quote(text.encode("utf-8", "surrogatepass")))
    assert response.status_code < 500, response.data
    assert factories.sql("SELECT count(*) FROM jobs_job") == [(1,)]


@pytest.mark.parametrize("text", ["\x00", "a\u2028b", "x" * 600, "   "])
def test_a_reason_that_cannot_be_kept_is_refused(root: Caller, text: str) -> None:
    job = factories.a_job("failed")
    response = root("POST", "/queues/default/pause", {"reason": text})
    assert response.status_code == 422
    assert factories.sql("SELECT 1 FROM jobs_pause") == []
    assert factories.state(job) == "failed"


@pytest.mark.parametrize("cron", ["* * * * * *", "@yearly", "0 0 30 2 *", "*/0 * * * *", "1" * 201])
def test_a_rule_of_the_clock_that_cannot_be_is_refused(root: Caller, cron: str) -> None:
    body = {"name": "n", "kind": "test.noop", "cron": cron, "reason": "a test"}
    assert root("POST", "/schedules", body).status_code == 422
    assert factories.sql("SELECT 1 FROM jobs_schedule WHERE name = 'n'") == []


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/nowhere", "/nowhere/%0A", "/webhooks/%0A1", "/emails/%0A/x"])
def test_an_unknown_path_is_a_problem(root: Caller, method: str, path: str) -> None:
    response = root(method, path)
    assert response.status_code == 404
    assert response.headers["Content-Type"] == "application/problem+json"


def test_a_fault_of_ours_tells_nothing(root: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    import jobs.api.jobs as module

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("SELECT secret FROM /etc/passwd")

    monkeypatch.setattr(module, "explain_to", broken)
    response = root("GET", f"/jobs/{factories.a_job()}/explain")
    assert response.status_code == 500
    assert response.data["code"] == "internal"
    assert b"secret" not in response.content and b"Traceback" not in response.content


def test_the_world_of_the_tests_is_whole(root: Caller) -> None:
    theirs = world.made()
    assert all(theirs.values())
