"""Every verb of people is an act of the admin, and does what its function does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.test import Client

from jobs.admin.acting import Acting
from jobs.admin.actions import Act
from jobs.admin.causeacts import CAUSE_ACTS
from jobs.engine import webhooks as telling
from jobs.models import ApiKey, Audit, Schedule
from jobs.operate import apikeys, verbs
from jobs.testing import freeze_clock
from tests.operate.test_verbs import MAKERS, NOON
from tests.privacy import vault

BY_NAME = {verb.name: verb for verb in verbs.of_app("jobs")}
VERBS = [verb for verb in BY_NAME.values() if verb.name in MAKERS]
TOLD = {"job.reveal_payload", "webhook.create", "webhook.rotate_secret"}
"""Verbs that answer with what is shown once."""
OF_CAUSES = "deadletter/cause"
TOMORROW = "2040-01-03T12:00"

MODELS = {
    "delivery": "webhookdelivery",
    "event": "outbox",
    "worker": "workerpage",
    "deploy": "workerpage",
    "view": "savedview",
    "scope": "queue",
}
FORMS: dict[str, dict[str, Any]] = {
    "job.retry": {"attempts": 2},
    "job.edit": {"queue": "default", "priority": 7, "max_attempts": 5},
    "deadletter.retry": {"attempts": 2},
    "batch.note": {"text": "call them"},
    "cause.note": {"text": "known"},
    "effect.resolve": {"how": "resend"},
    "limit.set": {"scope": "queue:default", "at_once": 2},
    "limit.end_override": {"scope": "queue:default"},
    "limit.reopen": {"scope": "queue:default"},
    "limit.remove": {"scope": "queue:default"},
    "breaker.open": {"seconds": 30},
    "deploy.mark": {"version": "v7"},
    "schedule.create": {"name": "new", "kind": "test.noop", "cron": "0 * * * *",
                        "missed": "latest", "overlap": "allow"},
    "schedule.edit": {"cron": "5 * * * *", "missed": "latest", "overlap": "allow"},
    "schedule.backfill": {"start": "2040-01-02T09:00", "end": "2040-01-02T12:00"},
    "webhook.create": {"url": "https://a.example.com/", "tenant": "acme"},
    "webhook.edit": {"url": "https://a.example.com/", "topics": "order.*"},
    "webhook.rotate_secret": {"overlap": 24},
    "view.save": {"name": "new", "query": "kind:test.*", "tab": "all", "shared": "on"},
    "view.edit": {"name": "other", "query": "kind:other.*", "tab": "dead", "shared": "on"},
    "blackout.create": {"scope": "tenant:acme", "start": "01:00", "end": "02:00",
                        "time_zone": "UTC"},
    "blackout.update": {"scope": "tenant:acme", "start": "01:00", "end": "03:00",
                        "time_zone": "UTC"},
}  # fmt: skip


def acts() -> list[tuple[str, Act, bool]]:
    """The model's name, the act, and whether it needs no row."""
    found: list[tuple[str, Act, bool]] = [(OF_CAUSES, act, False) for act in CAUSE_ACTS]
    for model, page in admin.site._registry.items():
        if isinstance(page, Acting) and model._meta.app_label == "jobs":
            name = str(model._meta.model_name)
            found += [(name, act, False) for act in page.row_acts()]
            found += [(name, act, True) for act in page.new_acts()]
    return found


def test_every_verb_is_an_act() -> None:
    assert {act.verb for _, act, _ in acts()} == set(BY_NAME) | {"job.export"}


def address(verb: str, target: Any) -> str:
    """Where the verb is done with its target."""
    kind = BY_NAME[verb].target.kind
    model = {**MODELS, "cause": OF_CAUSES}.get(kind, kind)
    [(_, act, is_new)] = [
        a for a in acts()
        if a[1].verb == verb and a[0] == model and a[1].name not in ("enable", "disable")
        and not (verb == "scope.pause" and a[2])
    ]  # fmt: skip
    if verb == "bulk.start":
        return f"/admin/jobs/bulk/do/start/?action=retry&_selected={target}"
    if is_new:
        return f"/admin/jobs/{model}/do/{act.name}/"
    if kind == "scope":
        target = "default"
    if kind == "schedule":
        target = Schedule.objects.get(name=target).pk
    key = quote(target) if kind in ("effect", "breaker", "meter") else target
    return f"/admin/jobs/{model}/{key}/do/{act.name}/"


