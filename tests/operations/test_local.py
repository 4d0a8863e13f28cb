"""What ``make run`` adds where there is no ERP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from config import local
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


def test_an_erp_of_ones_own_has_no_stand_in(settings: Any) -> None:
    settings.DEBUG, settings.OPERATIONS = True, {"ERP_URL": "https://erp.example.com"}
    assert not local.needs_erp()
    settings.DEBUG, settings.OPERATIONS = False, {}
    assert not local.needs_erp()
