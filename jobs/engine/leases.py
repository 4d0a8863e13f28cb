"""Leases: an executor's claim to be alive, and what happens to its jobs when it is not.

The order is always lease before jobs: the owner is marked dead first, which no renewal undoes,
and only then are its jobs settled.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction

from jobs import conf, registry
from jobs.engine import claims, sql
from jobs.outcomes import Ending, Fault, decide

if TYPE_CHECKING:
    from jobs.engine.claims import Held
    from jobs.states import JobState

log = logging.getLogger("jobs.leases")


def open_lease(owner: UUID, worker: str, queues: Sequence[str], slots: int) -> None:
    """The owner lives, for one lease; must hold before it claims anything."""
    sql.run(
        "INSERT INTO jobs_lease (owner, worker, host, pid, queues, slots, until) VALUES "
        "(%s, %s, %s, %s, %s, %s, jobs_clock() + %s * interval '1 s') "
        "ON CONFLICT (owner) DO NOTHING",
        [
            owner,
            worker,
            socket.gethostname(),
            os.getpid(),
            list(queues),
            slots,
            conf.settings().LEASE,
        ],
    )


def renew(owners: Iterable[UUID]) -> set[UUID]:
    """The owners that live on for one more lease; one that is missing is dead."""
    found = sql.rows(
        "UPDATE jobs_lease SET until = jobs_clock() + %s * interval '1 s' "
        "WHERE owner = ANY(%s) AND dead_at IS NULL RETURNING owner",
        [conf.settings().LEASE, sorted(owners)],
    )
    return {row[0] for row in found}


def drain(owners: Iterable[UUID]) -> None:
    """The dispatchers stop counting on these executors."""
    sql.run("UPDATE jobs_lease SET draining = true WHERE owner = ANY(%s)", [sorted(owners)])


def live_queues() -> dict[str, int]:
    """The slots that live executors offer, by queue."""
    found = sql.rows(
        "SELECT q, sum(slots)::int FROM jobs_lease, unnest(queues) AS q "
        "WHERE dead_at IS NULL AND until > jobs_clock() AND NOT draining GROUP BY q"
    )
    return dict(found)


def bury(
    owner: UUID, worker: str, endings: Mapping[UUID, tuple[Ending, Fault | None]], why: str
) -> dict[UUID, JobState]:
    """The owner is dead and every job it held is settled.

    ``endings`` says what became of the jobs it had started; whatever else it held was claimed
    and not started, and is released unharmed.
    """
    with transaction.atomic(using=sql.alias()):
        sql.run(
            "UPDATE jobs_lease SET dead_at = jobs_clock() WHERE owner = %s AND dead_at IS NULL",
            [owner],
        )
        left = claims.held("j.owner = %s", [owner], 10_000, skip_locked=False)
        ended = [_ended(job, *endings.get(job.id, ("released", None)), why) for job in left]
        return claims.settle_endings(ended, worker) if ended else {}


def mark_lapsed() -> list[UUID]:
    """Owners whose lease has run out are dead from now on; answers the new ones."""
    found = sql.rows(
        "UPDATE jobs_lease SET dead_at = jobs_clock() WHERE owner IN (SELECT owner FROM jobs_lease "
        "WHERE dead_at IS NULL AND until < jobs_clock() FOR UPDATE SKIP LOCKED) RETURNING owner"
    )
    return [row[0] for row in found]


# A kind may ask for a longer lease than the executor's: its jobs wait that much longer.
_SILENT = """(l.owner IS NULL OR (l.dead_at IS NOT NULL
  AND l.until + greatest(0, j.lease - %s) * interval '1 s' < jobs_clock()))"""


def reap(worker: str, limit: int = 500) -> dict[UUID, JobState]:
    """Jobs of silent owners are settled as lost, at most ``limit`` of them."""
    fault = Fault("ExecutorSilent", "its executor's lease ran out")
    with transaction.atomic(using=sql.alias()):
        silent = claims.held(_SILENT, [conf.settings().LEASE], limit, skip_locked=True)
        ended = [_ended(job, "lost", fault, "its executor fell silent") for job in silent]
        return claims.settle_endings(ended, worker) if ended else {}


def forget_dead(older_than: float = 3600.0) -> int:
    """Leases long dead, and without a job, are deleted."""
    return sql.run(
        "DELETE FROM jobs_lease l WHERE dead_at < jobs_clock() - %s * interval '1 s' "
        "AND NOT EXISTS (SELECT 1 FROM jobs_job j WHERE j.owner = l.owner AND j.state = 'running')",
        [older_than],
    )


def _ended(job: Held, ending: Ending, fault: Fault | None, why: str) -> claims.Ended:
    handler = registry.find(job.kind)
    move = decide(ending, job.counters, handler, why=why)
    return claims.Ended(job.id, job.token, job.kind, move, fault)
