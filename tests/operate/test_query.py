"""The query language: errors with a place, one spelling, and SQL that means what it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.errors import QueryError
from jobs.operate.query import KEYS, Query, Term, parse
from jobs.operate.query.keys import IS
from jobs.principals import Scope
from tests.jobs.factories import a_job, row
from tests.specimens.handlers import Echo, Noop

NAMES = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=12)
FRAGMENTS = st.one_of(
    st.sampled_from([*KEYS, "payload.a", "payload..", "-", ":", ">", "<=", '"', "\\", " ", "*",
                     "-2h", "2026-11-01", "9" * 30, "5m", "is:", "\x00", "state:failed"]),
    st.text(max_size=6),
)  # fmt: skip


@given(st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=12).map("".join)))
def test_whatever_is_typed_parses_or_raises_a_query_error(text: str) -> None:
    try:
        query = parse(text)
    except QueryError as error:
        assert 0 <= error.position <= len(text)
        return
    assert parse(str(query)) == query


def _values(key: str, op: str) -> st.SearchStrategy[str]:
    if key == "state":
        return st.sampled_from(["pending", "queued", "failed", "succeeded", "cancelled"])
    if key == "is":
        return st.sampled_from(sorted(IS))
    if key in ("id", "batch"):
        return st.uuids().map(str)
    if key in ("priority", "attempts"):
        return st.integers(-5, 5).map(str)
    if key in ("created", "run", "started", "finished"):
        return st.one_of(
            st.integers(1, 99).map(lambda n: f"-{n}m"),
            st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(
                lambda d: d.replace(tzinfo=UTC).isoformat()
            ),
        )
    if key in ("wait", "runtime"):
        return st.integers(0, 500).map(lambda n: f"{n}s")
    return NAMES


@st.composite
def terms(draw: st.DrawFn) -> Term:
    key = draw(st.sampled_from([*KEYS, "payload.text", "payload.a.b"]))
    op = draw(st.sampled_from(KEYS[key].ops if key in KEYS else (":",)))
    return Term(key, op, draw(_values(key, op)), draw(st.booleans()))


QUERIES = st.lists(terms(), max_size=5, unique=True).map(lambda t: Query(tuple(t)))


@given(QUERIES)
def test_a_query_is_the_same_after_it_was_written_down(query: Query) -> None:
    assert parse(str(query)) == query


@pytest.mark.parametrize(
    ("text", "position", "hint"),
    [
        ("stat:failed", 0, "state:"),
        ("kind:a state:faild", 13, "state:failed"),
        ("queue:a is:stael", 11, "is:stale"),
        ("mail", 0, "kind:mail*"),
        ("attempts>many", 9, ""),
        ("created:2026-11-01", 0, ""),
        ("created>2026-13-01", 8, ""),
        ("wait>5", 5, ""),
        ('queue:"a', 6, ""),
        ("queue:", 6, ""),
        ('queue:a"b"', 7, ""),
        ("payload.:1", 0, ""),
        ("batch:7", 6, ""),
        ("priority:٣", 9, ""),
        ("queue:a\x00", 7, ""),
    ],
)
def test_an_error_says_where_and_what_was_meant(text: str, position: int, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert (caught.value.position, caught.value.hint) == (position, hint)


def test_an_id_alone_asks_for_its_job() -> None:
    job = uuid4()
    assert str(parse(f" {job} ")) == f"id:{job}"


@pytest.mark.parametrize("text", ["x" * 2001, "queue:a " * 51 + "queue:b"])
def test_a_query_has_a_limit(text: str) -> None:
    with pytest.raises(QueryError):
        parse(text)


def test_times_before_now_can_be_frozen() -> None:
    now = datetime(2026, 11, 18, 12, tzinfo=UTC)
    frozen = parse("created<-2h wait>5m").frozen(now)
    assert str(frozen) == "created<2026-11-18T10:00:00+00:00 wait>5m"


# ---- the SQL and what it means

POOL = ("alpha", "beta", "al*", "x%", 'q"uote')


def meaning(query: Query, job: Any, now: datetime) -> bool:
    """The query's answer for one job, in Python."""
    groups: dict[object, list[Term]] = {}
    for term in query.terms:
        groups.setdefault((term.key, term.negated) if term.op == ":" else term, []).append(term)
    return all(
        any(_holds(t, job, now) for t in group) != group[0].negated for group in groups.values()
    )


