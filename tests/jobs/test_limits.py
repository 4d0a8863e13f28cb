"""Limits and rates: never more at once, never faster, nothing dropped, whoever dispatches."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

import jobs
from jobs import registry
from jobs.context import Signal
from jobs.engine import claims, closures, runner, settler, slots
from jobs.engine.admission import Closing, close, sync_limits
from jobs.engine.dispatch import Dispatcher, admit, know_queues, promote
from jobs.engine.withdrawal import STALE_AFTER, withdraw
from jobs.errors import HandlerError
from jobs.limits import Limit, Rate
from jobs.outcomes import RateLimited
from tests.jobs.crowd import at_once
from tests.jobs.factories import (
    WORKER,
    a_job,
    an_executor,
    claim_again,
    ended,
    row,
    settle,
    sql,
    state,
    succeed,
)
from tests.jobs.mill import grind, most_at_once
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
NOW = datetime(2040, 5, 6, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SetClock = Callable[[datetime | None], None]


class A(jobs.Payload, kind="test.a"):
    n: int = 0


class B(jobs.Payload, kind="test.b"):
    n: int = 0


Declare = Callable[..., None]


def forget(kind: str) -> None:
    if registry.find(kind) is not None:
        registry.unregister(kind)


@pytest.fixture
def declare() -> Iterator[Declare]:
    """Registers the handler of a kind with limits, and writes the limits down."""
    with ExitStack() as stack:

        def register(payload: type[jobs.Payload], do: Any = None, **rules: Any) -> None:
            @jobs.handler(payload, **rules)
            def run(ctx: jobs.Context, payload: Any) -> Any:
                return do(ctx) if do else None

            stack.callback(forget, payload.kind)
            sync_limits()

        yield register


def fed(budget: int = 100, queue: str = "default") -> list[UUID]:
    know_queues({queue})
    return [job_id for job_id, _ in admit(queue, budget)]


def many(payload: jobs.Payload, number: int, **options: Any) -> list[UUID]:
    return jobs.enqueue_many(jobs.Draft(payload, **options) for _ in range(number))


def limiters() -> dict[str, tuple[Any, ...]]:
    """The rows, without those of kinds that other tests declare."""
    others = {h.kind for h in registry.handlers()} - {A.kind, B.kind}
    found = sql("SELECT scope, at_once, per_second, burst, is_declared FROM jobs_limiter")
    return {s: tuple(rest) for s, *rest in found if s.partition(":")[2] not in others}


def end(job_id: UUID) -> None:
    succeed(claim_again(job_id))


# ---- Rows of what is declared


def test_what_is_declared_has_its_rows(declare: Declare, settings: Any) -> None:
    settings.JOBS = {"QUEUES": {"mail": Limit(at_once=10, rate="100/s", burst=50)}}
    declare(A, concurrency=3, rate="50/m")
    declare(B, per_key=Limit(at_once=2))
    assert limiters() == {
        "queue:mail": (10, 100.0, 50.0, True),
        "kind:test.a": (3, 50 / 60, 1.0, True),
        "key:test.b": (2, None, 1.0, True),
    }


def test_rows_follow_the_declaration_and_vanish_with_it(settings: Any) -> None:
    settings.JOBS = {"QUEUES": {"mail": Limit(at_once=10), "x": Limit(at_once=1)}}
    sync_limits()
    settings.JOBS = {"QUEUES": {"mail": Limit(rate="5/s")}}
    sync_limits()
    assert limiters() == {"queue:mail": (None, 5.0, 1.0, True)}
    settings.JOBS = {}
    sync_limits()
    assert limiters() == {}


def test_rows_of_operators_stay_as_they_are(settings: Any) -> None:
    settings.JOBS = {"QUEUES": {"mail": Limit(at_once=10)}}
    sync_limits()
    sql("UPDATE jobs_limiter SET at_once = 2, is_declared = false WHERE scope = 'queue:mail'")
    sql("INSERT INTO jobs_limiter (scope, at_once, is_declared) VALUES ('kind:x', 1, false)")
    sync_limits()
    settings.JOBS = {}
    sync_limits()
    assert limiters() == {
        "queue:mail": (2, None, 1.0, False),
        "kind:x": (1, None, 1.0, False),
    }


def test_a_changed_rate_makes_no_new_tokens(set_clock: SetClock, settings: Any) -> None:
    set_clock(NOW)
    settings.JOBS = {"QUEUES": {"default": Limit(rate="1/s", burst=5)}}
    sync_limits()
    many(Noop(), 30)
    assert len(fed()) == 5
    for burst in (7, 20):
        settings.JOBS = {"QUEUES": {"default": Limit(rate="1/s", burst=burst)}}
        sync_limits()
        assert fed() == []
    set_clock(NOW + 3 * SECOND)
    assert len(fed()) == 3


def test_keys_follow_their_kind_unless_they_have_numbers_of_their_own(declare: Declare) -> None:
    declare(A, per_key=Limit(at_once=1))
    for key in "xy":
        many(A(), 4, limit_key=key)
    assert len(fed()) == 2
    sql("UPDATE jobs_limiter SET at_once = 3, is_declared = false WHERE key = 'y'")
    registry.unregister("test.a")
    declare(A, per_key=Limit(at_once=2))
    assert limiters()["key:test.a|x"] == (2, None, 1.0, True)
    assert limiters()["key:test.a|y"] == (3, None, 1.0, False)


def test_rows_of_keys_vanish_with_their_jobs(declare: Declare) -> None:
    declare(A, per_key=Limit(at_once=1))
    [job_id] = many(A(), 1, limit_key="x")
    fed()
    sync_limits()
    assert "key:test.a|x" in limiters()
    end(job_id)
    sync_limits()
    assert set(limiters()) == {"key:test.a"}


def test_the_row_of_an_empty_bucket_is_kept(declare: Declare, set_clock: SetClock) -> None:
    set_clock(NOW)
    declare(A, per_key=Limit(rate="1/m"))
    [job_id] = many(A(), 1, limit_key="x")
    fed()
    end(job_id)
    set_clock(NOW + 59 * SECOND)
    sync_limits()
    assert "key:test.a|x" in limiters()
    set_clock(NOW + 60 * SECOND)
    sync_limits()
    assert "key:test.a|x" not in limiters()


def test_a_dispatcher_syncs_before_it_admits_and_now_and_then(
    settings: Any, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.JOBS = {"QUEUES": {queue: Limit(at_once=1)}}
    an_executor(queue, slots=8)
    ids = many(Noop(), 3, queue=queue)
    dispatcher = Dispatcher("d")
    assert dispatcher.round() == 1
    assert [state(i) for i in ids].count("queued") == 1
    settings.JOBS = {"QUEUES": {queue: Limit(at_once=2)}}
    assert dispatcher.round() == 0
    moment = time.monotonic() + 30
    monkeypatch.setattr("jobs.engine.dispatch.time.monotonic", lambda: moment)
    assert dispatcher.round() == 1


# ---- So many at once


@pytest.mark.parametrize("live", ["queued", "running"])
def test_no_more_of_a_kind_at_once(declare: Declare, live: str) -> None:
    declare(A, concurrency=3)
    many(A(), 10)
    first = fed()
    assert len(first) == 3
    if live == "running":
        claims.claim("default", first, an_executor(), WORKER)
    many(Noop(), 2)
    assert len(fed()) == 2, "other kinds go on"
    assert fed() == []
    if live == "running":
        assert succeed(*claims.claimed(row(first[0]).token, first[:2])) == set(first[:2])  # type: ignore[arg-type]
        assert len(fed()) == 2


def test_a_kind_has_one_limit_over_all_queues(declare: Declare) -> None:
    declare(A, concurrency=3)
    many(A(), 5)
    many(A(), 5, queue="other")
    assert len(fed(2)) == 2
    assert len(fed(queue="other")) == 1
    assert fed() == []


def test_no_more_of_a_queue_at_once(settings: Any) -> None:
    settings.JOBS = {"QUEUES": {"default": Limit(at_once=2)}}
    sync_limits()
    many(Noop(), 5)
    first = fed()
    assert len(first) == 2
    end(first[0])
    assert len(fed()) == 1


def test_no_more_of_a_key_at_once_and_each_end_lets_the_best_go(declare: Declare) -> None:
    declare(A, per_key=Limit(at_once=2))
    made = [a_job("pending", A(), limit_key="x", priority=p) for p in (3, 2, 1, 0)]
    others = many(A(), 2, limit_key="y") + many(A(), 3)
    assert set(fed()) == {*made[:2], *others}
    assert [row(j).wait for j in made[2:]] == [2, 2]
    best = a_job("pending", A(), limit_key="x", priority=50)
    assert fed() == []
    end(made[0])
    assert fed() == [best]
    settle(ended(claim_again(made[1]), "snoozed", floor=60))
    assert fed() == [made[2]]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", [1, 2])
def test_several_dispatchers_never_exceed_a_limit(declare: Declare, seed: int) -> None:
    _race(declare, seed, 150)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_several_dispatchers_never_exceed_a_limit_in_thousands(declare: Declare, seed: int) -> None:
    _race(declare, seed, 2000)


def _race(declare: Declare, seed: int, number: int) -> None:
    declare(A, concurrency=3, per_key=Limit(at_once=2), max_attempts=1000)
    declare(B, per_key=Limit(at_once=1), max_attempts=1000)
    sql("INSERT INTO jobs_limiter (scope, at_once, is_declared) VALUES ('queue:q2', 4, false)")
    draw = random.Random(seed)
    queues = ["q1", "q2", "q3"]
    jobs.enqueue_many(
        jobs.Draft(
            draw.choice([A, B])(),
            queue=draw.choice(queues),
            tenant=draw.choice("abc"),
            priority=draw.randint(-9, 9),
            limit_key=draw.choice(["x", "y", ""]),
            exclusive=draw.choice(["", "", "k1", "k2"]),
        )
        for _ in range(number)
    )
    grind(queues, threads=5, seed=seed, seconds=200, endings=["released", "snoozed", "failed"])
    assert 1 <= most_at_once("CASE WHEN kind = 'test.a' THEN kind END") <= 3
    assert 1 <= most_at_once("CASE WHEN queue = 'q2' THEN queue END") <= 4
    assert 1 <= most_at_once("CASE WHEN kind = 'test.a' THEN limit_key END") <= 2
    assert most_at_once("CASE WHEN kind = 'test.b' THEN limit_key END") == 1
    assert most_at_once("exclusive_key") == 1


# ---- So often


def test_a_rate_lets_its_burst_go_and_then_one_at_a_time(
    declare: Declare, set_clock: SetClock
) -> None:
    set_clock(NOW)
    declare(A, rate="10/s", burst=4)
    made = many(A(), 12)
    gone = fed()
    assert len(gone) == 4
    for tenth, expected in [(0.5, 0), (1, 1), (1.5, 0), (2, 1), (5, 3), (60, 3)]:
        set_clock(NOW + tenth / 10 * SECOND)
        found = fed()
        assert len(found) == expected, tenth
        gone += found
    assert sorted(gone) == sorted(made), "nothing was dropped"


def test_a_bucket_never_holds_more_than_its_burst(declare: Declare, set_clock: SetClock) -> None:
    set_clock(NOW)
    declare(A, rate="10/s", burst=4)
    set_clock(NOW + timedelta(days=1))
    many(A(), 12)
    assert len(fed()) == 4


def test_whoever_comes_with_an_older_moment_fills_no_bucket_twice(
    declare: Declare, set_clock: SetClock
) -> None:
    """A dispatcher may wait for the bucket's lock behind one that began later."""
    set_clock(NOW)
    declare(A, rate="1/s", burst=5)
    many(A(), 30)
    assert len(fed()) == 5
    for second, expected in [(4, 4), (1, 0), (4, 0), (6, 2)]:
        set_clock(NOW + second * SECOND)
        assert len(fed()) == expected


