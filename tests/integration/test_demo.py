"""``make demo ONCE=1``, on real processes."""

from __future__ import annotations

import re
import signal
import urllib.request
from typing import Any

import pytest

from config import workers
from jobs import demo
from jobs.cli.demo import SCENES
from jobs.cli.demo_desk import DESK
from jobs.cli.demo_flow import ACTS
from jobs.client import Client, Denied
from tests.architecture.sources import DOMAIN_APPS
from tests.integration.fleet import Fleet, is_alive
from tests.jobs.ports import free_port
from tests.wait import wait_until

pytestmark = pytest.mark.slow
ENV = {"DEBUG": "on", "FLEET_APPS": ",".join(DOMAIN_APPS)}


def stored(fleet: Fleet) -> dict[str, Any]:
    """Settings with a folder for blobs, the stand-ins of the scenes, and groups of workers."""
    return {
        "BLOBS": {"STORE": "local", "ROOT": str(fleet.folder / "blobs")},
        "HTTP_ALLOW": ["127.0.0.0/8", "localhost"],
        "WORKERS": workers.OF_OPERATIONS,
    }


@pytest.mark.timeout(400)
def test_the_demo_runs_through(fleet: Fleet) -> None:
    port = free_port()
    program = fleet.manage(
        "demo", "jobs", "demo", "--once", f"--port={port}", env=ENV, jobs=stored(fleet)
    )
    code = program.ended(150)
    told = program.logged()
    assert code == 0, told
    shown = len(SCENES) + len(ACTS) + len(DESK) + len(demo.of_apps())
    assert f"{shown} of {shown} as they should" in told
    assert "no invariants violated" in told
    assert re.search(r"an email without an answer +SENT_ATTEMPT \(in doubt\) .* as it should", told)
    assert re.search(r"whose worker is killed .* 1 worker killed +as it should", told)
    assert "Password" not in told and "jd_live_" not in told
    assert fleet.value("SELECT count(*) FROM jobs_apikey WHERE revoked_at IS NULL") == 0
    assert fleet.value("SELECT count(*) FROM jobs_lease WHERE dead_at IS NULL") == 0


def test_the_demo_stays_until_it_is_told_to_end(fleet: Fleet) -> None:
    port = free_port()
    program = fleet.manage("stay", "jobs", "demo", f"--port={port}", env=ENV, jobs=stored(fleet))
    wait_until(lambda: "Ctrl-C ends the demo" in program.logged(), 100)
    assert f"Admin:    http://127.0.0.1:{port}/admin/" in program.logged()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/admin/", timeout=30) as page:
        text = page.read().decode()
    assert "csrfmiddlewaretoken" in text
    style = re.findall(r'href="(/static/admin/[^"]+\.css)"', text)[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{style}", timeout=30) as sheet:
        assert (sheet.status, sheet.headers["Content-Type"]) == (200, "text/css")
    told = dict(re.findall(r"^(API|Key): +(\S+)$", program.logged(), re.MULTILINE))
    assert told["API"] == f"http://127.0.0.1:{port}/api/v1/docs"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/docs", timeout=30) as page:
        assert b"openapi" in page.read()
    with Client(told["API"].removesuffix("/docs"), key=told["Key"]) as desk:
        assert {job["tenant"] for job in desk.jobs("kind:example.deliver")} == {"demo"}
        with pytest.raises(Denied):
            desk.preview("retry", query="state:failed")
    family = program.family()
    program.send(signal.SIGINT)
    assert program.ended() == 0, program.logged()
    assert fleet.value("SELECT count(*) FROM jobs_apikey WHERE revoked_at IS NULL") == 0
    assert fleet.value("SELECT count(*) FROM jobs_schedule WHERE NOT is_declared") == 0
    assert not any(map(is_alive, family))
