"""Acts on many rows of a list: asked for once, done to each row by itself, written for each."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import Permission, User
from django.test import Client

from jobs.engine import roll
from jobs.models import ApiKey, Audit, Blackout, Outbox, Schedule, Webhook
from jobs.operate import apikeys, blackouts, pauses, webhooks, workers
from jobs.testing import freeze_clock
from tests.admin.test_verbs import TOMORROW, root  # noqa: F401
from tests.operate.test_verbs import MAKERS, NOON, WHO, a_webhook


def many(client: Client, model: str, action: str, keys: list[Any], **given: str) -> str:
    """The page after an act on these rows of a list."""
    chosen = "&".join(f"_selected={key}" for key in keys)
    url = f"/admin/jobs/{model}/many/?action={action}&{chosen}&back=/admin/jobs/{model}/"
    asked = client.get(url)
    assert asked.status_code == 200 and b'name="reason"' in asked.content
    answer = client.post(url, {"reason": "because", **given}, follow=True)
    assert answer.redirect_chain == [(f"/admin/jobs/{model}/", 302)]
    return str(answer.content.decode())


def test_events_of_a_list_are_dealt_with_together(root: Client) -> None:  # noqa: F811
    events = [MAKERS["event.publish"]()[0][0] for _ in range(3)]
    page = root.get("/admin/jobs/outbox/").content.decode()
    assert page.count('name="_selected"') == 3 and 'value="publish"' in page
    first = [events[0], events[0], 404]
    assert "Done with 1 of 1." in many(root, "outbox", "discard", first)
    # What cannot be done says why, and the others are done.
    told = many(root, "outbox", "publish", events)
    assert "Done with 2 of 3." in told
    rows = Audit.objects.filter(action="event.publish").values_list("outcome", flat=True)
    assert list(rows) == ["done", "done"]
    assert set(Outbox.objects.values_list("state", flat=True)) == {"discarded", "pending"}
    nothing = root.get(f"/admin/jobs/outbox/many/?action=publish&_selected={events[0]}")
    assert b'name="reason"' not in nothing.content
    assert root.get("/admin/jobs/outbox/many/?action=nothing").status_code == 404


def test_pauses_and_schedules_of_a_list_are_dealt_with_together(root: Client) -> None:  # noqa: F811
    for scope in ("tenant:a", "key:x/y"):
        pauses.pause(scope, by="ada", reason="a test")
    keys = re.findall(r'name="_selected" value="([^"]+)"',
                      root.get("/admin/jobs/pause/").content.decode())  # fmt: skip
    assert len(keys) == 2 and "Done with 2 of 2." in many(root, "pause", "resume", keys)
    assert pauses.paused() == []
    with freeze_clock(NOON):
        (name, *_), _given = MAKERS["schedule.pause"]()
        row = Schedule.objects.get(name=name)
        until = {"until": TOMORROW}
        assert "Done with 1 of 1." in many(root, "schedule", "pause", [row.pk], **until)
        row.refresh_from_db()
        assert row.paused_until is not None


def test_many_need_the_permission_of_one(client: Client, db: None) -> None:
    event = MAKERS["event.publish"]()[0][0]
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(
        Permission.objects.get(content_type__app_label="jobs", codename="view_outbox")
    )
    client.force_login(user)
    page = client.get("/admin/jobs/outbox/").content.decode()
    assert 'value="discard"' not in page and page.count('name="_selected"') <= 1
    url = f"/admin/jobs/outbox/many/?action=discard&_selected={event}"
    assert client.get(url).status_code == 403
    assert client.post(url, {"reason": "x"}).status_code == 403
    assert not Audit.objects.filter(action="event.discard", outcome="done").exists()


def outcomes(verb: str) -> list[tuple[str, str, str, str]]:
    """What the audit says of what was done from the pages, one row for each target."""
    rows = Audit.objects.filter(action=verb, via="admin").order_by("at", "id")
    return sorted((row.target_id, row.outcome, row.reason, row.actor) for row in rows)


def done(verb: str, *keys: object) -> bool:
    """Whether it was done to these alone, each with a row of its own."""
    return outcomes(verb) == sorted((str(key), "done", "because", "root") for key in keys)


def buttons(client: Client, model: str) -> set[str]:
    """What a list offers for the rows that are selected."""
    page = client.get(f"/admin/jobs/{model}/").content.decode()
    return set(re.findall(r'name="action" value="([\w-]+)"', page))


def test_webhooks_of_a_list_are_dealt_with_together(root: Client) -> None:  # noqa: F811
    ids = [a_webhook(), a_webhook(), a_webhook()]
    assert buttons(root, "webhook") == {"ping", "pause", "resume", "delete"}
    webhooks.pause(ids[0], **WHO)
    # One that is paused already says so, and the others are paused.
    told = many(root, "webhook", "pause", ids)
    assert "Done with 2 of 3." in told and "It is stopped already." in told
    assert done("webhook.pause", *ids[1:])
    assert "Done with 3 of 3." in many(root, "webhook", "resume", ids, drop="on")
    assert {row.state for row in Webhook.objects.all()} == {"active"}
    assert "Done with 3 of 3." in many(root, "webhook", "ping", ids)
    assert "Done with 2 of 2." in many(root, "webhook", "delete", ids[:2])
    assert [row.pk for row in Webhook.objects.all()] == ids[2:]
    assert done("webhook.delete", *ids[:2])


def test_keys_of_a_list_are_revoked_together(root: Client) -> None:  # noqa: F811
    keys = [apikeys.create(f"k{n}", ["view_job"], **WHO).key.pk for n in range(3)]
    apikeys.revoke(keys[0], **WHO)
    assert buttons(root, "apikey") == {"revoke"}
    told = many(root, "apikey", "revoke", keys)
    assert "Done with 2 of 3." in told and "It is revoked already." in told
    assert done("apikey.revoke", *keys[1:])
    assert not ApiKey.objects.filter(revoked_at=None).exists()


def test_a_key_that_may_more_than_the_person_stops_no_other(client: Client, db: None) -> None:
    user = User.objects.create_user("ann", is_staff=True)
    wanted = ["view_apikey", "manage_apikey", "view_job"]
    user.user_permissions.set(Permission.objects.filter(codename__in=wanted))
    client.force_login(user)
    mighty, small = (
        apikeys.create(name, [name], **WHO).key.pk for name in ("retry_job", "view_job")
    )
    told = many(client, "apikey", "revoke", [mighty, small])
    assert "Done with 1 of 2." in told and "retry_job" in told
    assert [key.pk for key in ApiKey.objects.filter(revoked_at=None)] == [mighty]


def test_windows_of_a_list_are_dealt_with_together(root: Client) -> None:  # noqa: F811
    ids = [MAKERS["blackout.update"]()[0][0] for _ in range(3)]
    assert buttons(root, "blackout") == {"enable", "disable", "delete"}
    blackouts.enable(ids[0], False, **WHO)
    told = many(root, "blackout", "disable", ids)
    assert "Done with 2 of 3." in told and "It has no effect now." in told
    assert done("blackout.update", *ids[1:])
    assert {row.enabled for row in Blackout.objects.all()} == {False}
    assert "Done with 3 of 3." in many(root, "blackout", "delete", [*ids, ids[0], 404])
    assert done("blackout.delete", *ids) and not Blackout.objects.exists()


def test_workers_of_a_list_are_sent_home_together(root: Client) -> None:  # noqa: F811
    for name in ("w1", "w2", "w3"):
        roll.announce(name, 1, ["default"], 4)
    assert buttons(root, "workerpage") == {"drain", "stop"}
    workers.drain("w1", **WHO)
    told = many(root, "workerpage", "drain", ["w1", "w2", "w3"])
    assert "Done with 2 of 3." in told and "It takes no more already." in told
    assert done("worker.drain", "w2", "w3")
    assert "Done with 3 of 3." in many(root, "workerpage", "stop", ["w1", "w2", "w3"])
    assert done("worker.stop", "w1", "w2", "w3")


def test_many_need_a_reason(root: Client) -> None:  # noqa: F811
    ids = [a_webhook(), a_webhook()]
    url = f"/admin/jobs/webhook/many/?action=pause&_selected={ids[0]}&_selected={ids[1]}"
    assert root.post(url, {"reason": " "}).status_code == 422
    assert {row.state for row in Webhook.objects.all()} == {"active"}
    assert outcomes("webhook.pause") == []
