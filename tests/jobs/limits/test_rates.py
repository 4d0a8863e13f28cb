"""Never faster than was declared, whoever dispatches."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import jobs
from jobs.engine import claims
from jobs.engine.dispatch import promote
from jobs.engine.withdrawal import STALE_AFTER, withdraw
from jobs.limits import Limit
from tests.jobs.factories import (
    WORKER,
    an_executor,
    row,
    sql,
    state,
)
from tests.jobs.limits.kinds import NOW, SECOND, A, Declare, SetClock, fed, many
from tests.jobs.mill import grind

pytestmark = pytest.mark.django_db


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


def test_a_kind_whose_key_is_out_of_tokens_rests_until_the_next(
    declare: Declare, set_clock: SetClock
) -> None:
    """Rounds come as often as jobs end; each would put jobs aside that the next has to fetch."""
    set_clock(NOW)
    declare(A, per_key=Limit(rate="20/s"))
    made, gone = many(A(), 60, limit_key="x"), []
    aside = 0
    for hundredth in range(301):
        set_clock(NOW + hundredth / 100 * SECOND)
        promote()
        for _ in range(3):
            before = put_aside()
            gone += fed(budget=10)
            aside += max(0, put_aside() - before)
        assert len(gone) == 1 + hundredth // 5 or len(gone) == 60
    assert sorted(gone) == sorted(made)
    assert aside < 2 * 60, "some are, for others are looked for now and then"


def test_jobs_of_other_keys_are_found_behind_those_of_one_that_rests(
    declare: Declare, set_clock: SetClock
) -> None:
    set_clock(NOW)
    declare(A, per_key=Limit(rate="5/s"))
    many(A(), 60, limit_key="x")
    [other] = many(A(), 1, limit_key="y")
    gone: list[Any] = []
    for tenth in range(100):
        set_clock(NOW + tenth / 10 * SECOND)
        promote()
        gone += fed(budget=10)
        if other in gone:
            break
    assert len(gone) < 20, "it did not wait for all the others"


def put_aside() -> int:
    [(count,)] = sql("SELECT count(*) FROM jobs_job WHERE state = 'pending' AND wait = 1")
    return int(count)


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
