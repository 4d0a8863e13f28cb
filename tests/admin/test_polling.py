"""What is polled every few seconds costs little: nothing changed is told before much is asked."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.admin import base
from jobs.models import Job
from jobs.operate import pauses
from tests.browser.filling import fill

pytestmark = pytest.mark.django_db
FEW = 3
"""Who asks (two), and the row."""


@pytest.fixture
def ids(client: Client) -> dict[str, Any]:
    found = fill()
    client.force_login(User.objects.get(username="root"))
    return found


@pytest.fixture(autouse=True)
def no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn ends while a test runs."""
    monkeypatch.setattr(base, "FRESH", 1e11)


def poll(client: Client, url: str, etag: str = "", **headers: str) -> tuple[Any, int]:
    with CaptureQueriesContext(connection) as queries:
        answer = client.get(url, headers={**({"If-None-Match": etag} if etag else {}), **headers})
        asked = len(queries)
    return answer, asked


@pytest.mark.parametrize(
    ("model", "key", "region"),
    [("job", "running", "jd-job"), ("batch", "batch", "jd-batch"), ("bulk", "bulk", "jd-bulk")],
)
def test_a_row_that_has_not_changed_costs_three_queries(
    client: Client, ids: dict[str, Any], model: str, key: str, region: str
) -> None:
    url = f"/admin/jobs/{model}/{ids[key]}/change/?_fragment={region}"
    first, cost = poll(client, url)
    assert first.status_code == 200 and cost > FEW
    again, cost = poll(client, url, first["ETag"])
    assert (again.status_code, again["ETag"], cost) == (304, first["ETag"], FEW)
    # A server in between may have called it weak, because it packed the answer.
    again, cost = poll(client, url, f"W/{first['ETag']}")
    assert (again.status_code, cost) == (304, FEW)


def test_a_row_that_has_changed_is_shown_anew(client: Client, ids: dict[str, Any]) -> None:
    url = f"/admin/jobs/job/{ids['running']}/change/?_fragment=jd-job"
    first, _ = poll(client, url)
    Job.objects.filter(pk=ids["running"]).update(
        progress={"done": 700, "total": 1000, "note": "binding the pages"}
    )
    again, _ = poll(client, url, first["ETag"])
    assert again.status_code == 200 and "binding the pages" in again.content.decode()


def test_what_has_changed_around_a_row_is_shown_at_the_next_turn(
    client: Client, ids: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"/admin/jobs/job/{ids['scheduled']}/change/?_fragment=jd-job"
    first, _ = poll(client, url)
    pauses.pause("kind:test.noop", by="ada", reason="the cellar is wet")
    assert poll(client, url, first["ETag"])[0].status_code == 304
    monkeypatch.setattr(base, "FRESH", 1e9)
    again, _ = poll(client, url, first["ETag"])
    assert again.status_code == 200 and "the cellar is wet" in again.content.decode()


def test_another_reader_and_another_language_are_no_match(
    client: Client, ids: dict[str, Any]
) -> None:
    url = f"/admin/jobs/job/{ids['running']}/change/?_fragment=jd-job"
    first, _ = poll(client, url)
    italian, _ = poll(client, url, first["ETag"], **{"Accept-Language": "it"})
    assert italian.status_code == 200
    client.force_login(User.objects.create_superuser("other"))
    other, cost = poll(client, url, first["ETag"])
    assert cost > FEW
    assert other.status_code in (200, 304)  # by its content


def test_who_may_see_no_more_is_told_nothing(client: Client, ids: dict[str, Any]) -> None:
    url = f"/admin/jobs/job/{ids['running']}/change/?_fragment=jd-job"
    first, _ = poll(client, url)
    User.objects.filter(username="root").update(is_superuser=False)
    assert poll(client, url, first["ETag"])[0].status_code == 403
