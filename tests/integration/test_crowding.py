"""Through the API nobody crowds others out: a flood of one tenant delays no other tenant's jobs."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from tests.integration.fleet import Fleet
from tests.integration.realtime.site import Site
from tests.wait import wait_until

pytestmark = pytest.mark.slow
FLOOD, EACH = 8000, 1000
LONGEST = 10.0
"""Seconds to the start of a job, p95; the flood alone takes several times as long."""


def key(fleet: Fleet, tenant: str) -> str:
    """The secret of a key of this tenant that may enqueue."""
    made = fleet.manage(
        f"key-{tenant}", "jobs", "api-keys", "create", tenant, "enqueue_job,view_job",
        f"--tenants={tenant}", "--reason=test", "--json",
    )  # fmt: skip
    assert made.ended(30) == 0, made.logged()
    return str(json.loads(made.logged())["text"])


def posted(site: Site, secret: str, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{site.port}/api/v1{path}",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own
        return json.load(answer)


def test_a_flood_of_one_tenant_delays_nobody_else(fleet: Fleet) -> None:
    site = Site(fleet)
    flooding, calm = key(fleet, "flooding"), key(fleet, "calm")
    job = {"kind": "test.sleep", "payload": {"seconds": 0.05}}
    for _ in range(FLOOD // EACH):
        posted(site, flooding, "/jobs/batch", {"jobs": [job] * EACH})
    fleet.dispatcher()
    fleet.worker()
    wait_until(lambda: fleet.states().get("succeeded", 0) > 50, 30, message="the flood runs")
    mine = []
    begun = "SELECT count(*) FROM jobs_job WHERE tenant = 'calm' AND started_at IS NULL"
    for _ in range(20):
        mine.append(posted(site, calm, "/jobs", job)["id"])
        wait_until(lambda: fleet.value(begun) < 5, 30, message="others' jobs begin")
    ended = "SELECT count(*) FROM jobs_job WHERE tenant = 'calm' AND finished_at IS NOT NULL"
    wait_until(lambda: fleet.value(ended) == len(mine), 60, message="they are done")
    waits = fleet.query(
        "SELECT extract(epoch FROM started_at - created_at)::float8 FROM jobs_job "
        "WHERE tenant = 'calm' ORDER BY 1"
    )
    left = "SELECT count(*) FROM jobs_job WHERE tenant = 'flooding' AND finished_at IS NULL"
    assert fleet.value(left) > 500, "the flood was over too early to have been in the way"
    assert waits[int(len(waits) * 0.95)][0] < LONGEST, waits
