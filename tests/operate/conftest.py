"""A project whose app ``specimens`` declares verbs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import clear_url_caches, path

from jobs import principals
from jobs.api import build_api, verb_router
from jobs.operate import targets, verbs
from tests.specimens import desk
from tests.specimens.models import Plan


@pytest.fixture
def plan(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plan]:
    """A plan, in a project whose app ``specimens`` has a verb, an API and a page for plans."""
    monkeypatch.setitem(principals._OF_APPS, desk.APPROVE_PLAN, "Can approve plans")
    monkeypatch.setattr(verbs, "_VERBS", {**verbs.every()})
    monkeypatch.setattr(targets, "_TARGETS", {**targets._TARGETS})
    desk.declare()
    admin.site.register(Plan, desk.PlanAdmin)
    api = build_api(urls_namespace="declaring")
    api.add_router("/specimens", verb_router("specimens"))
    urls = ModuleType("tests.operate.urls_of_specimens")
    urls.urlpatterns = [  # type: ignore[attr-defined]
        path("api/", api.urls), path("admin/", admin.site.urls),
    ]  # fmt: skip
    monkeypatch.setitem(sys.modules, urls.__name__, urls)
    settings.ROOT_URLCONF = urls.__name__
    clear_url_caches()
    yield Plan.objects.create(title="acme")
    admin.site.unregister(Plan)
    clear_url_caches()


@pytest.fixture
def root(client: Client, plan: Plan) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client
