"""Lists of jobs and how they are found; the first page's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pydantic import BaseModel

import jobs
from jobs import registry
from jobs.engine import finds, retention, sql
from jobs.errors import Denied, HandlerError, InvalidOption, QueryError, TooSlow
from jobs.operate import depths, places, reads, search, ways
from jobs.operate.query import parse
from jobs.operate.reads import Count
from jobs.operate.replay import replay
from jobs.principals import EVERYTHING, Principal, Scope
from tests.jobs.factories import a_job, row
from tests.specimens.handlers import Echo, Noop

pytestmark = pytest.mark.django_db

ME = "test"


class Customer(BaseModel):
    id: int
    vip: bool = False


class Ship(jobs.Payload, kind="test.ship"):
    order: str
    customer: Customer


class Sealed(Ship, kind="test.sealed"):
    secret: jobs.Sensitive[str]


@pytest.fixture
def shipping() -> Iterator[None]:
    def ship(ctx: jobs.Context, payload: Ship) -> None:
        """Ships."""

    jobs.handler(Ship, searchable=("order", "customer.id", "customer.vip"))(ship)
    yield
    registry.unregister("test.ship")


def a_ship(order: str, customer: int = 1) -> Ship:
    return Ship(order=order, customer=Customer(id=customer))


def kept(job_id: UUID) -> set[tuple[str, str]]:
    return set(sql.rows("SELECT path, value FROM jobs_search WHERE job_id = %s", [job_id]))


def ids(query: str, **options: Any) -> list[UUID]:
    return [job.pk for job in search.jobs(query, by=options.pop("by", ME), **options).jobs]


# ---- what jobs are found by


def test_a_declared_field_is_kept_beside_the_job(shipping: None) -> None:
    job = jobs.enqueue(a_ship("A-7", 42), tags=["red"], correlation_id="r1").id
    assert kept(job) == {
        ("payload.order", "A-7"), ("payload.customer.id", "42"),
        ("payload.customer.vip", "false"), ("tag", "red"), ("correlation", "r1"),
    }  # fmt: skip


def test_jobs_of_other_kinds_keep_nothing() -> None:
    assert kept(jobs.enqueue(Echo(text="x")).id) == set()


def test_many_at_once_are_found_too(shipping: None) -> None:
    made = jobs.enqueue_many(
        [a_ship("B-1"), jobs.Draft(a_ship("B-2"), unique=jobs.Unique("k")), Noop()]
    )
    assert ids("payload.order:B-1") == [made[0]]
    assert ids("payload.order:B-2") == [made[1]]


def test_a_replaced_payload_is_found_by_its_new_value_only(shipping: None) -> None:
    unique = jobs.Unique("k", for_="waiting")
    job = jobs.enqueue(a_ship("C-1"), unique=unique, delay=60, tags=["t"]).id
    assert jobs.enqueue(a_ship("C-2"), unique=unique, delay=60).id == job
    assert ids("payload.order:C-1") == []
    assert ids("payload.order:C-2") == [job]
    assert ids("tag:t") == [job]


def test_a_replay_is_found_beside_the_old_job(shipping: None) -> None:
    old = a_job("failed", a_ship("D-1"))
    new = replay(old, by=ME, reason="test")
    assert set(ids("payload.order:D-1")) == {old, new}


def test_nothing_is_kept_of_an_enqueue_that_was_rolled_back(shipping: None) -> None:
    job = jobs.enqueue(a_ship("E-1")).id
    with pytest.raises(jobs.errors.DuplicateJob):
        jobs.enqueue(a_ship("E-2"), job_id=job)
    assert ("payload.order", "E-2") not in kept(job)


def test_values_go_with_their_job(shipping: None) -> None:
    job = a_job("succeeded", a_ship("F-1"), tags=["old"])
    sql.run("UPDATE jobs_job SET finished_at = finished_at - interval '99 d' WHERE id = %s", [job])
    for _ in retention.sweep():
        pass
    assert sql.rows("SELECT 1 FROM jobs_job WHERE id = %s", [job]) == []
    assert kept(job) == set()


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (("secret",), "sensitive"),
        (("nothing",), "no field 'nothing'"),
        (("customer.nothing",), "no field 'nothing'"),
        (("order", "order"), "different"),
        (("a b",), "no path"),
        ("order", "tuple"),
    ],
)
def test_a_wrong_declaration_is_refused(paths: Any, told: str) -> None:
    with pytest.raises(HandlerError, match=told):
        jobs.handler(Sealed, searchable=paths)(lambda ctx, payload: None)
    assert registry.find("test.sealed") is None


# ---- lists


def test_pages_lead_to_each_other_in_both_directions() -> None:
    made = [a_job() for _ in range(7)][::-1]
    first = search.jobs(by=ME, limit=3)
    second = search.jobs(by=ME, limit=3, after=first.next)
    third = search.jobs(by=ME, limit=3, after=second.next)
    assert [j.pk for page in (first, second, third) for j in page.jobs] == made
    assert (first.previous, third.next) == (None, None)
    back = search.jobs(by=ME, limit=3, before=third.previous)
    assert [j.pk for j in back.jobs] == made[3:6]
    top = search.jobs(by=ME, limit=3, before=back.previous)
    assert ([j.pk for j in top.jobs], top.previous) == (made[:3], None)


@pytest.mark.parametrize(
    "query", ["tag:a", "tag:a tag:b", "state:pending", "queue:default", "kind:test.*", ""]
)
def test_every_way_of_finding_pages_alike(query: str) -> None:
    made = [a_job(tags=["a", "b"]) for _ in range(5)][::-1]
    found, place = [], None
    for _ in range(3):
        page = search.jobs(query, by=ME, limit=2, after=place)
        found += [j.pk for j in page.jobs]
        place = page.next
    assert (found, place) == (made, None)
    back = search.jobs(query, by=ME, limit=2, before=(row(made[4]).created_at, made[4]))
    assert [j.pk for j in back.jobs] == made[2:4]


def test_a_tab_narrows_a_query_of_the_same_key() -> None:
    failed, done = a_job("failed"), a_job("succeeded")
    assert ids("state:failed state:succeeded", tab="succeeded") == [done]
    counted = search.counts("state:failed state:succeeded", by=ME)
    assert (counted["all"].value, counted["dead"].value, counted["running"].value) == (2, 1, 0)
    assert ids("state:failed") == [failed]


def test_a_scope_hides_what_lies_outside() -> None:
    mine = a_job(tenant="a", tags=["t"], queue="one")
    other = a_job(tenant="b", tags=["t"], queue="two")
    a_job(tags=["t"])
    for scope in (Scope(tenants=frozenset({"a"})), Scope(queues=frozenset({"one"}))):
        who = Principal("p", scope=scope)
        for query in ("", "tag:t", f"id:{other} id:{mine}", "state:pending", "-queue:zero"):
            assert ids(query, by=who) == [mine]
        assert search.one(other, by=who) is None
        assert search.counts(by=who)["all"] == Count(1)
    assert search.suggestions("tag", by=Principal("p", scope=Scope(tenants=frozenset()))) == []


def test_who_may_not_see_payloads_cannot_ask_for_their_values() -> None:
    a_job(payload=Echo(text="x"))
    with pytest.raises(Denied, match="view_payload"):
        search.jobs("payload.text:x", by=Principal("p", permissions=frozenset({"view_job"})))


def test_an_unindexed_search_looks_at_the_newest_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ways, "DEPTH", 3)
    wanted = a_job(priority=7)
    for _ in range(4):
        a_job()
    page = search.jobs("priority:7", by=ME)
    assert (page.jobs, page.capped, len(page.notices)) == ((), True, 1)
    more = search.jobs("priority:7", by=ME, after=page.next)
    assert ([j.pk for j in more.jobs], more.capped) == ([wanted], False)


def test_a_search_reads_on_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "BUDGET", 60.0)
    for name in ("FIRST_WALK", "FIRST_STREAM"):
        monkeypatch.setattr(ways, name, 2)
    wanted = [a_job(priority=7, tags=["t"]) for _ in range(2)][::-1]
    for _ in range(9):
        a_job(tags=["t"])
    for query in ("priority:7", "tag:t priority:7", "kind:test.noop priority:7"):
        page = search.jobs(query, by=ME)
        assert ([j.pk for j in page.jobs], page.capped, page.next) == (wanted, False, None)
        monkeypatch.setattr(ways, "DEPTH", 4)
        short = search.jobs(query, by=ME)
        assert (short.jobs, short.capped) == ((), True)
        monkeypatch.setattr(ways, "DEPTH", 100_000)


def test_a_search_without_time_says_that_it_looked_at_a_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ways, "BUDGET", 0.0)
    monkeypatch.setattr(ways, "FIRST_WALK", 2)
    a_job(priority=7)
    for _ in range(3):
        a_job()
    page = search.jobs("priority:7", by=ME)
    assert (page.jobs, page.capped) == ((), True) and "2" in page.notices[0]


@pytest.mark.parametrize(
    "query",
    ["kind:test.echo", "queue:rare", "tenant:acme", "kind:test.ec*", "queue:default queue:rare "
     "-kind:test.noop", "tenant:acme kind:test.echo queue:rare", "tenant:ac*"],
)  # fmt: skip
def test_a_place_is_found_at_once_among_many_jobs(
    query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [
        a_job(state, Echo(text="x"), queue="rare", tenant="acme") for state in ("pending", "failed")
    ][::-1]
    for tenant in ("", "ab", "zeta"):
        for queue in ("default", "other", "rarely"):
            a_job(tenant=tenant, queue=queue)
    monkeypatch.setattr(ways, "BUDGET", 0.0)
    monkeypatch.setattr(ways, "FIRST_WALK", 2)
    for newer in range(3):
        a_job(tenant=f"t{newer}")
    page = search.jobs(query, by=ME)
    assert ([j.pk for j in page.jobs], page.capped, page.notices) == (wanted, False, ())
    counted = search.counts(query, by=ME)
    assert [counted[tab] for tab in ("all", "waiting", "dead")] == [Count(2), Count(1), Count(1)]


def test_what_nobody_has_enqueued_is_known_to_be_missing() -> None:
    a_job()
    for query in ("kind:no.such", "queue:nowhere", "tenant:nobody", "kind:zz*"):
        page = search.jobs(query, by=ME)
        assert (page.jobs, page.capped, page.notices) == ((), False, ())
        assert set(search.counts(query, by=ME).values()) == {Count(0)}


def test_a_tenant_is_found_among_more_than_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = a_job(tenant="m", queue="two")
    for n in range(30):
        a_job(tenant=f"{'az'[n % 2]}{n}", queue=("one", "two")[n % 3 % 2])
    monkeypatch.setattr(places, "MOST", 5)
    monkeypatch.setattr(places, "_FIND", places._FIND.replace("n <= 2000", "n <= 5"))
    assert places.find([parse("tenant:m")], EVERYTHING) == ["two\x1fm\x1ftest.noop"]
    assert places.find([parse("kind:test.noop")], EVERYTHING) is None
    assert ids("tenant:m") == [wanted] and len(ids("kind:test.noop")) == 31


def test_who_sees_one_tenant_finds_his_jobs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = a_job(tenant="a")
    for _ in range(4):
        a_job(tenant="b")
    monkeypatch.setattr(ways, "BUDGET", 0.0)
    monkeypatch.setattr(ways, "FIRST_WALK", 2)
    who = Principal("p", scope=Scope(tenants=frozenset({"a"})))
    page = search.jobs(by=who)
    assert ([j.pk for j in page.jobs], page.capped) == ([mine], False)


def test_places_are_read_from_their_index() -> None:
    a_job(queue="mail")
    sql.run("SET LOCAL enable_seqscan = off")
    for query in ("queue:mail", "kind:test.noop"):
        way = ways.choose([parse(query)])
        statement, given, _order = ways.source(way, 100, None, True)
        plan = sql.rows(f"EXPLAIN SELECT * FROM {statement}", given)  # noqa: S608
        text = "\n".join(line for (line,) in plan)
        assert "jobs_job_place" in text and "Seq Scan" not in text, text
    with CaptureQueriesContext(connection) as seen:
        places.find([parse("kind:test.noop tenant:x")], EVERYTHING)
        depths.names(EVERYTHING)
    for asked in seen:
        text = "\n".join(line for (line,) in sql.rows("EXPLAIN " + asked["sql"]))
        assert "jobs_job_place" in text and "Seq Scan on jobs_job" not in text, text


def test_a_field_that_some_kind_declares_says_which(shipping: None) -> None:
    a_job(payload=a_ship("Z"))
    page = search.jobs("payload.order:Z", by=ME)
    assert len(page.jobs) == 1
    assert "test.ship" in page.notices[0]


def test_a_read_that_takes_too_long_breaks_nothing() -> None:
    job = a_job()
    with pytest.raises(TooSlow), reads.bounded(0.05):
        sql.rows("SELECT pg_sleep(5)")
    assert row(job).state == "pending"
    assert sql.rows("SHOW statement_timeout") == [("0",)]


def test_counts_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "MOST", 2)
    assert str(reads.count(10_001, 10_000)) == "10k+"
    assert str(reads.count(7, 10)) == "7"


@pytest.mark.parametrize("options", [{"limit": 0}, {"limit": 1000}, {"tab": "none"}])
def test_wrong_options_are_named(options: Any) -> None:
    with pytest.raises(InvalidOption):
        search.jobs(by=ME, **options)
    with pytest.raises(QueryError):
        search.jobs("nonsense", by=ME)


def test_values_are_suggested() -> None:
    for tag in ("red", "rust", "blue"):
        a_job(tags=[tag])
    assert search.suggestions("tag", "r", by=ME) == ["red", "rust"]
    assert "test.echo" in search.suggestions("kind", "test.", by=ME)
    assert search.suggestions("priority", by=ME) == []


def test_the_trigger_is_there() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tgname FROM pg_trigger WHERE tgname = 'jobs_job_remember'")
        assert cursor.fetchone()
    assert finds.PREFIX == "payload."
