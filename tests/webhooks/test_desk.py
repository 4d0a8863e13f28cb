"""Who may do what with webhooks, and what never leaves them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import Permission

import jobs
from jobs.engine import retention
from jobs.errors import Denied, EventError, InvalidOption, NotAllowed, UnknownTarget
from jobs.models import Audit, Webhook, WebhookDelivery
from jobs.operate import webhooks as desk
from jobs.principals import ALL, Principal, Scope
from jobs.protection import users_of_keys
from jobs.testing import emitted, freeze_clock, run_jobs
from jobs.webhooks import BadSignature
from tests.jobs.factories import sql
from tests.webhooks.conftest import Receiver

pytestmark = pytest.mark.django_db
Tell = Callable[..., UUID]
WHO: dict[str, Any] = {"by": "test", "reason": "test"}


def test_a_tenants_webhook_is_told_of_his_own_events_only(receiver: Receiver, tell: Tell) -> None:
    mine = desk.create(receiver.url, tenant="acme", **WHO)
    every = desk.create(receiver.url, tenant=desk.EVERY_TENANT, **WHO)
    own = tell(tenant="acme", key="k")
    other = tell(tenant="other", key="k")
    nobodys = tell(tenant="")
    staff = jobs.emit("a.staff", {}, tenant="acme", audience="staff")
    emitted()

    def told(webhook: UUID) -> set[UUID]:
        return {d.event_id for d in WebhookDelivery.objects.filter(webhook_id=webhook)}

    assert told(mine.id) == {own}
    assert told(every.id) == {own, other, nobodys, staff}
    keys = WebhookDelivery.objects.filter(webhook_id=every.id).values_list("key", "sequence")
    assert {("acme/k", 1), ("other/k", 1)} <= set(keys)


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        (None, {"order.paid", "mail.sent"}),
        ("order.*", {"order.paid"}),
        (["x", "mail.sent"], {"mail.sent"}),
    ],
)
def test_topics_are_globs(receiver: Receiver, tell: Tell, topics: Any, found: set[str]) -> None:
    desk.create(receiver.url, tenant="acme", topics=topics, **WHO)
    tell("order.paid")
    tell("mail.sent")
    assert set(WebhookDelivery.objects.values_list("topic", flat=True)) == found


def test_a_change_holds_for_what_waits(receiver: Receiver, tell: Tell) -> None:
    made = desk.create("http://127.0.0.1:1/", tenant="acme", **WHO)
    tell()
    desk.edit(made.id, url=receiver.url, topics="mail.*", name="main", **WHO)
    tell()
    run_jobs()
    assert len(receiver.bodies) == 1


def test_an_old_secret_signs_beside_the_new_one_for_a_while(
    receiver: Receiver, webhook: desk.Made, tell: Tell
) -> None:
    with freeze_clock() as clock:
        made = desk.rotate_secret(webhook.id, overlap=timedelta(hours=1), **WHO)
        tell()
        run_jobs()
        assert receiver.verified(made.secret) == receiver.verified(webhook.secret)
        clock.tick(3600)
        tell()
        run_jobs()
        assert receiver.verified(made.secret)
        with pytest.raises(BadSignature):
            receiver.verified(webhook.secret)
        now = desk.rotate_secret(webhook.id, overlap=0, **WHO)
        tell()
        run_jobs()
        with pytest.raises(BadSignature):
            receiver.verified([webhook.secret, made.secret])
        assert receiver.verified(now.secret)


def test_a_ping_goes_whatever_the_topics(receiver: Receiver) -> None:
    made = desk.create(receiver.url, tenant="acme", topics="nothing", **WHO)
    desk.ping(made.id, **WHO)
    assert run_jobs().succeeded == 1
    assert receiver.verified(made.secret)["eventType"] == "jobs.webhook.ping"


def test_secrets_are_nowhere(
    receiver: Receiver, webhook: desk.Made, tell: Tell, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tell()
    run_jobs()
    made = desk.rotate_secret(webhook.id, **WHO)
    tables = ("jobs_webhook", "jobs_webhookdelivery", "jobs_job", "jobs_feed", "jobs_outbox")
    stored = str([sql(f"SELECT t::text FROM {table} t") for table in tables])  # noqa: S608
    for text in (stored, caplog.text, repr(made), str(vars(Webhook.objects.get()))):
        assert made.secret not in text and webhook.secret not in text
    assert receiver.bodies and len(stored) > 500


ACTS: list[Callable[[UUID, Any], object]] = [
    lambda w, by: desk.create("https://a.example.com/", tenant="acme", by=by, reason="r"),
    lambda w, by: desk.edit(w, name="x", by=by, reason="r"),
    lambda w, by: desk.pause(w, by=by, reason="r"),
    lambda w, by: desk.resume(w, by=by, reason="r"),
    lambda w, by: desk.rotate_secret(w, by=by, reason="r"),
    lambda w, by: desk.delete(w, by=by, reason="r"),
    lambda w, by: desk.ping(w, by=by, reason="r"),
    lambda w, by: desk.redeliver(WebhookDelivery.objects.get().id, by=by, reason="r"),
    lambda w, by: desk.every(by=by) or desk.deliveries(w, by=by),
    lambda w, by: desk.deliveries(w, by=by),
]


@pytest.mark.parametrize("act", ACTS)
def test_whoever_lacks_the_permission_does_nothing(
    webhook: desk.Made, tell: Tell, act: Callable[[UUID, Any], object]
) -> None:
    tell()
    with pytest.raises(Denied):
        act(webhook.id, Principal("ann", "api", frozenset()))


@pytest.mark.parametrize("act", ACTS)
def test_another_tenants_webhook_does_not_exist(
    webhook: desk.Made, tell: Tell, act: Callable[[UUID, Any], object]
) -> None:
    tell()
    with pytest.raises(UnknownTarget):
        act(webhook.id, Principal("ann", "api", ALL, Scope(frozenset({"other"}))))


def test_whoever_sees_only_some_queues_sees_no_webhook(webhook: desk.Made) -> None:
    ann = Principal("ann", "api", ALL, Scope(queues=frozenset({"default"})))
    assert desk.every(by=ann) == []
    for act in (desk.pause, desk.ping):
        with pytest.raises(UnknownTarget):
            act(webhook.id, by=ann, reason="r")
    with pytest.raises(UnknownTarget):
        desk.find(webhook.id, by=ann)


def test_the_audit_knows_where_a_webhook_leads_and_no_more(on: Any) -> None:
    made = desk.create("https://a.example.com/t0ken?key=s3cret", tenant="acme", **WHO)
    desk.edit(made.id, url="https://b.example.com/t0ken", **WHO)
    desk.rotate_secret(made.id, overlap=60, **WHO)
    rows = list(Audit.objects.order_by("at", "id"))
    assert rows[0].detail["after"]["host"] == "https://a.example.com"
    assert rows[1].detail["before"] == {"host": "https://a.example.com"}
    assert rows[2].detail == {"overlap_seconds": 60}
    told = str([row.detail for row in rows])
    assert "t0ken" not in told and "s3cret" not in told and made.secret not in told


def test_somebody_of_a_tenant_makes_no_webhook_of_everybodys(on: Any) -> None:
    ann = Principal("ann", "api", ALL, Scope(frozenset({"acme"})))
    with pytest.raises(UnknownTarget):
        desk.create("https://a.example.com/", tenant=desk.EVERY_TENANT, by=ann, reason="r")
    made = desk.create("https://a.example.com/", tenant="acme", by=ann, reason="r")
    assert [webhook.id for webhook in desk.every(by=ann)] == [made.id]


def test_a_webhook_of_all_tenants_is_for_staff(on: Any) -> None:
    """It gets the events for administrators."""
    program = Principal("program", "api", ALL, is_staff=False)
    with pytest.raises(InvalidOption, match="for staff"):
        desk.create("https://a.example.com/", tenant=desk.EVERY_TENANT, by=program, reason="r")
    made = desk.create("https://a.example.com/", tenant=desk.EVERY_TENANT, **WHO)
    assert desk.every(by=program) == []
    for act in (desk.find, partial(desk.edit, name="mine", reason="r")):
        with pytest.raises(UnknownTarget):
            act(made.id, by=program)


@pytest.mark.parametrize("tenants", [None, ["acme", "other"]])
def test_whoever_sees_several_tenants_says_whose_events_they_are(
    on: Any, tenants: list[str] | None
) -> None:
    scope = Scope(tenants=None if tenants is None else frozenset(tenants))
    ann = Principal("ann", "api", frozenset({"manage_webhook", "view_webhook"}), scope)
    for none in ({}, {"tenant": None}, {"tenant": ""}):
        with pytest.raises(InvalidOption, match=r"^tenant: is missing"):
            desk.create("https://a.example.com/", by=ann, reason="r", **none)
    assert not Webhook.objects.exists()


def test_whoever_sees_one_tenant_need_not_name_it(on: Any) -> None:
    ann = Principal("ann", "api", frozenset({"manage_webhook"}), Scope(frozenset({"acme"})))
    made = desk.create("https://a.example.com/", by=ann, reason="r")
    assert Webhook.objects.get(pk=made.id).tenant == "acme"
    with pytest.raises(UnknownTarget):
        desk.create("https://a.example.com/", tenant=desk.EVERY_TENANT, by=ann, reason="r")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"url": "ftp://a.example.com/"}, "url"),
        ({"url": "https://me:secret@a.example.com/"}, "url"),
        ({"url": "http://169.254.169.254/"}, "url"),
        ({"url": 7}, "url"),
        ({"tenant": "a\0b"}, "tenant"),
        ({"tenant": ""}, "tenant"),
        ({"tenant": None}, "tenant"),
        ({"name": "x" * 500}, "name"),
        ({"reason": ""}, "reason"),
        ({"by": " "}, "by"),
        ({"topics": "a|b"}, "topics"),
    ],
)
def test_bad_input_names_its_option(on: Any, options: dict[str, Any], name: str) -> None:
    good = {"url": "https://a.example.com/", "tenant": "acme", **WHO}
    with pytest.raises((InvalidOption, EventError), match=f"^{name}: ") as caught:
        desk.create(**{**good, **options})
    assert "secret" not in str(caught.value)
    assert not Webhook.objects.exists()


def test_what_is_not_there_or_not_possible_is_said(on: Any, webhook: desk.Made) -> None:
    for act in (desk.pause, desk.resume, desk.ping, desk.delete, desk.redeliver):
        with pytest.raises(UnknownTarget):
            act(uuid4(), **WHO)
    with pytest.raises(NotAllowed, match="paused or disabled"):
        desk.resume(webhook.id, **WHO)
    with pytest.raises(InvalidOption, match="overlap"):
        desk.rotate_secret(webhook.id, overlap=timedelta(days=31), **WHO)
    with pytest.raises(InvalidOption, match="url"):
        desk.edit(webhook.id, **WHO)


def test_without_the_setting_there_are_none_and_no_key_is_asked_for(settings: Any) -> None:
    with pytest.raises(InvalidOption, match="WEBHOOKS"):
        desk.create("https://a.example.com/", tenant="acme", **WHO)
    assert not [name for name in users_of_keys() if "ebhook" in name]
    settings.JOBS = {"WEBHOOKS": True}
    assert [name for name in users_of_keys() if "ebhook" in name]


def test_the_permission_to_see_is_named_after_the_webhook() -> None:
    names = Permission.objects.filter(content_type__app_label="jobs")
    assert names.filter(codename="view_webhook").exists()


def test_old_deliveries_go_and_what_is_tried_stays(webhook: desk.Made, tell: Tell) -> None:
    with freeze_clock() as clock:
        tell(n=1)
        desk.pause(webhook.id, **WHO)
        tell(n=2)
        clock.tick(timedelta(days=29))
        assert sum(p.rows.get("deliveries", 0) for p in retention.sweep()) == 0
        clock.tick(timedelta(days=2))
        assert sum(p.rows.get("deliveries", 0) for p in retention.sweep(dry_run=True)) == 1
        assert sum(p.rows.get("deliveries", 0) for p in retention.sweep()) == 1
    assert WebhookDelivery.objects.get().data == {"n": 1}
