"""The list of jobs as a file."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

import jobs
from jobs.models import Audit, Job
from jobs.operate import exports
from jobs.principals import ALL, Principal, Scope
from tests.specimens.handlers import Echo, Noop

pytestmark = pytest.mark.django_db


def post(client: Client, **given: Any) -> Any:
    return client.post("/admin/jobs/job/do/export/", {"reason": "for the report", **given})


def test_a_query_becomes_a_file_and_is_written_down(admin_client: Client) -> None:
    made = [jobs.enqueue(Echo(text="s3cret"), tags=["weekly", "x"]).id for _ in range(3)]
    jobs.enqueue(Noop())
    answer = post(admin_client, format="csv", query="kind:test.echo")
    assert answer["Content-Disposition"] == 'attachment; filename="jobs.csv"'
    text = b"".join(answer.streaming_content).decode()
    rows = list(csv.DictReader(text.splitlines()))
    assert [row["id"] for row in rows] == [str(one) for one in reversed(made)]
    assert rows[0]["tags"] == "weekly x" and "s3cret" not in text
    lines = post(admin_client, format="jsonl", query="kind:test.echo").streaming_content
    assert [json.loads(line)["kind"] for line in lines] == ["test.echo"] * 3
    acts = Audit.objects.filter(action="job.export", outcome="done", reason="for the report")
    assert [a.detail["query"] for a in acts] == ["kind:test.echo"] * 2


def test_what_a_spreadsheet_would_calculate_stays_text(admin_client: Client) -> None:
    made = jobs.enqueue(Noop(), tags=["x;=cmd|' /C calc'!A0;y"]).id
    Job.objects.filter(pk=made).update(error="=HYPERLINK(1)\n-2\t@SUM(1);＋3")  # noqa: RUF001
    text = b"".join(post(admin_client, format="csv").streaming_content).decode()
    assert "'=HYPERLINK(1)\n'-2\t'@SUM(1);'＋3" in text  # noqa: RUF001
    assert "x;'=cmd|' /C calc'!A0;y" in text


def test_it_is_capped_and_keeps_to_the_scope() -> None:
    for n in range(5):
        jobs.enqueue(Noop(), tenant=f"t{n % 2}")
    assert len(list(exports.export("", by="ada", reason="x", limit=3))) == 3
    who = Principal("ana", "api", ALL, Scope(tenants=frozenset({"t1"})))
    assert [row[4] for row in exports.export("", by=who, reason="x")] == ["t1", "t1"]


def test_pages_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [jobs.enqueue(Noop()).id for _ in range(5)]
    monkeypatch.setattr(exports, "PAGE", 2)
    assert [row[0] for row in exports.export("", by="ada", reason="x")] == made[::-1]


def test_a_wrong_query_and_a_missing_permission_are_refused(client: Client) -> None:
    user = User.objects.create_user("vic", is_staff=True)
    user.user_permissions.add(
        Permission.objects.get(content_type__app_label="jobs", codename="view_job")
    )
    client.force_login(user)
    assert post(client, format="csv").status_code == 403
    user.user_permissions.add(
        Permission.objects.get(content_type__app_label="jobs", codename="run_bulk")
    )
    client.force_login(User.objects.get(pk=user.pk))
    answer = post(client, format="csv", query="knd:x")
    assert answer.status_code == 422 and "knd" in answer.content.decode()