@pytest.fixture
def root(client: Client, db: None, settings: Any) -> Iterator[Client]:
    settings.JOBS = {**settings.JOBS, **vault.KEYS, "WEBHOOKS": True}
    client.force_login(User.objects.create_superuser("root"))
    telling.register()
    yield client
    telling.unregister()


@pytest.mark.parametrize("verb", [v.name for v in VERBS])
def test_a_verb_is_done_from_its_page_and_written_once(root: Client, verb: str) -> None:
    with freeze_clock(NOON):
        arguments, options = MAKERS[verb]()
        target = arguments[0] if verb != "bulk.start" else options["ids"][0]
        if verb == "blackout.create":
            target = None
        url = address(verb, target)
        assert root.get(url).status_code == 200
        given = {"reason": "because", **FORMS.get(verb, {})}
        answer = post(root, url, given)
        assert answer.status_code == (200 if verb in TOLD else 302), said(answer)
        rows = Audit.objects.filter(action=verb, actor="root")
        assert [(row.outcome, row.via) for row in rows] == [("done", "admin")]


def post(client: Client, url: str, given: dict[str, Any]) -> Any:
    """The answer; what is to be looked at first is sent again as the page has it."""
    answer = client.post(url, given)
    seen = re.search(r'name="seen" value="(\w+)"', answer.content.decode())
    if answer.status_code == 200 and seen:
        return client.post(url, {**given, "seen": seen[1]})
    return answer


def said(answer: Any) -> str:
    return "; ".join(re.findall(r"jd-(?:error|problem)[^>]*>(.*?)</div>", answer.content.decode()))


def test_a_key_is_made_and_its_secret_is_shown_once(root: Client) -> None:
    given = {"reason": "for the shop", "name": "shop", "permissions": ["view_job", "retry_job"],
             "queues": "mail, reports"}  # fmt: skip
    answer = root.post("/admin/jobs/apikey/do/new/", given)
    [text] = re.findall(r"jd_live_\w+", answer.content.decode())
    key = ApiKey.objects.get()
    assert "no-store" in answer["Cache-Control"] and key.queues == ["mail", "reports"]
    who = apikeys.principal(text, address="192.0.2.1")
    assert who is not None and who.may("retry_job") and not who.may("cancel_job")
    for path in ("", f"{key.pk}/change/"):
        page = root.get(f"/admin/jobs/apikey/{path}")
        assert page.status_code == 200 and b"jd_live_" not in page.content
    rotated = root.post(f"/admin/jobs/apikey/{key.pk}/do/rotate/", {"reason": "x", "overlap": 0})
    [again] = re.findall(r"jd_live_\w+", rotated.content.decode())
    assert again != text and apikeys.principal(text, address="192.0.2.1") is None
    root.post(f"/admin/jobs/apikey/{key.pk}/do/revoke/", {"reason": "x"})
    assert apikeys.principal(again, address="192.0.2.1") is None
    told = Audit.objects.filter(actor="root").order_by("at", "id").values_list("action", flat=True)
    assert list(told) == ["apikey.create", "apikey.rotate", "apikey.revoke"]


def test_what_is_to_be_looked_at_is_not_done_at_once(root: Client) -> None:
    with freeze_clock(NOON):
        (name, *_), _ = MAKERS["schedule.backfill"]()
        url = address("schedule.backfill", name)
        given = {"reason": "x", **FORMS["schedule.backfill"]}
        answer = root.post(url, given)
        assert answer.status_code == 200 and "4 jobs will be made" in answer.content.decode()
        assert not Audit.objects.filter(action="schedule.backfill").exists()
        # Another time than the one that was looked at is looked at first.
        seen = re.search(r'name="seen" value="(\w+)"', answer.content.decode())
        assert seen is not None
        other = {**given, "seen": seen[1], "end": "2040-01-02T11:00"}
        assert "3 jobs will be made" in root.post(url, other).content.decode()
        assert not Audit.objects.filter(action="schedule.backfill").exists()
        assert datetime(2040, 1, 2, 9, tzinfo=UTC) < NOON
