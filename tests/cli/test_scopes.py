"""What a command lists is what whoever types may see, and no model is read past that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import call_command

from jobs.cli import operating, schedules
from jobs.principals import EVERYTHING, Principal, Scope
from tests.api import world
from tests.jobs import factories
from tests.privacy import vault

pytestmark = pytest.mark.django_db
LISTS = ["batches", "dead-letters", "doubts", "blackouts", "limits", "schedules"]


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("seen", [None, "acme"])
def test_a_list_is_within_the_scope(
    name: str, seen: str | None, monkeypatch: pytest.MonkeyPatch, capsys: Any, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, **vault.KEYS, "WEBHOOKS": True}
    world.made()
    factories.sql("INSERT INTO jobs_limiter (scope, at_once) VALUES ('queue:default', 3)")
    scope = Scope(tenants=frozenset({seen})) if seen else EVERYTHING
    for module in (operating, schedules):
        monkeypatch.setattr(module, "person", lambda: Principal("ann", "cli", scope=scope))
    capsys.readouterr()
    call_command("jobs", name, "list", "--json")
    found = json.loads(capsys.readouterr().out)
    assert bool(found) is (seen is None)
