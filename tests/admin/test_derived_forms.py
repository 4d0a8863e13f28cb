"""Forms of acts are made of the declarations of their verbs; what they add is how it looks."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client

from jobs.admin.acting import Acting
from jobs.admin.actions import Act
from jobs.admin.causeacts import CAUSE_ACTS
from jobs.admin.declared import form_of
from jobs.models import ApiKey, Audit, DeadLetter, Job, Pause, SavedView, Schedule, Webhook
from jobs.operate import schedules, verbs, webhooks
from tests.jobs.factories import a_claim, ended, settle
from tests.privacy import vault
from tests.specimens.handlers import Echo, Noop

WHO: dict[str, Any] = {"by": "ada", "reason": "to begin with"}


def acts() -> list[Act]:
    pages = [page for page in admin.site._registry.values() if isinstance(page, Acting)]
    return [*CAUSE_ACTS, *(act for page in pages for act in (*page.row_acts(), *page.new_acts()))]


def is_written(act: Act) -> bool:
    """Whether it has a form of its own, and not the one that its declaration gives it."""
    verb = verbs.find(act.verb)
    return verb is not None and act.form is not form_of(verb)


@pytest.mark.parametrize("act", [act for act in acts() if is_written(act)],
                         ids=lambda act: f"{act.verb} {act.name}")  # fmt: skip
def test_no_form_spells_a_parameter_by_hand(act: Act) -> None:
    verb = verbs.every()[act.verb]
    assert not set(act.form.base_fields) & (names_of(verb) - {"reason"})


def names_of(verb: verbs.Verb) -> set[str]:
    """What people give to the verb, each part of a payload by its own name."""
    return {part.name for one in verb.every_parameter for part in one.parts}


def test_no_form_has_words_for_what_no_verb_of_its_takes() -> None:
    taken: dict[int, set[str]] = {}
    for act in acts():
        verb = verbs.find(act.verb)
        names = names_of(verb) if verb is not None else set()
        taken.setdefault(id(act.form.words), set()).update(names)  # a form may be one of two verbs
    for act in acts():
        assert set(act.form.words) <= taken[id(act.form.words)], act.form


@pytest.fixture
def root(client: Client, db: None, settings: Any) -> Client:
    settings.JOBS = {**settings.JOBS, **vault.KEYS, "WEBHOOKS": True}
    client.force_login(User.objects.create_superuser("root"))
    return client


def filled(client: Client, url: str) -> dict[str, Any]:
    """What the fields of the form hold when its page is opened."""
    form = client.get(url).context["form"]
    return {name: form[name].value() for name in form.fields if form[name].value() is not None}


def sent(client: Client, url: str, **given: Any) -> None:
    """Send the form as its page has it, but for what is given."""
    values = {**filled(client, url), "reason": "because", **given}
    values = {name: value for name, value in values.items() if value not in (False, None)}
    answer = client.post(url, values)
    assert answer.status_code == 302, answer.context["form"].errors


def test_a_schedule_by_interval_is_changed_with_what_its_page_shows(root: Client) -> None:
    schedules.create("tidy", Noop(), interval=60, missed="skip", **WHO)
    row = Schedule.objects.get()
    url = f"/admin/jobs/schedule/{row.pk}/do/edit/"
    assert filled(root, url)["interval"] == 60 and "time_zone" not in filled(root, url)
    sent(root, url, interval="90", payload="")
    row.refresh_from_db()
    assert (row.interval, row.missed, row.cron) == (90, "skip", "")


def test_a_rule_becomes_an_interval(root: Client) -> None:
    schedules.create("tidy", Noop(), cron="0 4 * * *", time_zone="Europe/Rome", **WHO)
    row = Schedule.objects.get()
    url = f"/admin/jobs/schedule/{row.pk}/do/edit/"
    assert filled(root, url)["time_zone"] == "Europe/Rome"
    sent(root, url, cron="", time_zone="", interval="60")
    row.refresh_from_db()
    assert (row.cron, row.interval) == ("", 60)


def test_a_schedule_is_made_with_a_payload_of_its_kind(root: Client) -> None:
    url = "/admin/jobs/schedule/do/new/"
    given = {"name": "echo", "kind": "test.echo", "cron": "0 4 * * *", "tenant": "acme"}
    answer = root.post(url, {**given, "reason": "x", "payload": '{"nope": 1}'})
    assert answer.status_code == 422 and not Schedule.objects.exists()
    sent(root, url, **given, payload='{"text": "hi"}')
    row = Schedule.objects.get()
    assert (row.payload["text"], row.options["tenant"], row.overlap) == ("hi", "acme", "allow")


def test_what_is_emptied_is_empty_or_every(root: Client) -> None:
    made = webhooks.create("https://a.example.com/", tenant="acme", topics=["order.*"],
                           name="mine", **WHO)  # fmt: skip
    url = f"/admin/jobs/webhook/{made.id}/do/edit/"
    assert filled(root, url) == {"url": "https://a.example.com/", "name": "mine",
                                 "topics": "order.*"}  # fmt: skip
    sent(root, url, name="", topics="")
    row = Webhook.objects.get()
    assert (row.name, row.topics, row.url) == ("", [], "https://a.example.com/")
    sent(root, url, topics="a.*, b\nc")
    row.refresh_from_db()
    assert row.topics == ["a.*", "b", "c"]


def test_a_webhook_of_all_tenants_says_so(root: Client) -> None:
    url = "/admin/jobs/webhook/do/new/"
    given = {"url": "https://a.example.com/", "reason": "because"}
    answer = root.post(url, given)
    assert answer.status_code == 422 and answer.context["form"].errors["tenant"]
    assert root.post(url, {**given, "tenant": "*"}).status_code == 200
    assert Webhook.objects.get().tenant == ""


def test_a_view_is_changed_where_something_is_typed(root: Client) -> None:
    sent(root, "/admin/jobs/savedview/do/save/", name="mine", query="kind:test.*", tab="dead",
         shared="on")  # fmt: skip
    view = SavedView.objects.get()
    url = f"/admin/jobs/savedview/{view.pk}/do/edit/"
    assert filled(root, url) == {"name": "mine", "query": "kind:test.*", "tab": "dead",
                                 "shared": True}  # fmt: skip
    sent(root, url, query="", shared=False)
    row = SavedView.objects.get()
    assert (row.query, row.tab, row.is_shared) == ("", "dead", False)


def test_a_new_view_begins_with_what_the_list_shows(root: Client) -> None:
    page = filled(root, "/admin/jobs/savedview/do/save/?query=kind:a&tab=running")
    assert (page["query"], page["tab"], page["shared"]) == ("kind:a", "running", False)


def test_a_pause_says_what_becomes_of_what_runs(root: Client) -> None:
    url = "/admin/jobs/queue/do/pause/"
    assert filled(root, url)["running"] == "finish"
    sent(root, url, scope="kind:test.noop", running="stop")
    assert Audit.objects.get(action="scope.pause").detail["running"] == "stop"
    assert Pause.objects.get().scope == "kind:test.noop"


def test_the_payload_of_a_dead_letter_is_mended(root: Client) -> None:
    settle(ended(a_claim(Echo(text="lost")), "unrecoverable"))
    letter = DeadLetter.objects.get()
    url = f"/admin/jobs/deadletter/{letter.pk}/do/replay/"
    answer = root.post(url, {"reason": "x", "payload_patch": "{no"})
    assert answer.status_code == 422 and answer.context["form"].errors["payload_patch"]
    sent(root, url, payload_patch='{"text": "found"}')
    assert Job.objects.exclude(pk=letter.job_id).get().payload["text"] == "found"


def test_a_key_is_good_for_an_hour_more(root: Client) -> None:
    url = "/admin/jobs/apikey/do/new/"
    given = {"name": "shop", "permissions": ["view_job"], "reason": "x", "queues": "mail\nreports"}
    assert root.post(url, given).status_code == 200
    key = ApiKey.objects.get()
    assert (key.queues, key.tenants) == (["mail", "reports"], None)
    url = f"/admin/jobs/apikey/{key.pk}/do/rotate/"
    assert filled(root, url)["overlap"] == 24
    for wrong in ("-1", "721", "1e300", "nan"):
        answer = root.post(url, {"reason": "x", "overlap": wrong})
        assert answer.status_code == 422 and answer.context["form"].errors["overlap"], wrong
    assert root.post(url, {"reason": "x", "overlap": "0.5"}).status_code == 200
    key.refresh_from_db()
    assert key.previous_until is not None and key.rotated_at is not None
    assert round((key.previous_until - key.rotated_at).total_seconds()) == 1800