def _holds(t: Term, job: Any, now: datetime) -> bool:
    text = {"queue": job.queue, "kind": job.kind, "tenant": job.tenant}
    if t.key in text:
        if t.value.endswith("*"):
            return bool(text[t.key].startswith(t.value[:-1]))
        return bool(text[t.key] == t.value)
    if t.key == "tag":
        return t.value in job.tags
    if t.key == "correlation":
        return bool(job.correlation_id == t.value)
    if t.key == "state":
        return bool(job.state == t.value)
    if t.key == "payload.text":
        return bool(job.payload.get("text") == t.value)
    if t.key in ("priority", "attempts"):
        return _compare(job.priority if t.key == "priority" else job.attempt, t.op, int(t.value))
    moment = {"created": job.created_at, "run": job.run_at, "started": job.started_at,
              "finished": job.finished_at}[t.key]  # fmt: skip
    at = now - timedelta(minutes=int(t.value[1:-1]))
    return moment is not None and _compare(moment, t.op, at)


def _compare(left: Any, op: str, right: Any) -> bool:
    return bool({
        ":": left == right, ">": left > right, ">=": left >= right, "<": left < right,
        "<=": left <= right,
    }[op])  # fmt: skip


@st.composite
def asked(draw: st.DrawFn) -> Term:
    key = draw(
        st.sampled_from(["queue", "kind", "tenant", "tag", "correlation", "state", "priority",
                         "attempts", "created", "run", "started", "finished", "payload.text"])
    )  # fmt: skip
    op = draw(st.sampled_from(KEYS[key].ops if key in KEYS else (":",)))
    values = {
        "kind": st.sampled_from(["test.noop", "test.e*", "test.*", "*"]),
        "state": st.sampled_from(["pending", "failed", "succeeded", "cancelled"]),
        "priority": st.integers(-2, 2).map(str),
        "attempts": st.integers(0, 2).map(str),
    }
    times = st.integers(1, 60).map(lambda n: f"-{n}m")
    names = st.sampled_from(POOL)
    value = values.get(key, names if op == ":" else times)
    return Term(key, op, draw(value), draw(st.booleans()))


@st.composite
def specimens(draw: st.DrawFn) -> dict[str, Any]:
    name = st.sampled_from(["alpha", "beta", "alx", "x"])
    return {
        "state": draw(st.sampled_from(["pending", "failed", "succeeded", "cancelled"])),
        "payload": draw(st.sampled_from([Noop(), Echo(text="alpha"), Echo(text='q"uote')])),
        "options": {
            "queue": draw(name),
            "tenant": draw(st.sampled_from(["", "alpha", "beta"])),
            "tags": draw(st.lists(st.sampled_from(["alpha", "x%", "z"]), max_size=2)),
            "correlation_id": draw(st.sampled_from(["", "alpha", "al*"])),
            "priority": draw(st.integers(-2, 2)),
        },
    }


@pytest.mark.django_db(transaction=False)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rows=st.lists(specimens(), max_size=6),
    queries=st.lists(st.lists(asked(), max_size=4, unique=True), min_size=1, max_size=8),
    scope=st.sampled_from([Scope(), Scope(tenants=frozenset({"alpha"})), Scope(tenants=frozenset()),
                           Scope(queues=frozenset({"beta", "x"}))]),
)  # fmt: skip
def test_the_sql_means_what_the_query_says_within_the_scope(
    rows: list[dict[str, Any]], queries: list[list[Term]], scope: Scope
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT jobs_clock()")
        now = cursor.fetchone()[0] + timedelta(minutes=5)
        cursor.execute("SELECT set_config('jobs.now', %s, false)", [now.isoformat()])
        try:
            made = [row(a_job(one["state"], one["payload"], **one["options"])) for one in rows]
            for terms_ in queries:
                query = Query(tuple(terms_))
                where, parameters = query.where(scope)
                cursor.execute(
                    f"SELECT j.id FROM jobs_job j WHERE {where}",  # noqa: S608
                    parameters,
                )
                found = {i for (i,) in cursor.fetchall()} & {job.pk for job in made}
                wanted = {
                    job.pk
                    for job in made
                    if meaning(query, job, now)
                    and (scope.tenants is None or job.tenant in scope.tenants)
                    and (scope.queues is None or job.queue in scope.queues)
                }
                assert found == wanted
        finally:
            cursor.execute("SELECT set_config('jobs.now', '', false)")
