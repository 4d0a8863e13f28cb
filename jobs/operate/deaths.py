"""What dies and waits for a decision: how much, for how long, and of what within a batch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobs.engine import sql
from jobs.operate import reads
from jobs.operate.bulkscan import scoped
from jobs.operate.reads import MOST, Count
from jobs.principals import By, principal

_CAUSES = 100


@dataclass(frozen=True, slots=True)
class Health:
    """Numbers of dead letters."""

    open: Count
    oldest_at: datetime | None
    """Since when the oldest open one waits, of those that were counted."""
    last_hour: Count
    """Opened within it, whatever was decided since."""
    last_day: Count


@dataclass(frozen=True, slots=True)
class Group:
    """Open dead letters of a batch that died of the same."""

    fingerprint: str
    summary: str
    count: int
    latest_job: UUID
    last_at: datetime


# Those that expire first were opened first, and have an index of the open ones only.
_OPEN = """
SELECT count(*), min(opened_at) FROM (SELECT opened_at FROM jobs_deadletter j
  WHERE j.state = 'open' {scope} ORDER BY j.expires_at LIMIT %s) o
"""
_OPENED = """
SELECT count(*) FROM (SELECT 1 FROM jobs_deadletter j
  WHERE j.opened_at > jobs_clock() - make_interval(hours => %s) {scope} LIMIT %s) o
"""
_OF_BATCH = """
SELECT fingerprint, (array_agg(summary ORDER BY opened_at DESC))[1], count(*),
  (array_agg(job_id ORDER BY opened_at DESC))[1], max(opened_at)
FROM (SELECT d.fingerprint, d.summary, d.job_id, d.opened_at FROM jobs_job j
  JOIN jobs_deadletter d ON d.job_id = j.id AND d.state = 'open'
  WHERE j.batch_id = %s AND j.state = 'failed' {scope} LIMIT %s) f
GROUP BY 1 ORDER BY 3 DESC, 1 LIMIT %s
"""


def health(*, by: By) -> Health:
    """How many wait, and how many come, as ``by`` sees them."""
    scope, given = scoped(principal(by).scope)
    with reads.bounded():
        [(waiting, oldest)] = sql.rows(_OPEN.format(scope=scope), [*given, MOST + 1])
        hour, day = (
            reads.count(sql.rows(_OPENED.format(scope=scope), [hours, *given, MOST + 1])[0][0])
            for hours in (1, 24)
        )
    return Health(reads.count(waiting), oldest, hour, day)


def of_batch(batch_id: UUID, *, by: By) -> list[Group]:
    """What members of the batch died of, the most frequent first."""
    scope, given = scoped(principal(by).scope)
    with reads.bounded():
        found = sql.rows(_OF_BATCH.format(scope=scope), [batch_id, *given, MOST, _CAUSES])
    return [Group(*row) for row in found]
