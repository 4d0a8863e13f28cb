"""A mill: threads that dispatch, claim and settle jobs as fast as they can, until none is left.

Nothing but dispatch and settlement passes keys and places on: no duty of the reconciler runs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from jobs.engine import claims, dispatch
from jobs.outcomes import Ending
from tests.jobs.crowd import at_once
from tests.jobs.factories import WORKER, an_executor, ended, settle, sql, succeed

Disturb = Callable[[random.Random], Any]


def grind(
    queues: Sequence[str],
    *,
    threads: int = 4,
    seed: int = 1,
    budget: int = 20,
    seconds: float = 60,
    endings: Sequence[Ending] = (),
    disturb: Disturb | None = None,
) -> None:
    """Every job has ended; an AssertionError where some have not within the time.

    A part of the attempts ends otherwise than in success, where there are ``endings``.
    """
    dispatch.know_queues(set(queues))
    owners = [an_executor(queue) for queue in queues]
    deadline = time.monotonic() + seconds
    work = partial(_work, queues, owners, deadline, budget, endings, disturb)
    at_once([partial(work, random.Random(seed * 100 + n)) for n in range(threads)], seconds + 30)
    left = sql(
        "SELECT state, wait, exclusive_key, limit_key, count(*) FROM jobs_job "
        "WHERE finished_at IS NULL GROUP BY 1, 2, 3, 4"
    )
    assert left == [], f"seed {seed}: jobs are left over"


def _work(
    queues: Sequence[str],
    owners: Sequence[UUID],
    deadline: float,
    budget: int,
    endings: Sequence[Ending],
    disturb: Disturb | None,
    draw: random.Random,
) -> None:
    while time.monotonic() < deadline:
        n = draw.randrange(len(queues))
        fed = dispatch.admit(queues[n], draw.randint(1, budget))
        dispatch.promote()
        draw.shuffle(fed)
        for job_id in fed:
            for claim in claims.claim(queues[n], [job_id], owners[n], WORKER):
                if endings and draw.random() < 0.3:
                    settle(ended(claim, draw.choice(endings)))
                else:
                    succeed(claim)
        if disturb is not None:
            disturb(draw)
        if not fed and not sql("SELECT 1 FROM jobs_job WHERE finished_at IS NULL LIMIT 1"):
            return


MOST_AT_ONCE = """
WITH moves AS (
  SELECT {key} AS key, j.id, (h.move->>0)::float8 AS at, h.move->>2 AS state, h.n
  FROM jobs_job j CROSS JOIN LATERAL jsonb_array_elements(j.history) WITH ORDINALITY AS h(move, n)
  WHERE {key} IS NOT NULL),
steps AS (
  SELECT key, at, CASE WHEN state = 'queued' THEN 1
    WHEN state NOT IN ('queued', 'running') AND lag(state) OVER (PARTITION BY id ORDER BY n)
      IN ('queued', 'running') THEN -1 ELSE 0 END AS step
  FROM moves)
SELECT max(live) FROM (SELECT sum(step) OVER (
  PARTITION BY key ORDER BY at, step ROWS UNBOUNDED PRECEDING) AS live FROM steps) s
"""


def most_at_once(key: str) -> int:
    """How many jobs with the same ``key`` (an expression) were ever queued or running together.

    By the histories of the rows. Within a millisecond ends count before beginnings.
    """
    [(found,)] = sql(MOST_AT_ONCE.format(key=key))
    return int(found or 0)
