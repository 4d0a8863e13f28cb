"""Deliveries: signed, told once, tried again, held back, and never lost."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs.engine import outbox, sending
from jobs.engine import webhooks as engine
from jobs.errors import NotAllowed
from jobs.http import network
from jobs.models import DeadLetter, Job, Webhook, WebhookDelivery
from jobs.operate import deadletters
from jobs.operate import webhooks as desk
from jobs.testing import emitted, freeze_clock, run_jobs
from tests.http.servers import answer, drip, redirect
from tests.jobs.crowd import at_once
from tests.jobs.factories import sql
from tests.specimens.handlers import Fail
from tests.webhooks.conftest import Receiver, the_delivery

pytestmark = pytest.mark.django_db
Tell = Callable[..., UUID]
WHO: dict[str, Any] = {"by": "test", "reason": "test"}
FAIL = answer(b"no", "500 Oops")


def test_an_event_arrives_signed_over_its_raw_bytes(
    receiver: Receiver, webhook: desk.Made, tell: Tell
) -> None:
    event = tell("order.paid", "order:1", n=1, text="é\u2028")
    assert run_jobs().succeeded == 1
    headers, [body] = receiver.server.headers(), receiver.bodies
    digest = hmac.new(webhook.secret.encode(), body, hashlib.sha256).hexdigest()
    assert headers["x-signature"] == f"sha256={digest}"
    told = receiver.verified(webhook.secret)
    assert told == {
        "eventType": "order.paid",
        "eventId": str(event),
        "timestamp": headers["x-sent-at"],
        "sequenceNumber": 1,
        "data": {"n": 1, "text": "é\u2028"},
    }
    assert (headers["x-event-id"], headers["x-retry-count"]) == (str(event), "0")
    made = the_delivery()
    assert (made.state, made.tries, made.log[0]["status"]) == ("delivered", 1, 200)


def test_tries_follow_the_list_and_end_as_a_dead_letter(
    receiver: Receiver, webhook: desk.Made, tell: Tell
) -> None:
    receiver.say(answer(b"mail jane.roe@example.com", "400 Bad"))
    with freeze_clock() as clock:
        event = tell()
        run_jobs()
        for number, delay in enumerate((60, 300, 1800, 7200, 86400), 1):
            clock.tick(delay - 1)
            assert len(run_jobs()) == 0
            clock.tick(1)
            assert len(run_jobs()) == 1
            headers = receiver.server.headers()
            assert headers["x-retry-count"] == str(number)
            assert headers["x-event-id"] == str(event)
            assert receiver.verified(webhook.secret, number)["timestamp"] == headers["x-sent-at"]
        made = the_delivery()
        assert (made.state, made.tries, len(made.log)) == ("failed", 6, 6)
        assert DeadLetter.objects.get().job_id == made.job_id
        assert "jane.roe" not in str(made.log) and "400" in Job.objects.get().error
        clock.tick(timedelta(days=9))
        emitted()  # its failure is an event, which makes no delivery of its own
        assert len(run_jobs()) == 0


@pytest.mark.parametrize("status", ["429 Slow", "503 Busy"])
def test_a_receiver_may_ask_for_more_time(
    receiver: Receiver, webhook: desk.Made, tell: Tell, status: str
) -> None:
    receiver.say(answer(b"", status, Retry_After="600"))
    with freeze_clock() as clock:
        tell()
        run_jobs()
        clock.tick(599)
        assert len(run_jobs()) == 0
        clock.tick(1)
        assert len(run_jobs()) == 1


def test_a_receiver_that_is_gone_is_told_nothing_more_and_nothing_is_lost(
    receiver: Receiver, webhook: desk.Made, tell: Tell
) -> None:
    receiver.say(answer(b"", "410 Gone"))
    first = tell()
    run_jobs()
    second = tell()
    assert len(run_jobs()) == 0
    found = Webhook.objects.get()
    assert (found.state, found.stopped_by) == ("disabled", "jobs")
    [event] = emitted("jobs.webhook.disabled")
    assert (event.tenant, event.payload["host"]) == ("acme", "127.0.0.1")
    assert webhook.secret not in str(event)
    receiver.say(answer())
    assert desk.resume(webhook.id, **WHO) == 3  # the event of its disabling is one, too
    assert run_jobs().succeeded == 3
    ids = [told["eventId"] for told in receiver.told]
    assert ids == [str(first), str(first), str(event.id), str(second)]


def test_lasting_failure_disables(
    receiver: Receiver, webhook: desk.Made, tell: Tell, on: Any
) -> None:
    receiver.say(FAIL)
    with freeze_clock() as clock:
        for _ in range(sending.LEAST - 1):
            tell()
        run_jobs()
        assert Webhook.objects.get().state == "active"
        clock.tick(timedelta(days=3))
        tell()
        run_jobs()
        found = Webhook.objects.get()
        assert (found.state, found.failures) == ("disabled", sending.LEAST)
        assert "every try has failed since" in found.stopped_reason
        clock.tick(timedelta(days=3))
        run_jobs()
        states = set(WebhookDelivery.objects.values_list("state", flat=True))
        assert states == {"held"}
        assert len(receiver.bodies) == sending.LEAST


def test_one_success_counts_all_anew(receiver: Receiver, webhook: desk.Made, tell: Tell) -> None:
    receiver.say(FAIL)
    tell()
    run_jobs()
    receiver.say(answer(b"", "204 Fine"))
    tell()
    run_jobs()
    found = Webhook.objects.get()
    assert (found.failures, found.failing_since) == (0, None)


def test_a_pause_keeps_deliveries_in_their_order(
    receiver: Receiver, webhook: desk.Made, tell: Tell
) -> None:
    tell(key="a", n=1)  # its job exists when the pause begins
    desk.pause(webhook.id, **WHO)
    tell(key="a", n=2)
    run_jobs()
    assert receiver.bodies == []
    with pytest.raises(NotAllowed):
        desk.pause(webhook.id, **WHO)
    assert desk.resume(webhook.id, **WHO) == 2
    tell(key="a", n=3)
    run_jobs()
    assert [told["sequenceNumber"] for told in receiver.told] == [1, 2, 3]
    assert [told["data"]["n"] for told in receiver.told] == [1, 2, 3]


def test_what_waited_may_be_dropped(receiver: Receiver, webhook: desk.Made, tell: Tell) -> None:
    desk.pause(webhook.id, **WHO)
    tell()
    assert desk.resume(webhook.id, drop=True, **WHO) == 1
    assert len(run_jobs()) == 0
    assert the_delivery().state == "dropped"


# ---- receivers that do harm


def test_a_slow_receiver_is_left(
    receiver: Receiver, webhook: desk.Made, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TIMEOUT", 0.3)
    receiver.say(drip(answer(b"x" * 10_000)))
    tell()
    run_jobs()
    [one] = the_delivery().log
    assert one["problem"].startswith("TooSlow") and one["ms"] >= 250


def test_a_redirect_is_not_followed(receiver: Receiver, webhook: desk.Made, tell: Tell) -> None:
    receiver.say(redirect("http://169.254.169.254/latest", "307 There"))
    tell()
    run_jobs()
    assert the_delivery().log[0]["status"] == 307
    assert len(receiver.server.seen) == 1


@pytest.mark.parametrize("charset", ["hex", "rot13", "idna", "bz2_codec", "none", "utf-16"])
def test_no_encoding_of_an_answer_hides_a_try(
    receiver: Receiver, webhook: desk.Made, tell: Tell, charset: str
) -> None:
    kind = f"text/plain; charset={charset}"
    receiver.say(answer(b"no \xff thanks", "500 No", Content_Type=kind))
    tell()
    run_jobs()
    [one] = the_delivery().log
    assert one["status"] == 500 and "thanks" in str(one)


def test_a_huge_answer_is_not_read(receiver: Receiver, webhook: desk.Made, tell: Tell) -> None:
    receiver.say(answer(b"x" * (sending.ANSWER_LIMIT + 1)))
    tell()
    run_jobs()
    [one] = the_delivery().log
    assert one["problem"].startswith("TooLarge") and len(str(one)) < 1000


def test_a_name_that_comes_to_mean_a_private_address_is_not_called(
    on: Any, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialed: list[object] = []
    answers = [["93.184.215.14"], ["10.0.0.7"]]
    on.JOBS = {**on.JOBS, "HTTP_ALLOW": []}

    def dial(address: object, port: int, seconds: float) -> Any:
        dialed.append(str(address))
        raise OSError("nobody there")

    monkeypatch.setattr(network, "dial", dial)
    monkeypatch.setattr(network, "lookup", lambda host: answers.pop(0))
    desk.create("http://hooks.example.com/", tenant="acme", **WHO)
    with freeze_clock() as clock:
        tell()
        run_jobs()
        clock.tick(60)
        run_jobs()
    assert dialed == ["93.184.215.14"] and answers == []
    assert the_delivery().tries == 2


# ---- once, whatever happens


def test_a_crash_between_sending_and_writing_sends_the_same_event_again(
    receiver: Receiver, webhook: desk.Made, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = tell()
    record = sending.record

    def die(*_: Any, **__: Any) -> str:
        raise RuntimeError("the process died")

    monkeypatch.setattr(sending, "record", die)
    with freeze_clock() as clock:
        run_jobs()
        monkeypatch.setattr(sending, "record", record)
        clock.tick(60)
        assert run_jobs().succeeded == 1
    assert [told["eventId"] for told in receiver.told] == [str(event)] * 2
    assert [receiver.server.headers(n)["x-retry-count"] for n in (0, 1)] == ["0", "1"]
    assert the_delivery().state == "delivered"


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (lambda job: jobs.cancel(job, by="test"), "dropped"),
        (
            lambda job: sql(
                "UPDATE jobs_job SET state = 'expired', finished_at = jobs_clock() WHERE id = %s",
                [job],
            ),
            "failed",
        ),
    ],
)
def test_a_delivery_does_not_wait_for_a_job_that_has_ended(
    receiver: Receiver, webhook: desk.Made, tell: Tell, end: Callable[[UUID], Any], state: str
) -> None:
    tell()
    job = the_delivery().job_id
    assert job is not None
    end(job)
    made = the_delivery()
    assert (made.state, made.closed_at is not None) == (state, True)
    jobs.retry(job, by="test")
    assert run_jobs().succeeded == 1
    assert the_delivery().state == "delivered" and len(receiver.bodies) == 1


def test_a_handler_that_breaks_before_it_sends_leaves_no_delivery_waiting(
    webhook: desk.Made, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "send", lambda parcel: 1 / 0)
    with freeze_clock() as clock:
        tell()
        for delay in (*engine.DELAYS, 0):
            assert the_delivery().state == "waiting"
            run_jobs()
            clock.tick(delay)
    assert (the_delivery().state, Job.objects.get(kind=engine.KIND).state) == ("failed", "failed")


def test_an_event_that_is_told_twice_makes_one_delivery(webhook: desk.Made, tell: Tell) -> None:
    tell()
    [event] = emitted("order.paid")
    engine.subscribe(event)
    assert WebhookDelivery.objects.count() == Job.objects.count() == 1


def test_a_failed_delivery_does_not_hold_up_its_key(
    receiver: Receiver, webhook: desk.Made, tell: Tell
) -> None:
    receiver.say(FAIL)
    with freeze_clock() as clock:
        tell(key="a")
        run_jobs()
        receiver.say(answer())
        tell(key="a")
        run_jobs()
        clock.tick(60)
        run_jobs()
    assert [told["sequenceNumber"] for told in receiver.told] == [1, 2, 1]


def test_a_delivery_can_be_sent_again(receiver: Receiver, webhook: desk.Made, tell: Tell) -> None:
    event = tell()
    with pytest.raises(NotAllowed):
        desk.redeliver(the_delivery().id, **WHO)  # its first job is still there
    run_jobs()
    desk.redeliver(the_delivery().id, **WHO)
    assert run_jobs().succeeded == 1
    assert [told["eventId"] for told in receiver.told] == [str(event)] * 2
    assert receiver.server.headers()["x-retry-count"] == "1"


def test_a_deleted_webhook_is_sent_nothing(
    receiver: Receiver, webhook: desk.Made, tell: Tell
) -> None:
    tell()
    desk.delete(webhook.id, **WHO)
    assert run_jobs().succeeded == 1
    assert receiver.bodies == [] and Job.objects.get().result == {"outcome": "gone"}


@pytest.mark.django_db(transaction=True)
def test_two_relays_make_one_delivery(webhook: desk.Made) -> None:
    for number in range(20):
        jobs.emit("order.paid", {"n": number}, tenant="acme", key="a")

    def relay() -> None:
        while sql("SELECT 1 FROM jobs_outbox LIMIT 1"):
            outbox.relay_once(3)

    at_once([relay, relay])
    found = WebhookDelivery.objects.order_by("sequence")
    assert [made.data["n"] for made in found] == list(range(20))
    assert [made.sequence for made in found] == list(range(1, 21))
    assert Job.objects.filter(kind=engine.KIND).count() == 20


def test_what_becomes_of_deliveries_makes_none_whoever_listens(
    receiver: Receiver, tell: Tell
) -> None:
    receiver.say(FAIL)
    made = desk.create(receiver.url, tenant=desk.EVERY_TENANT, **WHO)
    with freeze_clock() as clock:
        tell()
        for delay in (0, *engine.DELAYS):
            clock.tick(delay)
            run_jobs()
    letter = DeadLetter.objects.get()
    deadletters.discard_letter(letter.pk, **WHO)
    told = [event.topic for event in emitted() if event.payload.get("kind") == engine.KIND]

    assert "jobs.job.failed" in told and len(run_jobs()) == 0
    assert [one.webhook_id for one in WebhookDelivery.objects.all()] == [made.id]

    jobs.enqueue(Fail(), max_attempts=1)  # what becomes of others is told
    run_jobs()
    emitted()
    assert WebhookDelivery.objects.filter(topic="jobs.job.failed").count() == 1
