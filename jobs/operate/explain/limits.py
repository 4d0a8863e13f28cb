"""Limits at which a job stops: how many at once, and how fast."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from jobs.engine import sql
from jobs.models import Job
from jobs.operate.explain.reasons import SHOWN, Reason, moment, reason
from jobs.operate.phrases import say, say_many, scope_word

_LIMITS = """
SELECT scope, at_once, per_second, CASE WHEN closed_until > jobs_clock() THEN closed_until END,
  least(burst, tokens + per_second
    * greatest(0, extract(epoch FROM jobs_clock() - coalesce(refilled_at, jobs_clock()))))::float8,
  jobs_clock()
FROM jobs_limiter WHERE scope = ANY (%s) ORDER BY scope
"""


def limits(job: Job) -> Iterator[Reason]:
    """Each limit that is reached now."""
    wanted = {f"queue:{job.queue}": ("queue", job.queue), f"kind:{job.kind}": ("kind", job.kind)}
    if job.limit_key:
        wanted[f"key:{job.kind}|{job.limit_key}"] = ("limit_key", job.limit_key)
    for scope, at_once, per_second, closed_until, tokens, now in sql.rows(_LIMITS, [list(wanted)]):
        it = scope_word(scope)
        if closed_until is not None:
            words = say("%(scope)s must wait until %(at)s, as the service that it calls has asked",
                        scope=it, at=moment(closed_until))  # fmt: skip
            yield reason("rate_limited", words, closed_until)
        if at_once is not None:
            yield from _full(job, scope, at_once, wanted[scope][0])
        if per_second is not None and tokens < 0.999999:
            free = now + timedelta(seconds=(1 - tokens) / per_second)
            words = say("the rate of %(scope)s (%(rate)s/s) is used up until %(at)s",
                        scope=it, rate=f"{per_second:g}", at=moment(free))  # fmt: skip
            yield reason("rate", words, free)


_HOLDERS = {
    "queue": "j.queue = %s",
    "kind": "j.kind = %s",
    "limit_key": "j.limit_key = %s AND j.kind = %s",
}


def _full(job: Job, scope: str, at_once: int, what: str) -> Iterator[Reason]:
    values: dict[str, list[Any]] = {
        "queue": [job.queue],
        "kind": [job.kind],
        "limit_key": [job.limit_key, job.kind],
    }
    statement = (
        f"SELECT j.id FROM jobs_job j WHERE {_HOLDERS[what]} "  # noqa: S608 - constant text
        "AND j.state IN ('queued', 'running') ORDER BY j.queued_at, j.id LIMIT %s"
    )
    holders = [str(i) for (i,) in sql.rows(statement, [*values[what], at_once])]
    if len(holders) >= at_once:
        shown = tuple(holders[:SHOWN])
        words = say_many(
            "%(scope)s allows %(n)s at once, and it is there: %(ids)s",
            "%(scope)s allows %(n)s at once, and they are there: %(ids)s",
            at_once, scope=scope_word(scope), ids=", ".join(shown),
        )  # fmt: skip
        if at_once > SHOWN:
            words += say_many(" and %(n)s other", " and %(n)s others", at_once - SHOWN)
        yield reason("limit", words, ids=shown)
