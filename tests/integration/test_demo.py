"""``make demo ONCE=1``, on real processes."""

from __future__ import annotations

import re
import signal
import time
import urllib.request

import pytest

from jobs.cli.demo import SCENES
from jobs.cli.demo_flow import ACTS
from tests.integration.fleet import Fleet, is_alive
from tests.jobs.ports import free_port
from tests.wait import wait_until

pytestmark = pytest.mark.slow
ENV = {"DEBUG": "on"}


def test_the_demo_runs_through(fleet: Fleet) -> None:
    port = free_port()
    begun = time.monotonic()
    program = fleet.manage("demo", "jobs", "demo", "--once", f"--port={port}", env=ENV)
    code = program.ended(30)
    told = program.logged()
    assert code == 0, told
    shown = len(SCENES) + len(ACTS)
    assert f"{shown} of {shown} as they should" in told
    assert "no invariants violated" in told
    assert "Password" not in told
    assert time.monotonic() - begun < 20
    assert fleet.value("SELECT count(*) FROM jobs_lease WHERE dead_at IS NULL") == 0


def test_the_demo_stays_until_it_is_told_to_end(fleet: Fleet) -> None:
    port = free_port()
    program = fleet.manage("stay", "jobs", "demo", f"--port={port}", env=ENV)
    wait_until(lambda: "Ctrl-C ends the demo" in program.logged(), 30)
    assert f"Admin:    http://127.0.0.1:{port}/admin/" in program.logged()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/admin/", timeout=5) as page:
        text = page.read().decode()
    assert "csrfmiddlewaretoken" in text
    style = re.findall(r'href="(/static/admin/[^"]+\.css)"', text)[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{style}", timeout=5) as sheet:
        assert (sheet.status, sheet.headers["Content-Type"]) == (200, "text/css")
    family = program.family()
    program.send(signal.SIGINT)
    assert program.ended() == 0, program.logged()
    assert not any(map(is_alive, family))
