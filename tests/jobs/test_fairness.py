"""Fairness: tenants take turns, work ages, and what may not run slows nobody down."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs.engine.admission import sync_limits
from jobs.engine.dispatch import MAX_LANES, admit, know_queues
from jobs.engine.flow import PRIORITY_STEP_MS
from tests.jobs.factories import a_job, claim_again, row, sql, succeed
from tests.specimens.handlers import Echo, Fail, Noop

pytestmark = pytest.mark.django_db
NOW = datetime(2040, 5, 6, tzinfo=UTC)
SetClock = Callable[[datetime | None], None]


@pytest.fixture(autouse=True)
def known(db: None) -> None:
    know_queues({"default"})


def many(number: int, payload: jobs.Payload | None = None, **options: Any) -> list[UUID]:
    return jobs.enqueue_many(jobs.Draft(payload or Noop(), **options) for _ in range(number))


def fed(budget: int = 100) -> list[UUID]:
    return admit("default", budget)


def tenants(ids: Sequence[UUID]) -> list[str]:
    """Whose the jobs are, in the order of the ids."""
    found = dict(sql("SELECT id, tenant FROM jobs_job WHERE id = ANY (%s)", [list(ids)]))
    return [found[job_id] for job_id in ids]


def close(*scopes: str) -> None:
    sql(
        "INSERT INTO jobs_closure (scope, why) SELECT s, 'test' FROM unnest(%s::text[]) s",
        [list(scopes)],
    )


def ready(tenant: str, number: int, kind: str = "test.noop", **columns: Any) -> None:
    """So many ready jobs, made by the database: for floods and crowds."""
    sql(
        "INSERT INTO jobs_job (id, kind, queue, state, payload, tenant, lane, rank, max_attempts, "
        "timeout, lease) SELECT gen_random_uuid(), %s, 'default', 'pending', '{}', %s, "
        "%s || E'\\x1f' || %s, (extract(epoch FROM jobs_clock()) * 1000)::bigint + n, 5, 300, 15 "
        "FROM generate_series(1, %s) n",
        [kind, tenant, tenant, kind, number],
    )


# ---- Turns


def test_tenants_take_turns_however_many_jobs_they_have() -> None:
    many(30, tenant="flood", priority=100)
    many(3, tenant="b")
    many(3, tenant="c")
    assert Counter(tenants(fed(9))) == {"flood": 3, "b": 3, "c": 3}
    assert set(tenants(fed(9))) == {"flood"}, "who is alone need not wait"


def test_the_ids_go_out_turn_by_turn() -> None:
    for tenant in "abc":
        many(3, tenant=tenant)
    order = tenants(fed(9))
    assert [set(order[n : n + 3]) for n in (0, 3, 6)] == [set("abc")] * 3


def test_turns_go_on_from_round_to_round() -> None:
    for tenant in "abcde":
        many(4, tenant=tenant)
    order = [tenants(fed(1))[0] for _ in range(20)]
    assert order == list("abcde") * 4


def test_all_kinds_of_a_tenant_are_one_turn() -> None:
    for payload in (Noop(), Echo(text=""), Fail()):
        many(10, payload, tenant="a")
    many(10, tenant="b")
    assert Counter(tenants(fed(10))) == {"a": 5, "b": 5}


def test_within_a_turn_priority_decides_also_between_kinds() -> None:
    low = a_job(tenant="a", priority=1)
    high = a_job(payload=Fail(), tenant="a", priority=9)
    middle = a_job(payload=Echo(text=""), tenant="a", priority=5)
    assert [fed(1)[0] for _ in range(3)] == [high, middle, low]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({}, {"a": 6, "b": 6}),
        ({"a": 3}, {"a": 9, "b": 3}),
        ({"a": 2, "b": 4}, {"a": 4, "b": 8}),
        ({"c": 100}, {"a": 6, "b": 6}),
    ],
)
def test_a_weight_is_so_many_in_a_row(settings: Any, weights: Any, expected: Any) -> None:
    settings.JOBS = {"WEIGHTS": weights}
    many(50, tenant="a")
    many(50, tenant="b")
    assert Counter(tenants(fed(12))) == expected


def test_a_heavy_tenant_does_not_take_the_rest_of_the_round(settings: Any) -> None:
    settings.JOBS = {"WEIGHTS": {"heavy": 100}}
    many(500, tenant="heavy")
    many(5, tenant="light")
    order = tenants(fed(101))
    assert Counter(order) == {"heavy": 100, "light": 1}


@pytest.mark.parametrize("limit", ["kind", "queue"])
def test_under_a_limit_tenants_take_turns_too(limit: str) -> None:
    scope = "kind:test.noop" if limit == "kind" else "queue:default"
    sql("INSERT INTO jobs_limiter (scope, at_once, is_declared) VALUES (%s, 1, false)", [scope])
    sync_limits()
    many(50, tenant="flood", priority=50)
    many(2, tenant="b")
    many(2, tenant="c")
    order = []
    for _ in range(6):
        [job_id] = fed()
        order += tenants([job_id])
        succeed(claim_again(job_id))
    assert sorted(order[:3]) == sorted(order[3:]) == ["b", "c", "flood"]


# ---- Age


def test_waiting_work_overtakes_higher_priorities(set_clock: SetClock) -> None:
    set_clock(NOW)
    old = a_job(priority=-100)
    steps = 200 * PRIORITY_STEP_MS / 1000
    set_clock(NOW + timedelta(seconds=steps - 1))
    newer = a_job(priority=100)
    set_clock(NOW + timedelta(seconds=steps + 1))
    newest = a_job(priority=100)
    assert [fed(1)[0] for _ in range(3)] == [newer, old, newest]


def test_low_priority_does_not_starve_under_a_stream_of_high_priority(set_clock: SetClock) -> None:
    set_clock(NOW)
    modest = a_job(priority=0)
    for second in range(90):
        set_clock(NOW + timedelta(seconds=second))
        many(2, priority=10)
        gone = fed(1)
        if modest in gone:
            break
    # Ten steps of priority weigh as much as thirty seconds: sixty jobs came before it.
    assert (row(modest).state, second) == ("queued", 60)


# ---- What may not run


def rounds_to(payload: type[jobs.Payload], most: int = 5) -> int:
    """How many rounds it takes until a job of the kind goes."""
    for number in range(1, most + 1):
        found = fed(10)
        if any(row(job_id).kind == payload.kind for job_id in found):
            return number
    raise AssertionError(f"none went in {most} rounds")


@pytest.mark.parametrize("scope", ["kind:test.noop", "tenant:a", "limit", "rate"])
def test_closed_work_at_the_head_does_not_hold_up_the_rest(scope: str) -> None:
    ready("a", 3000)
    a_job(payload=Echo(text=""), tenant="b")
    if scope in ("limit", "rate"):
        sql(
            "INSERT INTO jobs_limiter (scope, at_once, per_second, refilled_at, is_declared) "
            "VALUES ('kind:test.noop', %s, %s, jobs_clock(), false)",
            [0, None] if scope == "limit" else [None, 0.000001],
        )
    else:
        close(scope)
    assert rounds_to(Echo) == 1
    assert fed() == []


def test_a_closed_kind_costs_no_time() -> None:
    """A hundred thousand closed jobs at the head: the index is stepped over, not read."""
    ready("", 100_000)
    sql("ANALYZE jobs_job")
    close("kind:test.noop")
    took = []
    for _ in range(10):
        wanted = a_job(payload=Echo(text=""))
        begun = time.perf_counter()
        assert fed() == [wanted]
        took.append(time.perf_counter() - begun)
    begun = time.perf_counter()
    sql(
        "SELECT count(*) FROM (SELECT lane, history FROM jobs_job "
        "WHERE state = 'pending' ORDER BY rank) s"
    )
    reading_all = time.perf_counter() - begun
    # Whatever else the machine does, it does not disturb most of them.
    assert statistics.median(took) < max(0.05, reading_all / 2), took


# ---- Many lanes


def test_more_tenants_than_fit_into_a_round_all_get_their_turn() -> None:
    number = MAX_LANES * 2 + 50
    names = [f"t{n:04}" for n in range(number)]
    jobs.enqueue_many(jobs.Draft(Noop(), tenant=name) for name in names for _ in range(2))
    order: list[str] = []
    for _ in range(2 * number // 50):
        order += tenants(fed(50))
    assert order[:number] == names, "everybody once, then everybody again"
    assert sorted(order[number:]) == names


def test_closed_tenants_in_crowds_delay_the_others_by_few_rounds() -> None:
    crowd = [f"c{n:04}" for n in range(MAX_LANES * 2)]
    jobs.enqueue_many(jobs.Draft(Noop(), tenant=name) for name in crowd)
    close(*(f"tenant:{name}" for name in crowd))
    a_job(payload=Echo(text=""), tenant="z")
    assert rounds_to(Echo) <= 3


def test_a_tenant_with_more_kinds_than_fit_into_a_round_gets_all_of_them() -> None:
    for n in range(MAX_LANES + 20):
        ready("a", 1, f"kind{n:03}")
    ready("b", 1)
    gone: list[UUID] = []
    for _ in range(40):
        gone += fed(50)
    assert len(gone) == MAX_LANES + 21