def test_a_rate_per_key_gives_each_its_moment(declare: Declare, set_clock: SetClock) -> None:
    set_clock(NOW)
    declare(A, per_key=Limit(rate="2/s"))
    made = many(A(), 4, limit_key="x")
    other = many(A(), 1, limit_key="y")
    assert set(fed()) == {made[0], *other}
    assert [row(j).run_at - NOW for j in made[1:]] == [0.5 * SECOND, SECOND, 1.5 * SECOND]
    assert {row(j).wait for j in made[1:]} == {1}
    gone = []
    for half in range(1, 4):
        set_clock(NOW + half * SECOND / 2)
        promote()
        gone += fed()
    assert gone == made[1:]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("where", ["kind", "queue", "key"])
def test_several_dispatchers_never_exceed_a_rate(
    declare: Declare, settings: Any, where: str
) -> None:
    """Over any span of time, at most what the rate allows and one burst have been admitted."""
    rate, burst, number = 150, 5, 120
    rules: dict[str, Any] = {}
    if where == "kind":
        rules = {"rate": f"{rate}/s", "burst": burst}
    elif where == "key":
        rules = {"per_key": Limit(rate=f"{rate}/s", burst=burst)}
    else:
        settings.JOBS = {"QUEUES": {"q1": Limit(rate=f"{rate}/s", burst=burst)}}
    declare(A, **rules)
    queues = ["q1"] if where == "queue" else ["q1", "q2"]
    jobs.enqueue_many(
        jobs.Draft(A(), queue=queues[n % len(queues)], limit_key="x" if where == "key" else "")
        for n in range(number)
    )
    [(begun,)] = sql("SELECT extract(epoch FROM min(refilled_at))::float8 FROM jobs_limiter")
    grind(queues, threads=4, seconds=60)
    moments = [
        float(at)
        for (at,) in sql(
            "SELECT (h.move->>0)::float8 FROM jobs_job, jsonb_array_elements(history) h(move) "
            "WHERE h.move->>2 = 'queued' ORDER BY 1"
        )
    ]
    assert len(moments) == number
    # Histories are rounded to a millisecond, and a move is written a little after its admission.
    for j, moment in enumerate(moments):
        assert j + 1 <= rate * (moment - begun + 0.002) + burst
    for i, start in enumerate(moments):
        for j in range(i, number):
            assert j - i + 1 <= rate * (moments[j] - start + 0.05) + burst


