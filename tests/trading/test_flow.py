"""The whole way over real HTTP: import, labels, events, comparison, digest."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from config.standins.trading import Coinbase, Fault
from config.standins.trading.market import PLAN
from jobs.testing import emitted, run_jobs
from tests.trading.factories import user
from trading import services
from trading.models import BiasTag, BrokerConnection, ImportRun, ScoreRun, Simulation, Trade
from trading.payloads import DigestJob, EraseSnapshots, ImportJob, ScoreJob, SimJob

pytestmark = pytest.mark.django_db(transaction=True)
DAY = "2026-01-05T00:00:00.000Z"


def imported(link: BrokerConnection) -> ImportRun:
    job = services.start_import(link, by="tests")
    run_jobs()
    return ImportRun.objects.get(pk=job)


def test_an_import_stores_labels_and_tells_the_twelve_trades(
    venue: Coinbase, link: BrokerConnection
) -> None:
    venue.page = 5
    row = imported(link)
    assert (row.state, row.pages, row.fetched, row.stored, row.percent) == ("DONE", 3, 12, 12, 100)
    labels = BiasTag.objects.filter(is_current=True).order_by("trade__ts")
    assert tuple(labels.values_list("label", flat=True)) == PLAN
    assert set(labels.values_list("source", flat=True)) == {"ai"}
    told = emitted("coach.reflect")
    assert Counter(event.payload["labels"][0]["name"] for event in told) == Counter(PLAN)
    assert {event.tenant for event in told} == {f"user:{link.user_id}"}
    assert all(
        event.payload["insight"] and len(event.payload["sparklines"]) == 24 for event in told
    )
    percents = [event.payload["percent"] for event in emitted("import.progress")]
    assert percents == sorted(percents) and percents[-1] == 100
    assert ScoreRun.objects.get().state == "DONE"


def test_the_same_import_again_changes_and_tells_nothing(
    venue: Coinbase, link: BrokerConnection
) -> None:
    imported(link)
    before = len(emitted("coach.reflect"))
    row = imported(link)
    assert (row.stored, row.conflicts, row.fetched) == (0, 0, 12)
    services.rescore(link.user_id)
    run_jobs()
    assert len(emitted("coach.reflect")) == before
    assert BiasTag.objects.count() == 12


def test_two_clicks_are_one_import(link: BrokerConnection) -> None:
    first = services.start_import(link, by="tests")
    assert services.start_import(link, by="tests") == first


def test_a_comparison_is_computed_once_and_kept_for_an_hour(
    venue: Coinbase, link: BrokerConnection
) -> None:
    imported(link)
    trade = Trade.objects.filter(side="BUY").order_by("ts")[0]
    asked = services.simulate(link.user_id, trade.pk, 3)
    assert not asked.is_fresh
    assert run_jobs().succeeded == 1
    again = services.simulate(link.user_id, trade.pk, 3)
    assert again.is_fresh and len(again.row.curves) == 72 and not again.row.is_partial
    assert again.row.hold is not None and again.row.actual is not None
    assert again.row.delta == again.row.hold - again.row.actual
    requests = venue.count("candles")
    Simulation.objects.update(fresh_until=None)
    services.simulate(link.user_id, trade.pk, 3)
    run_jobs()
    assert venue.count("candles") == requests, "the candles are cached"


def test_a_digest_is_written_once_and_told_when_it_changes(
    venue: Coinbase, link: BrokerConnection
) -> None:
    from trading.clock import now, week_of

    imported(link)
    end = week_of(now()).date()
    start = end - timedelta(days=7)
    for _ in range(2):
        services.enqueue_digest(link.user_id, start, end)
        assert run_jobs().succeeded == 1
    [event] = emitted("digest.ready")
    assert event.payload["period"] == {"start": start.isoformat(), "end": end.isoformat()}


def test_nothing_is_asked_before_the_venue_allows_it(
    venue: Coinbase, link: BrokerConnection
) -> None:
    venue.plan("fills", Fault(429, {"Retry-After": "3600"}))
    row = imported(link)
    assert (row.state, row.error, venue.count("fills")) == ("RETRY", "VENUE_LIMITED", 1)
    run_jobs()
    assert venue.count("fills") == 1


def test_a_dropped_connection_is_tried_again(venue: Coinbase, link: BrokerConnection) -> None:
    from jobs.testing import freeze_clock

    venue.plan("fills", Fault(0), Fault(503))
    with freeze_clock() as clock:
        services.start_import(link, by="tests")
        for _ in range(3):
            run_jobs()
            clock.tick(61)
    assert ImportRun.objects.get().state == "DONE"
    assert Trade.objects.count() == 12


def test_a_refused_key_pauses_the_link(venue: Coinbase, link: BrokerConnection) -> None:
    venue.accounts.clear()
    row = imported(link)
    link.refresh_from_db()
    assert (row.state, row.error) == ("FAILED", "LINK_AGAIN")
    assert (link.status, link.error) == ("paused", "LINK_AGAIN")
    assert venue.count("fills") == 2, "a single 401 may be a clock"


@pytest.mark.parametrize(
    ("payload", "more"),
    [
        (ImportJob, {"sinceIso": DAY}), (ScoreJob, {"sinceIso": DAY}),
        (SimJob, {"tradeId": 1, "horizonDays": 7}),
        (DigestJob, {"periodStart": "2026-01-05", "periodEnd": "2026-01-12"}),
        (EraseSnapshots, {}),
    ],
)  # fmt: skip
def test_a_job_for_another_user_than_its_tenant_is_refused(
    link: BrokerConnection, payload: Any, more: dict[str, Any]
) -> None:
    import jobs

    made = jobs.enqueue(payload(userId=user("other").pk, **more), tenant=f"user:{link.user_id}")
    [run] = run_jobs().runs
    assert (str(run.state), run.job_id) == ("failed", made.id) and "NOT_YOURS" in run.error
    assert jobs.get(made.id).failures == 1, "it is not tried again"
