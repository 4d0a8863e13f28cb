"""How long emails stay, and how they end when their jobs end without them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

import jobs
from emailgw import config, retention, services
from emailgw.models import (
    Company,
    EmailBatch,
    EmailEvent,
    EmailLog,
    IdempotencyKey,
    OutboxEmail,
    Status,
    StoredHtml,
)
from emailgw.requests import parse
from emailgw.services.acceptance import job_data
from jobs import registry
from jobs.testing import freeze_clock, run_jobs
from tests.emailgw.factories import request
from tests.emailgw.sink import Sink

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def accept(company: Company, **fields: Any) -> OutboxEmail:
    made = services.accept(company, request(**fields), by="test")
    return OutboxEmail.objects.get(pk=made.outbox_id)


def cleared(dry_run: bool = False, chunk: int = 100) -> dict[str, int]:
    total: dict[str, int] = {}
    for rows in retention.clear(dry_run, chunk):
        for name, count in rows.items():
            total[name] = total.get(name, 0) + count
    return {name: count for name, count in total.items() if count}


def test_dead_letters_are_kept_for_the_time_and_the_number_of_the_contract() -> None:
    rules = registry.get("email:send")
    keep = jobs.retention.Keep(timedelta(days=7), last=10_000)
    assert (rules.keep_failed, rules.dead_letter_retention) == (keep, keep)


def test_what_was_sent_goes_after_its_time_with_all_that_it_alone_needs(
    company: Company, sink: Sink
) -> None:
    with freeze_clock() as clock:
        shared = accept(company, to="a@x.test", recipient={})
        alone = accept(company, html="<p>only here</p>", externalId="K-1")
        run_jobs()
        later = accept(company, to="b@x.test", recipient={})
        clock.tick(90 * DAY + timedelta(seconds=1))
        assert cleared() == {"email keys": 1}, "their jobs are there"
        call_command("jobs", "retention")
        assert set(OutboxEmail.objects.values_list("pk", flat=True)) == {later.pk}
    assert set(StoredHtml.objects.values_list("pk", flat=True)) == {shared.html_id}
    for model in (EmailEvent, EmailLog, IdempotencyKey):
        assert not model.objects.filter(outbox_id__in=[shared.pk, alone.pk]).exists()


def test_one_that_has_gone_is_not_sent_again_whoever_enqueues_its_job(
    company: Company, sink: Sink
) -> None:
    with freeze_clock() as clock:
        row = accept(company)
        run_jobs()
        clock.tick(91 * DAY)
        call_command("jobs", "retention")
        assert not OutboxEmail.objects.exists() and not jobs.Job.objects.exists()
        jobs.enqueue(job_data(row, parse(request())), job_id=row.pk, tenant=str(company.pk))
        assert run_jobs().failed == 1
    assert len(sink.taken) == 1


def test_a_key_holds_for_its_day_whatever_has_gone(company: Company, sink: Sink) -> None:
    def hand_in() -> Any:
        return services.accept(company, request(), by="test", idempotency_key="k").outbox_id

    with freeze_clock() as clock:
        first = hand_in()
        run_jobs()
        clock.tick(timedelta(hours=23))
        call_command("jobs", "retention")
        assert not jobs.Job.objects.filter(pk=first).exists()
        assert hand_in() == first
        clock.tick(timedelta(hours=2))
        call_command("jobs", "retention")
        assert not IdempotencyKey.objects.exists()
        assert hand_in() != first


def test_failed_and_expired_ones_stay_longer_and_doubts_for_ever(
    company: Company, sink: Sink
) -> None:
    sink.script = lambda step, address, times: {
        "gone@x.test": "550 no", "silent@x.test": "take and hang up" if step == "END" else None
    }.get(address)  # fmt: skip
    with freeze_clock() as clock:
        accept(company, to="gone@x.test", recipient={})
        doubt = accept(company, to="silent@x.test", recipient={})
        services.accept(company, request(), by="test", delay=60_000, ttl=61_000)
        run_jobs()
        clock.tick(62)
        run_jobs()
        statuses = OutboxEmail.objects.values_list("status", flat=True)
        assert sorted(statuses) == ["EXPIRED", "FAILED", "SENT_ATTEMPT"]
        clock.tick(179 * DAY)
        call_command("jobs", "retention")
        assert OutboxEmail.objects.count() == 3
        assert jobs.Job.objects.filter(pk=doubt.pk).exists()
        clock.tick(2 * DAY)
        call_command("jobs", "retention")
        assert [row.pk for row in OutboxEmail.objects.all()] == [doubt.pk]


def test_counting_deletes_nothing_and_portions_are_small(company: Company, sink: Sink) -> None:
    with freeze_clock() as clock:
        made = services.accept_many(
            company, [request(to=f"a{n}@x.test", recipient={}) for n in range(5)], by="test"
        )
        run_jobs()
        clock.tick(91 * DAY)
        jobs.Job.objects.all().delete()
        assert cleared(dry_run=True) == {"emails": 5}
        assert OutboxEmail.objects.count() == 5
        assert [rows for rows in retention.clear(False, 2) if rows.get("emails")] == [
            {"emails": 2, "email contents": 0},
            {"emails": 2, "email contents": 0},
            {"emails": 1, "email contents": 1},
        ]
    assert not StoredHtml.objects.exists()
    assert not EmailBatch.objects.filter(pk=made.id).exists()


@pytest.mark.parametrize("name", ["KEEP_SENT", "KEEP_UNSENT"])
@pytest.mark.parametrize("value", [timedelta(hours=47), 90, None])
def test_no_setting_lets_them_go_before_their_keys(name: str, value: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"{name}.* at least 2 days"):
        config.parse({name: value})


# ---- jobs that end without their emails


def test_a_cancelled_email_has_failed(company: Company, sink: Sink) -> None:
    row = accept(company)
    jobs.cancel(row.pk, by="ana", reason="wrong price")
    run_jobs()
    row.refresh_from_db()
    assert (row.status, row.error_code) == ("FAILED", "CANCELLED")
    assert EmailLog.objects.get(outbox=row).status == "FAILED"
    assert sink.taken == []


@pytest.mark.parametrize(
    ("handed_over", "status", "in_doubt"), [(0, "FAILED", False), (1, "SENT_ATTEMPT", True)]
)
def test_one_that_was_given_up_is_in_doubt_only_if_its_content_had_begun_to_leave(
    company: Company, sink: Sink, handed_over: int, status: str, in_doubt: bool
) -> None:
    row = accept(company)
    OutboxEmail.objects.filter(pk=row.pk).update(
        status=Status.SENT_ATTEMPT, run=1, handed_over=handed_over
    )
    jobs.cancel(row.pk, by="ana")
    for _ in range(2):  # it may be told twice
        run_jobs()
    row.refresh_from_db()
    assert (row.status, row.in_doubt) == (status, in_doubt)
    assert EmailEvent.objects.filter(outbox=row, type="FAILED").count() == (0 if in_doubt else 1)


def test_a_resend_has_a_day_of_its_own(company: Company, sink: Sink) -> None:
    sink.script = lambda step, address, times: "550 no" if step == "RCPT" else None
    with freeze_clock() as clock:
        row = accept(company)
        run_jobs()
        sink.script = lambda step, address, times: None
        clock.tick(timedelta(hours=23))
        services.resend(row.pk, by="ana", reason="the box is back")
        clock.tick(timedelta(hours=2))
        assert run_jobs().succeeded == 1
        row.refresh_from_db()
        assert row.status == "SENT"


def test_a_decision_about_a_doubt_is_good_for_one_more_send(company: Company, sink: Sink) -> None:
    sink.script = lambda step, address, times: "take and hang up" if step == "END" else None
    with freeze_clock() as clock:
        row = accept(company)
        for _ in range(2):
            run_jobs()
            clock.tick(2)
        services.resend(row.pk, by="ana", reason="they have not got it", even_if_sent=True)
        for _ in range(3):
            run_jobs()
            clock.tick(200)
    row.refresh_from_db()
    assert (len(sink.taken), row.in_doubt) == (2, True), "the second is a doubt of its own"