def test_a_stale_admission_at_a_rate_goes_back_and_pays_again(
    declare: Declare, set_clock: SetClock
) -> None:
    set_clock(NOW)
    declare(A, rate="1/s", burst=3)
    made = many(A(), 3)
    assert fed() == made
    set_clock(NOW + timedelta(seconds=STALE_AFTER + 0.5))
    assert claims.claim("default", made, an_executor(), WORKER) == []
    assert withdraw(WORKER) == 3
    assert [state(j) for j in made] == ["pending"] * 3
    assert len(fed()) == 2, "two and a half seconds have made two tokens"


# ---- A handler says that it is too much


def limited(seconds: float, scope: Any = "kind") -> Callable[[jobs.Context], None]:
    def do(ctx: jobs.Context) -> None:
        raise RateLimited(seconds, scope)

    return do


def attempt(job_id: UUID) -> None:
    claim = claim_again(job_id)
    outcome = runner.run(claim, Signal(str), lambda c, s: None, WORKER)
    assert isinstance(outcome, claims.Ended)
    settler.write([outcome], WORKER)


@pytest.mark.parametrize(
    ("scope", "closed", "others"),
    [
        ("kind", "kind:test.a", {"queue", "key"}),
        ("queue", "queue:default", {"kind", "key"}),
        ("key", "key:test.a|x", {"kind", "queue"}),
    ],
)
def test_rate_limited_closes_its_scope_for_everyone(
    declare: Declare, set_clock: SetClock, scope: str, closed: str, others: set[str]
) -> None:
    set_clock(NOW)
    declare(A, limited(30, scope), per_key=Limit(at_once=5))
    declare(B, per_key=Limit(at_once=5))
    [first] = many(A(), 1, limit_key="x")
    fed()
    attempt(first)
    job = row(first)
    assert (job.state, job.run_at, job.failures) == ("pending", NOW + 30 * SECOND, 0)
    assert job.history[-1][4] == "rate limited for 30 s"
    assert sql("SELECT closed_until FROM jobs_limiter WHERE scope = %s", [closed]) == [
        (NOW + 30 * SECOND,)
    ]
    alike = many(A(), 1, limit_key="x")
    free = {
        "kind": many(B(), 1),
        "queue": many(A(), 1, queue="other", limit_key="z"),
        "key": many(A(), 1, limit_key="y"),
    }
    expected = {job_id for what in others for job_id in free[what]}
    if scope == "queue":
        expected -= {*free["kind"], *free["key"]}
        expected |= {*free["queue"]}
    if scope == "kind":
        expected = set(free["kind"])
    if scope == "key":
        expected = {job_id for ids in free.values() for job_id in ids}
    assert {*fed(), *fed(queue="other")} == expected
    set_clock(NOW + 30 * SECOND)
    promote()
    assert set(alike) <= {*fed(), *fed(queue="other")}
    assert state(first) == "queued"


