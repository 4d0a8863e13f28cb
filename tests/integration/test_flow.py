"""Limits, exclusive keys and turns over a whole fleet: three workers and two dispatchers."""

from __future__ import annotations

import random
from bisect import bisect

import pytest

from tests.integration.fleet import Fleet
from tests.jobs.mill import MOST_AT_ONCE
from tests.wait import wait_until

pytestmark = pytest.mark.slow

# Twelve slots of 5 ms each: no machine is through with it in less than 25 s.
_FLOOD = """
INSERT INTO jobs_job (id, kind, queue, state, payload, tenant, lane, rank, max_attempts, timeout,
  lease) SELECT gen_random_uuid(), 'test.sleep', 'default', 'pending',
  '{"seconds": 0.005}', 'flood',
  E'flood\\x1ftest.sleep', (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 300000,
  5, 300, 15
FROM generate_series(1, 60000)
"""

_FLOOD_STARTED = """
SELECT extract(epoch FROM started_at)::float8 FROM jobs_job
WHERE tenant = 'flood' AND started_at IS NOT NULL ORDER BY 1
"""
_MODEST_WAITED = """
SELECT extract(epoch FROM created_at)::float8, extract(epoch FROM started_at)::float8
FROM jobs_job WHERE tenant = 'modest'
"""

# From the end of each holder of a key until the next one is admitted, where one waited.
_GAPS = """
WITH moves AS (
  SELECT j.exclusive_key AS key, (h.move->>0)::float8 AS at, h.move->>2 AS state
  FROM jobs_job j, jsonb_array_elements(j.history) AS h(move) WHERE j.exclusive_key IS NOT NULL),
ordered AS (SELECT key, at, state, lag(state) OVER w AS before, lag(at) OVER w AS since FROM moves
  WINDOW w AS (PARTITION BY key ORDER BY at, state = 'queued'))
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY at - since)
FROM ordered WHERE state = 'queued' AND before = 'succeeded'
"""


def most_at_once(fleet: Fleet, key: str) -> int:
    return int(fleet.value(MOST_AT_ONCE.format(key=key)) or 0)


def start(fleet: Fleet) -> None:
    """Two dispatchers and three workers are at work."""
    for _ in range(2):
        fleet.dispatcher()
    for _ in range(3):
        fleet.worker("--concurrency=4")


@pytest.mark.parametrize("seed", [1, 2])
def test_no_limit_is_exceeded_at_any_instant(fleet: Fleet, seed: int) -> None:
    draw = random.Random(seed)
    fleet.enqueue_all(
        (
            "test.limited",
            {"seconds": draw.choice([0, 0.01, 0.05])},
            {
                "limit_key": draw.choice(["x", "y", "z", ""]),
                "tenant": draw.choice(["a", "b"]),
                "exclusive": draw.choice(["", "", "k1", "k2"]),
            },
        )
        for _ in range(400)
    )
    start(fleet)
    fleet.await_final(90)
    assert fleet.states() == {"succeeded": 400}
    assert 2 <= most_at_once(fleet, "kind") <= 4
    assert 1 <= most_at_once(fleet, "limit_key") <= 2
    assert most_at_once(fleet, "exclusive_key") == 1


def test_no_rate_is_exceeded_and_nothing_is_dropped(fleet: Fleet) -> None:
    fleet.enqueue_all([("test.paced", {}, {})] * 200)
    start(fleet)
    fleet.await_final(60)
    assert fleet.states() == {"succeeded": 200}
    moments = [
        float(at)
        for (at,) in fleet.query(
            "SELECT (h.move->>0)::float8 FROM jobs_job, jsonb_array_elements(history) h(move) "
            "WHERE h.move->>2 = 'queued' ORDER BY 1"
        )
    ]
    for i, begun in enumerate(moments):
        for j in range(i, len(moments)):
            assert j - i + 1 <= 50 * (moments[j] - begun + 0.1) + 5
    lasted = moments[-1] - moments[0]
    assert (200 - 5 - 1) / 50 - 0.1 <= lasted <= 4 * 200 / 50, "nor is it wasted"


def test_a_busy_provider_is_left_alone_by_everybody(fleet: Fleet) -> None:
    start(fleet)
    first = fleet.enqueue("test.busy", {"seconds": 2.0})
    closed = "SELECT closed_until FROM jobs_limiter WHERE scope = 'kind:test.busy'"
    [(until,)] = wait_until(lambda: fleet.query(closed))
    fleet.enqueue_all([("test.busy", {"seconds": 0.1}, {})] * 20)
    fleet.await_final(30)
    assert fleet.numbers(first) == {"attempt": 2, "failures": 0, "crashes": 0, "releases": 0}
    begun = fleet.value(
        "SELECT min((h.move->>0)::float8) FROM jobs_job, jsonb_array_elements(history) h(move) "
        "WHERE h.move->>2 = 'running' AND id <> %s",
        [first],
    )
    assert begun >= until.timestamp() - 0.001


def test_a_freed_key_is_used_at_once(fleet: Fleet) -> None:
    start(fleet)
    fleet.enqueue_all([("test.sleep", {"seconds": 0.02}, {"exclusive": "k"})] * 60)
    fleet.await_final(60)
    assert most_at_once(fleet, "exclusive_key") == 1
    assert fleet.value(_GAPS) < 0.3, "nobody waits for the reconciler"


def test_a_flood_of_one_tenant_does_not_delay_another(fleet: Fleet) -> None:
    fleet.query(_FLOOD)
    start(fleet)
    wait_until(lambda: fleet.states().get("succeeded", 0) > 100)
    number = 100
    for _ in range(number):
        fleet.enqueue("test.effect", tenant="modest")
    started = "SELECT count(*) FROM jobs_job WHERE tenant = 'modest' AND started_at IS NOT NULL"
    wait_until(lambda: fleet.value(started) == number)
    assert fleet.states().get("pending", 0) > 0, "the flood is not over yet"
    started_at = [at for (at,) in fleet.query(_FLOOD_STARTED)]
    passed_by = sorted(
        bisect(started_at, until) - bisect(started_at, since)
        for since, until in fleet.query(_MODEST_WAITED)
    )
    # What is in Redis already goes first, and nothing else of the flood.
    assert passed_by[int(number * 0.95)] <= 5000, passed_by
    fleet.end_programs()
    fleet.query("UPDATE jobs_job SET state = 'pending', owner = NULL WHERE state = 'running'")
