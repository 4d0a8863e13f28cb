"""Behind LoginRequiredMiddleware, programs are answered by the API and not sent to a login page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client, override_settings
from django.urls import get_resolver

FOR_PEOPLE = ("admin/", "uploads/", "accounts/", "favicon.ico", "trading/coinbase/callback")
DOCUMENTS = {"openapi-json", "openapi-view"}

pytestmark = pytest.mark.django_db


def views(patterns: Iterable[Any], before: str = "") -> Iterator[tuple[str, str, Any]]:
    for one in patterns:
        path = before + str(one.pattern)
        if hasattr(one, "url_patterns"):
            yield from views(one.url_patterns, path)
        else:
            yield path, getattr(one, "name", "") or "", one.callback


def test_every_view_for_programs_authenticates_its_callers_itself() -> None:
    sent_to_login = [
        path
        for path, name, view in views(get_resolver().url_patterns)
        if path and not path.startswith(FOR_PEOPLE) and name not in DOCUMENTS
        if getattr(view, "login_required", True)
    ]
    assert not sent_to_login


@pytest.mark.parametrize(
    ("path", "status"),
    [("health/live", 200), ("health/ready", 200), ("jobs", 401), ("events", 401), ("nothing", 401)],
)
def test_no_program_is_sent_to_a_login_page(path: str, status: int) -> None:
    middleware = [
        *settings.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
    with override_settings(MIDDLEWARE=middleware):
        answer = Client().get(f"/api/v1/{path}")
    assert answer.status_code == status, answer.content
