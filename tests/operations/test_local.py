"""What ``make run`` adds where there is no ERP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.checks import run_checks

from config import local, workers
from jobs.cli import groups
from jobs.cli.worker import every_queue
from operations.models import Agent
from operations.table import SERVICE_ACCOUNT


@pytest.mark.django_db
def test_the_stand_in_runs_beside_and_knows_its_agents(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_ALLOW", "10.0.0.1")
    monkeypatch.setenv("ERP_URL", "")
    settings.DEBUG, settings.OPERATIONS = True, {"ERP_URL": ""}
    assert local.needs_erp()
    assert local.make_agents() == ["ada", "bea", SERVICE_ACCOUNT]
    with local.erp(tmp_path / "erp") as url:
        assert (os.environ["ERP_URL"], os.environ["HTTP_ALLOW"]) == (url, "10.0.0.1,127.0.0.1")
        for agent in Agent.objects.all():
            body = {"login": agent.erp_login, "password": agent.password}
            assert httpx.post(f"{url}/login", json=body, timeout=30).json()["session"]
    with pytest.raises(httpx.ConnectError):
        httpx.post(f"{url}/login", json={}, timeout=30)
    assert local.make_agents() == []


@pytest.mark.django_db
@pytest.mark.parametrize("is_there", [True, False])
def test_one_agent_works_by_pages_where_a_browser_can_be_started(
    monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    monkeypatch.setenv("CHROMIUM", sys.executable if is_there else "/none/chromium")
    local.make_agents()
    clients = dict(Agent.objects.values_list("key", "client"))
    pages = {local.BY_PAGES} if is_there else set()
    assert {key for key, client in clients.items() if client == "browser"} == pages
    assert ("works by its pages" if is_there else "no Chromium at /none") in local.by_pages()


def test_an_erp_of_ones_own_has_no_stand_in(settings: Any) -> None:
    settings.DEBUG, settings.OPERATIONS = True, {"ERP_URL": "https://erp.example.com"}
    assert not local.needs_erp()
    settings.DEBUG, settings.OPERATIONS = False, {}
    assert not local.needs_erp()


def test_writes_share_no_worker_with_reads_or_syncs(settings: Any) -> None:
    """What the project's own groups promise, and ``jobs run`` starts."""
    settings.JOBS = {**settings.JOBS, "WORKERS": workers.OF_OPERATIONS}
    assert not [
        found for found in run_checks() if str(found.id) in ("operations.W002", "jobs.W054")
    ]
    found = groups.declared()
    group_of = {
        queue: name for name in found for queue, _weight in groups.queues_of(name, every_queue())
    }
    assert {group_of[queue] for queue in ("erp-write", "erp-read", "erp-sync")} == set(found)
    assert set(group_of) == set(every_queue())
    syncs = [queue for queue, name in group_of.items() if name == group_of["erp-sync"]]
    assert syncs == ["erp-sync"]
