"""Metrics: who may read them, what they tell, what that costs, and the files that name them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from jobs.engine import minutes, sql
from jobs.engine.minutes import Note
from jobs.metrics import numbers, page
from jobs.metrics.declare import declared
from jobs.metrics.names import METRICS
from tests.architecture.sources import DOMAIN_APPS
from tests.jobs.factories import a_claim, a_job, an_executor
from tests.jobs.factories import sql as run
from tests.specimens.handlers import Noop

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "docs" / "monitoring"
TOKEN = "0123456789abcdef"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No page of another test is told."""
    page.forget()
    yield
    page.forget()


def told() -> Samples:
    """Every sample of the page, by its name and labels."""
    page.forget()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.text().decode())
        for sample in family.samples
    }


def at(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


def note(*notes: Note) -> None:
    made = minutes.Recorder()
    made._add(list(notes))


# ---- who may


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "127.8.8.8"])
def test_this_machine_may_read(client: Client, address: str) -> None:
    answer = client.get("/metrics", REMOTE_ADDR=address)
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b"# TYPE jobs_running gauge" in answer.content


@pytest.mark.parametrize(
    "more",
    [
        {"REMOTE_ADDR": "10.0.0.1"},
        {"REMOTE_ADDR": ""},
        {"REMOTE_ADDR": "127.0.0.1.evil.example"},
        {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "10.0.0.1"},
        {"REMOTE_ADDR": "127.0.0.1", "HTTP_FORWARDED": "for=10.0.0.1"},
        {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_PROTO": "https"},
    ],
)
def test_nobody_else_sees_that_there_is_a_page(client: Client, more: dict[str, Any]) -> None:
    assert client.get("/metrics", **more).status_code == 404


@pytest.mark.django_db
@override_settings(JOBS={"METRICS_TOKEN": TOKEN})
def test_a_token_opens_from_anywhere_and_only_the_right_one(client: Client) -> None:
    def status(**more: Any) -> int:
        return client.get("/metrics", **more).status_code

    right = {"HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}
    assert status(REMOTE_ADDR="10.0.0.1", **right) == 200
    assert status(REMOTE_ADDR="127.0.0.1") == 403
    assert status(REMOTE_ADDR="127.0.0.1", HTTP_AUTHORIZATION=TOKEN) == 403
    assert status(HTTP_AUTHORIZATION=f"Bearer {TOKEN}x") == 403
    assert status(HTTP_AUTHORIZATION="Bearer ünicode") == 403


def test_it_is_only_read(client: Client) -> None:
    assert client.post("/metrics").status_code == 405


@pytest.mark.django_db
def test_a_database_that_is_away_is_said(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise OperationalError("gone")

    monkeypatch.setattr(numbers, "read", fail)
    assert client.get("/metrics").status_code == 503


@pytest.mark.django_db
def test_a_missing_extra_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = client.get("/metrics")
    assert (answer.status_code, answer.content) == (501, b"install django-jobdesk[metrics]\n")


def test_the_core_does_not_import_the_extra() -> None:
    lines = (
        "import os, sys",
        "sys.modules['prometheus_client'] = None  # as if it were not installed",
        "import django",
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'",
        "django.setup()",
        "import config.urls, jobs.engine.executor, jobs.metrics.page",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


# ---- what they tell


@pytest.mark.django_db
def test_what_ended_is_counted_since_ever() -> None:
    note(
        Note("k", "q", "succeeded", 0.2),
        Note("k", "slow", "succeeded", 2.0),
        Note("k", "q", "failed", 0.2, buried=True),
        Note("k", "q", "retried", 0.1, stalled=True),
        Note("k", "q", "limited", 0.1),
    )
    found = told()
    assert found[at("jobs_attempts_total", kind="k", queue="q", outcome="succeeded")] == 1
    assert found[at("jobs_retries_total", kind="k", queue="q")] == 1
    assert found[at("jobs_dead_letters_total", kind="k", queue="q")] == 1
    assert found[at("jobs_lease_losses_total", kind="k", queue="q")] == 1
    assert found[at("jobs_rate_limited_total", kind="k", queue="q")] == 1
    done = {"kind": "k", "status": "succeeded"}
    assert found[at("job_duration_seconds_bucket", le="0.25", **done)] == 1
    assert found[at("job_duration_seconds_bucket", le="+Inf", **done)] == 2
    assert found[at("job_duration_seconds_count", **done)] == 2
    assert found[at("job_duration_seconds_sum", **done)] == pytest.approx(2.2)


@pytest.mark.django_db
def test_what_has_not_ended_is_counted_by_its_state() -> None:
    for _ in range(3):
        a_job(queue="mail")
    late = a_job(queue="mail")
    run(
        "UPDATE jobs_job SET run_at = jobs_clock() - interval '1 h', rank = 0 WHERE id = %s", [late]
    )
    a_job(queue="mail", delay=timedelta(hours=1))
    held = a_job(queue="mail")
    run("UPDATE jobs_job SET wait = 2, exclusive_key = 'one' WHERE id = %s", [held])
    a_job("queued", queue="mail")
    an_executor("mail", slots=7)
    a_claim(queue="mail")
    found = told()
    depths = {
        state: found[at("jobs_queue_depth", queue="mail", state=state)]
        for state in ("ready", "scheduled", "held", "queued")
    }
    assert depths == {"ready": 4, "scheduled": 1, "held": 1, "queued": 1}
    assert found[at("jobs_running", queue="mail")] == 1
    assert 3600 <= found[at("jobs_oldest_wait_seconds", queue="mail")] < 3700
    assert at("jobs_dispatch_latency_seconds", queue="mail") in found
    assert at("jobs_claim_latency_seconds", queue="mail") in found
    assert found[at("jobs_slots_live", queue="mail")] == 8
    assert found[at("jobs_workers_live")] == 1


@pytest.mark.django_db
def test_what_is_wrong_is_counted() -> None:
    an_executor()
    run("UPDATE jobs_lease SET until = jobs_clock() - interval '1 s'")
    run(
        "INSERT INTO jobs_outbox (topic, payload, occurred_at) "
        "VALUES ('a.b', '{}', jobs_clock() - interval '5 min')"
    )
    run("INSERT INTO jobs_limiter (scope, closed_until) VALUES ('kind:k', '9000-01-01')")
    run(
        "INSERT INTO jobs_feed_head (id, position) VALUES (1, 42) "  # a flush may have taken it
        "ON CONFLICT (id) DO UPDATE SET position = 42"
    )
    found = told()
    assert found[at("jobs_leases_lapsed")] == 1
    assert found[at("jobs_workers_live")] == 0
    assert found[at("jobs_limits_closed")] == 1
    [(waiting,)] = run("SELECT count(*) FROM jobs_outbox")
    assert found[at("jobs_outbox_pending")] == waiting >= 1
    assert found[at("jobs_outbox_stuck")] == 0
    assert 300 <= found[at("jobs_outbox_lag_seconds")] < 400
    assert found[at("jobs_feed_position")] == 42


@pytest.mark.django_db
def test_depths_end_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "MOST", 2)
    for _ in range(3):
        a_job(queue="mail")
    run("INSERT INTO jobs_queue (name) VALUES ('mail')")
    assert told()[at("jobs_queue_depth", queue="mail", state="ready")] == 2


# ---- what it costs


@pytest.mark.django_db
def test_readers_in_a_row_ask_the_database_once(client: Client) -> None:
    client.get("/metrics")
    with CaptureQueriesContext(connection) as queries:
        client.get("/metrics")
    assert len(queries) == 0


@pytest.mark.django_db
def test_no_query_reads_all_jobs_or_all_that_ended() -> None:
    note(Note("k", "q", "succeeded", 0.2))
    with CaptureQueriesContext(connection) as asked:
        page.text()
    queries = [query for query in asked if "jobs_" in query["sql"]]  # apps ask about their rows
    assert 4 <= len(queries) <= 10
    run("SET LOCAL enable_seqscan = off")
    for query in queries:
        plan = "\n".join(row[0] for row in sql.rows("EXPLAIN " + query["sql"].replace("%", "%%")))
        for table in ("jobs_job", "jobs_minute", "jobs_outbox", "jobs_deadletter"):
            assert f"Seq Scan on {table}" not in plan, plan
        assert "jobs_job_finished" not in plan and "jobs_job_pkey" not in plan, plan


# ---- the files that name them

ALL = {name for metric in METRICS for name in metric.series}
NAME = re.compile(rf"\b(?:jobs?|{'|'.join(DOMAIN_APPS)})_[a-z_]+\b")


def expressions(file: str) -> list[str]:
    """The platform's own; those of an app are in a group named as it."""
    text = (FILES / file).read_text().partition("\n  - name: emailgw\n")[0]
    if file.endswith(".json"):
        board = json.loads(text)
        asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        return asked + [one["query"]["query"] for one in board["templating"]["list"][1:]]
    return re.findall(r"expr: (?:>-\n)?((?:.+\n)(?: {10}.+\n)*)", text)


@pytest.mark.parametrize("file", ["grafana.json", "alerts.yml"])
def test_every_metric_that_a_file_names_exists(file: str) -> None:
    found = expressions(file)
    assert len(found) >= 7
    for expression in found:
        named = set(NAME.findall(expression))
        assert named and named <= ALL | {metric.name for metric in declared()}, expression


def test_every_alert_that_was_asked_for_is_there() -> None:
    asked = " ".join(" ".join(expressions("alerts.yml")).split())
    for part in (
        "sum(increase(jobs_dead_letters_total[1h])) > 10",
        "jobs_lease_losses_total[15m]",
        "> 0.05",
        "jobs_oldest_wait_seconds) >",
        "jobs_outbox_lag_seconds >",
    ):
        assert part in asked


def test_every_label_of_a_selector_is_one_of_its_metric() -> None:
    labels = {name: set(metric.labels) for metric in METRICS for name in metric.series}
    for expression in expressions("grafana.json") + expressions("alerts.yml"):
        for name, inner in re.findall(r"(jobs?_[a-z_]+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)=~?\"", inner)) <= labels[name], expression


@pytest.mark.django_db
def test_every_metric_is_documented_and_told_and_on_the_dashboard() -> None:
    rows = re.findall(
        r"^\| `(jobs?_\w+)` \| (\w+) \| (.+?) \| (.+?) \|$",
        (ROOT / "docs" / "monitoring.md").read_text(),
        re.MULTILINE,
    )
    assert rows == [(m.name, m.type, ", ".join(m.labels) or "—", m.help) for m in METRICS]
    page_text = page.text().decode()
    for metric in METRICS:
        assert f"# TYPE {metric.name} {metric.type}\n" in page_text
    asked = set(NAME.findall(" ".join(expressions("grafana.json"))))
    assert {m.name for m in METRICS if asked & set(m.series)} == {m.name for m in METRICS}


@pytest.mark.django_db
def test_the_page_names_no_person_and_no_payload() -> None:
    a_job(payload=Noop(), tenant="acme", queue="mail")
    assert b"acme" not in page.text()
