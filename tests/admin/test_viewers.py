"""Who may only look can do nothing: asked of every address that the admin has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import URLPattern, get_resolver, reverse

from jobs.admin.acting import Acting
from jobs.admin.causeacts import CAUSE_ACTS
from jobs.models import Audit, Job
from tests.admin.screens import screens
from tests.browser.filling import fill

pytestmark = pytest.mark.django_db
ASKS = "/admin/emailgw/outboxemail/do/find/"
"""Posted so that an address stands in no URL; it changes nothing, and here it is given none."""
OURS = [model for model, page in admin.site._registry.items() if isinstance(page, Acting)]


@pytest.fixture
def ids() -> dict[str, Any]:
    return fill()


@pytest.fixture
def viewer(client: Client, ids: dict[str, Any]) -> Client:
    user = User.objects.get(username="viewer")
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client.force_login(user)
    return client


def addresses(ids: dict[str, Any]) -> Iterator[str]:
    """Every address below a page of ours, also those of apps, with a row where it takes one."""
    rows = {
        "job": ids["job"], "batch": ids["batch"], "deadletter": ids["letter"],
        "schedule": ids["schedule"], "bulk": ids["bulk"], "outbox": ids["event"],
        "audit": ids["audit"], "queue": "default", "workerpage": "w1",
    }  # fmt: skip
    for model in OURS:
        page: Any = admin.site._registry[model]
        name = str(model._meta.model_name)
        key = rows.get(name)
        if key is None and model._meta.managed:
            first = model._default_manager.first()
            key = first.pk if first is not None else None
        key = quote(key) if key is not None else "1"
        for pattern in page.get_urls():
            if not isinstance(pattern, URLPattern) or not pattern.name:
                continue
            if pattern.name.endswith("_act"):
                told = CAUSE_ACTS if pattern.name == "jobs_cause_act" else page.row_acts()
                where = ids["cause"] if pattern.name == "jobs_cause_act" else key
                for act in told:
                    yield reverse(f"admin:{pattern.name}", args=[where, act.name])
            elif pattern.name.endswith("_make"):
                for act in page.new_acts():
                    yield reverse(f"admin:{pattern.name}", args=[act.name])
            elif not pattern.pattern.converters:
                yield reverse(f"admin:{pattern.name}")
            elif len(pattern.pattern.converters) == 1:
                yield reverse(f"admin:{pattern.name}", args=[key])


def test_who_may_only_view_can_post_nothing_anywhere(viewer: Client, ids: dict[str, Any]) -> None:
    urls = sorted(set(addresses(ids)))
    assert len(urls) > 100
    before = list(Job.objects.order_by("pk").values("pk", "state", "queue", "priority"))
    acts = Audit.objects.exclude(actor="viewer").count()
    asked = 0
    for url in urls:
        answer = viewer.post(url, {"reason": "because", "attempts": "1"})
        # What has no row here is not found; a list that is asked so is only shown, and stock
        # pages of rows that are not there lead away.
        told: tuple[int, ...] = (403, 404, 405) if "/do/" in url else (200, 302, 403, 404, 405)
        if url == ASKS:
            told = (422,)
        assert answer.status_code in told, (url, answer.status_code)
        asked += answer.status_code == 403
    assert asked > 40
    assert list(Job.objects.order_by("pk").values("pk", "state", "queue", "priority")) == before
    assert Audit.objects.exclude(actor="viewer").count() == acts
    assert set(Audit.objects.filter(actor="viewer").values_list("outcome", flat=True)) == {"denied"}


def test_every_address_of_the_admin_that_acts_is_among_them(ids: dict[str, Any]) -> None:
    """Nobody has added one beside them."""
    found = {
        name
        for name in get_resolver("config.urls").namespace_dict["admin"][1].reverse_dict
        if isinstance(name, str) and name.endswith(("_act", "_make"))
    }
    expected = {
        pattern.name
        for model in OURS
        for pattern in admin.site._registry[model].get_urls()
        if isinstance(pattern, URLPattern)
    }
    assert found and found <= expected


def test_looking_changes_nothing(viewer: Client, ids: dict[str, Any]) -> None:
    before = list(Job.objects.order_by("pk").values_list("pk", "state", "run_at"))
    acts = Audit.objects.count()
    for path in screens(ids).values():
        assert viewer.get(f"/admin/jobs/{path}").status_code in (200, 403), path
    assert list(Job.objects.order_by("pk").values_list("pk", "state", "run_at")) == before
    assert Audit.objects.count() == acts
