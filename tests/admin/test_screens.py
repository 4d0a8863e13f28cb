"""Every screen, as a server answers it."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.signing import TimestampSigner
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.models import Audit, Job
from jobs.testing import freeze_clock
from tests.admin.screens import NAMES, screens

pytestmark = pytest.mark.django_db


QUERIES = {
    **{"overview": 20, "jobs": 12, "jobs-failed": 13, "jobs-none": 14, "jobs-wrong": 10},
    **{"job-long": 15, "batch-done": 7, "bulk-done": 5, "bulk-aborted": 5, "bulk-edit": 8},
    **{"letters-cause": 4, "key": 5, "webhook": 6, "delivery": 5, "delivery-again": 4},
    **{"webhook-stopped": 6, "limit": 4, "breaker": 4, "effect": 4, "meter": 4},
    **{"job-failed": 15, "job-running": 15, "job-scheduled": 16, "letter": 18},
    **{"bulk-confirm": 8, "bulk": 12, "letters": 8, "batch": 7, "queues": 11, "queue": 16},
    **{"workers": 5, "worker": 5, "worker-stop": 4, "schedule": 7, "blackouts": 5, "outbox": 7},
    **{"event": 4, "keys": 4, "bulk-sure": 8},
}
"""Most queries of a screen, with the two that ask who it is; of the others three."""


@pytest.fixture
def root(ids: dict[str, Any], client: Client) -> Client:
    client.force_login(User.objects.get(username="root"))
    return client


@pytest.mark.parametrize("name", NAMES)
def test_a_screen_answers_with_few_bounded_queries(
    root: Client, ids: dict[str, Any], name: str
) -> None:
    url = f"/admin/jobs/{screens(ids)[name]}"
    root.get(url)
    with CaptureQueriesContext(connection) as queries:
        answer = root.get(url)
    text = answer.content.decode()
    assert answer.status_code == 200
    assert len(queries) <= QUERIES.get(name, 3), "\n".join(q["sql"][:150] for q in queries)
    assert 'class="jd"' in text and text.count("<h1>") == 1
    assert not re.search(r"<[^>]+\sstyle=|<style|<script(?![^>]*\ssrc=)|\son\w+=", text)
    for query in queries:
        if "jobs_job" in query["sql"] and "count(" in query["sql"].lower():
            assert "LIMIT" in query["sql"] or "batch_id" in query["sql"], query["sql"]


@pytest.mark.parametrize("name", NAMES)
def test_a_fragment_is_the_same_until_something_changes(
    root: Client, ids: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"/admin/jobs/{screens(ids)[name]}"
    seconds = map(str, itertools.count(1_000_000))
    monkeypatch.setattr(TimestampSigner, "timestamp", lambda signer: next(seconds))
    regions = re.findall(r'id="(jd-\w+)" data-jd-live', root.get(url).content.decode())
    with freeze_clock():
        same_again(root, url, regions)


def same_again(root: Client, url: str, regions: list[str]) -> None:
    for region in regions:
        join = "&" if "?" in url else "?"
        first = root.get(f"{url}{join}_fragment={region}")
        assert first.status_code == 200 and b"csrfmiddlewaretoken" not in first.content
        again = root.get(f"{url}{join}_fragment={region}", headers={"If-None-Match": first["ETag"]})
        assert again.status_code == 304


def test_who_may_only_view_can_post_nothing(root: Client, ids: dict[str, Any]) -> None:
    posts = set()
    for path in screens(ids).values():
        text = root.get(f"/admin/jobs/{path}").content.decode()
        posts |= set(re.findall(r'href="(/admin/jobs/[^"?]*/do/[^"?]*/)', text))
    posts |= {f"/admin/jobs/{p}" for p in screens(ids).values() if "/do/" in p}
    assert len(posts) > 30
    viewer = User.objects.get(username="viewer")
    viewer.user_permissions.set(Permission.objects.filter(
        content_type__app_label="jobs", codename__startswith="view_"))  # fmt: skip
    client = Client()
    client.force_login(viewer)
    before = list(Job.objects.order_by("pk").values_list("pk", "state"))
    for url in sorted(posts):
        answer = client.post(url, {"reason": "because", "attempts": "1"})
        # Somebody's own view is not there for others, which hides whether it exists.
        hidden = "/savedview/" in url and answer.status_code == 404
        assert hidden or answer.status_code == 403, url
    assert list(Job.objects.order_by("pk").values_list("pk", "state")) == before
    assert set(Audit.objects.filter(actor="viewer").values_list("outcome", flat=True)) == {"denied"}
