"""The first page: what it counts, whom it shows what, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.engine import arrivals, roll, rq, sql
from jobs.errors import Denied, InvalidOption, UnknownTarget
from jobs.operate import charts, depths, overview, pauses
from jobs.operate.reads import Count
from jobs.principals import ALL, Principal, Scope
from jobs.testing import freeze_clock
from tests.jobs.factories import a_claim, a_job, ended, settle
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db

ME = "test"
NOON = datetime(2040, 1, 1, 12, tzinfo=UTC)
ACME = Principal("ana", scope=Scope(tenants=frozenset({"acme"})))
ONE = Principal("ben", scope=Scope(queues=frozenset({"one"})))


@pytest.fixture
def noon() -> Iterator[None]:
    with freeze_clock(NOON):
        yield


def codes(found: overview.Overview) -> set[str]:
    return {p.code for p in found.problems}


def subjects(found: overview.Overview, code: str) -> list[str]:
    return [p.subject for p in found.problems if p.code == code]


def a_lease(worker: str, until: str, dead: str = "NULL", queue: str = "default") -> None:
    sql.run(
        f"INSERT INTO jobs_lease (owner, worker, queues, until, dead_at) VALUES "  # noqa: S608
        f"(gen_random_uuid(), %s, %s, jobs_clock() + interval '{until}', {dead})",
        [worker, [queue]],
    )


def minute(outcome: str, number: int, back: str = "2 min", queue: str = "default") -> None:
    sql.run(
        "INSERT INTO jobs_minute (kind, queue, outcome, minute, count, buckets) VALUES "
        "('k', %s, %s, date_trunc('minute', jobs_clock() - %s::interval), %s, '{}')",
        [queue, outcome, back, number],
    )


def test_it_counts_and_names_what_is_wrong() -> None:
    a_job()
    a_job("running")
    a_job("queued")
    a_job(delay=60)
    sql.run("UPDATE jobs_job SET run_at = run_at - interval '5 min' WHERE wait = 0")
    found = overview.overview(by=ME)
    tiles = {name: number.value for name, number in found.tiles.items()}
    assert tiles == {
        "waiting": 2, "running": 1, "scheduled": 1, "retrying": 0, "dead": 0, "done": 0, "failed": 0
    }  # fmt: skip
    [default] = [r for r in found.queues if r.name == "default"]
    assert (default.depth.waiting, default.depth.running) == (Count(2), Count(1))
    assert default.depth.slots == 0 and default.depth.oldest >= 300
    assert {"no_worker", "long_wait"} <= codes(found)
    assert overview.as_data(found)["tiles"]["waiting"] == {"value": 2, "capped": False}


def test_a_count_says_that_it_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        a_job()
        a_job(delay=60)
    monkeypatch.setattr(depths, "MOST", 2)
    monkeypatch.setattr(overview, "LETTERS", 0)
    settle(ended(a_claim(), "unrecoverable"))
    found = overview.overview(by=ME)
    assert found.tiles["waiting"] == Count(2, capped=True)
    assert found.tiles["scheduled"] == Count(2, capped=True)
    assert found.tiles["dead"] == Count(0, capped=True)
    assert depths.within(ACME.scope).waiting == Count(0, capped=True)


def test_targets_are_settings(settings: Any) -> None:
    a_job()
    sql.run("UPDATE jobs_job SET run_at = run_at - interval '5 min'")
    assert "long_wait" in codes(overview.overview(by=ME))
    settings.JOBS = {**settings.JOBS, "WAIT_TARGET": 3600}
    assert "long_wait" not in codes(overview.overview(by=ME))


def test_events_that_wait_are_a_problem(settings: Any) -> None:
    import jobs

    jobs.emit("order.paid", {})
    sql.run("UPDATE jobs_outbox SET occurred_at = occurred_at - interval '5 min'")
    assert "outbox_lag" in codes(overview.overview(by=ME))
    assert "outbox_lag" not in codes(overview.overview(by=ONE))
    settings.JOBS = {**settings.JOBS, "OUTBOX_LAG_TARGET": 3600}
    assert "outbox_lag" not in codes(overview.overview(by=ME))


def test_a_worker_is_silent_or_lost_and_never_both() -> None:
    for _ in range(2):
        a_lease("w1", "-5 s")
        a_lease("w1", "-90 s", "jobs_clock()")
        a_lease("w2", "-90 s", "jobs_clock()", queue="one")
    a_lease("w3", "90 s")
    a_lease("w4", "90 s", "jobs_clock()")
    found = overview.overview(by=ME)
    assert subjects(found, "silent_worker") == ["w1"]
    assert subjects(found, "lost_worker") == ["w2"]
    assert subjects(overview.overview(by=ONE), "lost_worker") == ["w2"]
    assert subjects(overview.overview(by=ONE), "silent_worker") == []


def test_it_knows_whether_a_dispatcher_lives() -> None:
    rq.client().delete(rq.dispatchers_key())
    assert "no_dispatcher" in codes(overview.overview(by=ME))
    rq.note_dispatcher("d1")
    assert "no_dispatcher" not in codes(overview.overview(by=ME))


def test_an_unusual_rate_of_failures_is_a_problem() -> None:
    minute("succeeded", 15)
    minute("failed", 15)
    assert "failures" in codes(overview.overview(by=ME))
    minute("failed", 1000, back="5 h")
    assert "failures" not in codes(overview.overview(by=ME))


def test_queues_show_how_it_went(noon: None) -> None:
    minute("succeeded", 7)
    minute("failed", 2, back="90 min")
    minute("retried", 1, back="3 min")
    minute("limited", 9)
    found = overview.overview(by=ME)
    [default] = [r for r in found.queues if r.name == "default"]
    assert len(default.spark) == 30
    assert (default.spark[29], default.spark[15]) == (8, 2)
    assert (found.tiles["done"].value, found.tiles["failed"].value) == (7, 0)


def test_workers_are_shown_with_their_queues() -> None:
    roll.announce("w1", 1, ["default"], 4)
    assert [w.name for w in overview.overview(by=ME).workers] == ["w1"]
    assert overview.overview(by=ONE).workers == ()


# ---- whom it shows what


def test_who_sees_one_tenant_sees_what_is_of_it() -> None:
    mine, other = a_claim(Noop(), tenant="acme"), a_claim(Noop(), tenant="zeta")
    settle(ended(mine, "unrecoverable"))
    settle(ended(other, "unrecoverable"))
    a_job(tenant="acme")
    a_job(tenant="zeta")
    a_job()
    for scope in ("tenant:acme", "tenant:zeta", "kind:test.noop", "queue:default"):
        pauses.pause(scope, by=ME, reason="no")
    found = overview.overview(by=ACME)
    assert {name: n.value for name, n in found.tiles.items()} == {
        "waiting": 1, "running": 0, "scheduled": 0, "retrying": 0, "dead": 1
    }  # fmt: skip
    assert (found.queues, found.workers) == ((), ())
    assert [c.count.value for c in found.causes] == [1]
    assert [(p.code, p.subject) for p in found.problems] == [("closed", "tenant:acme")]


def test_who_sees_one_queue_sees_what_is_of_it() -> None:
    a_job(queue="one")
    a_job(queue="two")
    for queue in ("one", "two"):
        pauses.pause(f"queue:{queue}", by=ME, reason="no")
    found = overview.overview(by=ONE)
    assert [(r.name, r.depth.waiting.value, r.paused) for r in found.queues] == [
        ("one", 1, "paused by test: no")
    ]
    assert found.tiles["waiting"] == Count(1)
    assert subjects(found, "closed") == ["queue:one"]


def test_who_lacks_a_permission_misses_its_part() -> None:
    roll.announce("w1", 1, ["default"], 4)
    a_job()
    nothing = overview.overview(by=Principal("p", permissions=frozenset()))
    assert (nothing.tiles, nothing.queues, nothing.workers, nothing.problems) == ({}, (), (), ())
    some = overview.overview(by=Principal("p", permissions=ALL - {"view_worker", "view_job"}))
    assert some.queues and not some.workers and not some.tiles
    assert "no_dispatcher" not in codes(some)


# ---- what it costs


def test_it_takes_twelve_statements() -> None:
    minute("succeeded", 15)
    minute("failed", 15)
    settle(ended(a_claim(), "unrecoverable"))
    roll.announce("w1", 1, ["default"], 4)
    for who in (Principal("all"), ACME, ONE):
        with CaptureQueriesContext(connection) as seen:
            overview.overview(by=who)
        asked = [
            q["sql"]
            for q in seen
            if not q["sql"].startswith(("SAVEPOINT", "RELEASE"))
            and "statement_timeout" not in q["sql"]
        ]
        assert len(asked) <= 12, asked


# ---- charts


def test_a_deploy_is_marked_on_the_chart() -> None:
    charts.mark_deploy("v7", by=ME)
    assert [(d.version, d.by) for d in charts.throughput("1h", by=ME).deploys] == [("v7", ME)]
    for version in ("", "x" * 201, "a\x00b", None):
        with pytest.raises(InvalidOption):
            charts.mark_deploy(version, by=ME)  # type: ignore[arg-type]


@pytest.mark.parametrize("span", ["1h", "3h", "24h", "7d"])
def test_a_chart_adds_quarters_and_minutes_up(noon: None, span: Any) -> None:
    minute("succeeded", 3, back="40 min")
    minute("succeeded", 4, back="2 min")
    assert total(charts.throughput(span, by=ME)) == 7
    assert arrivals.tally()[1] == 1
    minute("failed", 1000, back="41 min")  # came too late for its quarter
    late = 1000 if span in ("1h", "3h") else 0
    assert total(charts.throughput(span, by=ME)) == 7 + late


def total(found: overview.Throughput) -> int:
    return sum(p.ended for p in found.points)


def test_a_chart_keeps_to_the_scope() -> None:
    minute("succeeded", 3, queue="one")
    minute("succeeded", 4, queue="two")
    assert total(charts.throughput("1h", by=ONE)) == 3
    assert total(charts.throughput("1h", by=ME, queue="two")) == 4
    assert charts.throughput("1h", by=ACME).points == ()
    with pytest.raises(UnknownTarget):
        charts.throughput("1h", by=ONE, queue="two")
    with pytest.raises(Denied):
        charts.throughput("1h", by=Principal("p", permissions=frozenset()))
    with pytest.raises(InvalidOption):
        charts.throughput("2h", by=ME)  # type: ignore[arg-type]


def test_a_kind_shows_its_last_outcomes() -> None:
    for state in ("succeeded", "failed"):
        a_job(state, tenant="acme")
    a_job("succeeded")
    assert charts.kind_stats("test.noop", by=ME).outcomes == ("succeeded", "failed", "succeeded")
    mine = charts.kind_stats("test.noop", by=ACME)
    assert (mine.outcomes, mine.p95) == (("succeeded", "failed"), None)


def test_a_week_has_a_point_for_every_hour(noon: None) -> None:
    points = charts.throughput("7d", by=ME).points
    assert points[0].at == NOON - timedelta(days=7) and len(points) == 7 * 24