def test_what_was_admitted_before_the_closing_goes_back(
    declare: Declare, set_clock: SetClock
) -> None:
    set_clock(NOW)
    declare(A, limited(30), concurrency=5)
    first, second = many(A(), 2)
    assert fed() == [first, second]
    attempt(first)
    assert claims.claim("default", [second], an_executor(), WORKER) == []
    assert withdraw(WORKER) == 1
    assert fed() == []
    set_clock(NOW + 30 * SECOND)
    promote()
    assert set(fed()) == {first, second}


def test_a_kind_without_limits_can_be_closed_and_its_row_goes_afterwards(
    declare: Declare, set_clock: SetClock
) -> None:
    set_clock(NOW)
    declare(A, limited(30))
    [first] = many(A(), 1)
    fed()
    assert closures.lets_be_born_queued("default")
    attempt(first)
    assert not closures.lets_be_born_queued("default")
    sync_limits()
    many(A(), 3)
    assert fed() == []
    set_clock(NOW + 30 * SECOND)
    sync_limits()
    assert limiters() == {}
    promote()
    assert len(fed()) == 4


def test_the_longest_closing_counts() -> None:
    for seconds in (5.0, 60.0, 10.0):
        close([Closing("kind:x", "default", None, None, seconds)] * 2)
    [(left,)] = sql(
        "SELECT extract(epoch FROM closed_until - jobs_clock())::float8 FROM jobs_limiter"
    )
    assert 59 < left <= 60


