"""Webhooks of one tenant: few enough that the one relay of all tenants keeps up."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

import jobs
from jobs.engine import outbox
from jobs.engine.relay import Relay
from jobs.errors import InvalidOption
from jobs.models import Job, Webhook, WebhookDelivery
from jobs.operate import webhooks as desk
from tests.api.conftest import Caller
from tests.attack.slow import MOMENT
from tests.jobs.factories import sql
from tests.webhooks.conftest import on  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("on")]
WHO: dict[str, Any] = {"by": "tests", "reason": "a test"}
URL = "https://a.example.com/"


def some(count: int, tenant: str) -> None:
    for _ in range(count):
        desk.create(URL, tenant=tenant, **WHO)


def test_a_tenant_has_a_number_of_webhooks(on: Any) -> None:  # noqa: F811
    on.JOBS = {**on.JOBS, "WEBHOOK_LIMIT": 2}
    some(2, "acme")

    with pytest.raises(InvalidOption, match="tenant 'acme' may have no more than 2 webhooks"):
        desk.create(URL, tenant="acme", **WHO)
    some(2, "other")
    some(2, desk.EVERY_TENANT)
    with pytest.raises(InvalidOption, match="the platform may have no more than 2"):
        desk.create(URL, tenant=desk.EVERY_TENANT, **WHO)
    desk.delete(Webhook.objects.filter(tenant="acme")[0].pk, **WHO)
    desk.create(URL, tenant="acme", **WHO)


def test_the_limit_is_told_over_the_api(on: Any) -> None:  # noqa: F811
    on.JOBS = {**on.JOBS, "WEBHOOK_LIMIT": 1}
    acme = Caller(tenants=["acme"])
    body = {"url": URL, "reason": "a test"}
    assert acme("POST", "/webhooks", body).status_code == 201

    answer = acme("POST", "/webhooks", body)

    assert (answer.status_code, answer.data["code"]) == (422, "invalid-option")
    assert "no more than 1" in answer.data["detail"] and Webhook.objects.count() == 1


def statements_of_one_event() -> int:
    jobs.emit("order.paid", {"n": 1}, key="order:1", tenant="acme")
    with CaptureQueriesContext(connection) as caught:
        assert outbox.relay_once().published == 1
    return len(caught)


def test_an_event_for_many_webhooks_takes_as_many_statements_as_for_one() -> None:
    some(1, "acme")
    one = statements_of_one_event()
    some(19, "acme")

    assert statements_of_one_event() == one
    assert WebhookDelivery.objects.count() == Job.objects.count() == 21
    numbers = WebhookDelivery.objects.values_list("webhook_id", "sequence")
    assert sorted(n for _, n in numbers) == [1] * 20 + [2]


def published(topic: str) -> bool:
    return bool(sql("SELECT 1 FROM jobs_feed WHERE topic = %s", [topic]))


def emit_many(count: int, tenant: str) -> None:
    with transaction.atomic():
        for number in range(count):
            jobs.emit("order.paid", {"n": number}, tenant=tenant)


def test_many_events_for_many_webhooks_hold_up_no_other_tenant() -> None:
    some(20, "acme")
    emit_many(60, "acme")
    jobs.emit("order.other", {}, tenant="other")

    begun = time.monotonic()
    portion = outbox.relay_once()

    assert published("order.other")
    assert time.monotonic() - begun < MOMENT
    if portion.published < 60:  # its time was up
        assert Relay().work(budget=60) == 61 - portion.published
    assert WebhookDelivery.objects.count() == 60 * 20
    found = sql("SELECT payload->>'n' FROM jobs_feed WHERE tenant = 'acme' ORDER BY position")
    assert [number for (number,) in found] == list(map(str, range(60)))


def test_a_portion_ends_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "STRETCH", 0.0)
    some(1, "acme")
    emit_many(20, "acme")
    for number in range(3):
        jobs.emit("order.other", {}, tenant=f"other {number}")

    assert outbox.relay_once().published == 8  # five of acme's, and the others'
    assert published("order.other")
    assert Relay().work(budget=60) == 15


def test_more_events_of_one_tenant_than_a_portion_hold_up_no_other() -> None:
    emit_many(30, "acme")
    for number in range(3):
        jobs.emit("order.other", {}, tenant=f"other {number}")

    assert outbox.relay_once(10).published == 5  # its share of two, and the others'
    assert published("order.other")


def test_more_tenants_than_a_portion_has_room_for_take_turns() -> None:
    for name in ("a", "b", "c", "d", "", "e"):
        for number in range(30):
            jobs.emit(f"of.{number}", {}, tenant=name)

    told = [outbox.relay_once(4).published for _ in range(3)]

    seen = sql("SELECT tenant, count(*) FROM jobs_feed GROUP BY tenant ORDER BY tenant")
    assert told == [4, 4, 4] and {tenant for tenant, _ in seen} == {"", "a", "b", "c", "d", "e"}