def test_a_job_without_a_key_waits_alone(declare: Declare, set_clock: SetClock) -> None:
    set_clock(NOW)
    declare(A, limited(30, "key"))
    first, second = many(A(), 2)
    fed()
    attempt(first)
    assert limiters() == {}
    assert row(first).run_at == NOW + 30 * SECOND
    assert len(claims.claim("default", [second], an_executor(), WORKER)) == 1


def test_a_claim_that_was_lost_closes_nothing(declare: Declare) -> None:
    declare(A, limited(30))
    [first] = many(A(), 1)
    fed()
    claim = claim_again(first)
    outcome = runner.run(claim, Signal(str), lambda c, s: None, WORKER)
    settle(ended(claim, "released"))
    settler.write([outcome], WORKER)  # type: ignore[list-item]
    assert limiters() == {}


@pytest.mark.django_db(transaction=True)
def test_a_closed_key_without_a_running_job_opens_again(
    declare: Declare, set_clock: SetClock
) -> None:
    set_clock(NOW)
    declare(A, per_key=Limit(at_once=1))
    close([Closing("key:test.a|x", "default", "test.a", "x", 30)])
    made = many(A(), 2, limit_key="x")
    assert fed() == []
    assert slots.wake_limited() == 0
    set_clock(NOW + 30 * SECOND)
    promote()
    assert fed() == made[:1]


# ---- Wrong limits


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "needs at_once, a rate, or both"),
        ({"at_once": 0}, "above zero"),
        ({"at_once": -1}, "above zero"),
        ({"at_once": 1.5}, "whole number"),
        ({"at_once": True}, "whole number"),
        ({"rate": ""}, "is not like"),
        ({"rate": "fast"}, "is not like"),
        ({"rate": "-1/s"}, "is not like"),
        ({"rate": "1/y"}, "is not like"),
        ({"rate": 5}, "is not like"),
        ({"rate": "0/s"}, "above zero"),
        ({"rate": "1/0s"}, "above zero"),
        ({"rate": "2000000/s"}, "more than a million"),
        ({"rate": "1/s", "burst": 0}, "at least 1"),
        ({"rate": "1/s", "burst": float("nan")}, "at least 1"),
        ({"rate": "1/s", "burst": float("inf")}, "at least 1"),
        ({"at_once": 1, "burst": 5}, "nothing without a rate"),
    ],
)
def test_a_wrong_limit_is_refused(arguments: Any, problem: str) -> None:
    with pytest.raises(HandlerError, match=problem):
        Limit(**arguments)


@pytest.mark.parametrize(
    ("text", "per_second", "burst"),
    [
        ("100/s", 100, 2),
        ("50/m", 50 / 60, 1),
        ("3/10m", 0.005, 1),
        ("0.5/s", 0.5, 1),
        ("1/d", 1 / 86400, 1),
    ],
)
def test_a_rate_is_read(text: str, per_second: float, burst: float) -> None:
    assert Rate.parse(text) == Rate(per_second, burst)


def test_a_limit_key_needs_a_limit(declare: Declare) -> None:
    declare(A)
    with pytest.raises(jobs.InvalidOption, match=r"^limit_key: .* no per_key limit"):
        jobs.enqueue(A(), limit_key="x")


@pytest.mark.parametrize("arguments", [(-1,), (float("nan"),), (1, "tenant"), (367 * 86400,)])
def test_a_wrong_rate_limited_is_refused(arguments: Sequence[Any]) -> None:
    with pytest.raises(ValueError, match=r"^RateLimited: "):
        RateLimited(*arguments)


@pytest.mark.django_db(transaction=True)
def test_syncs_of_many_dispatchers_do_not_disturb_each_other(declare: Declare) -> None:
    declare(A, concurrency=3, per_key=Limit(at_once=2))
    declare(B, rate="5/s")
    jobs.enqueue_many(jobs.Draft(A(), limit_key=f"k{n}") for n in range(20))

    def sync() -> None:
        for _ in range(10):
            sync_limits()

    at_once([sync, sync, sync, *(partial(fed, 2) for _ in range(3))])
    assert {"kind:test.a", "key:test.a", "kind:test.b"} <= set(limiters())
