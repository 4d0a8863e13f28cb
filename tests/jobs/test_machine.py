"""Two workers, an impatient clock and every claim they ever had, against the real functions.

Hypothesis chooses the steps. A small model says which moves may follow; after every step the
rows are compared with it and with the invariants. A worker keeps its old claims and tries them
again at any later time: none of those writes may ever be accepted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import jobs
from jobs.engine import claims, leases
from jobs.engine.claims import Claim, Success
from jobs.engine.dispatch import know_queues, promote
from jobs.engine.reconcile import expire
from jobs.ids import uuid7
from jobs.outcomes import Ending, Fault
from jobs.states import FINAL_STATES, JOB_EDGES, RETRYABLE_STATES, JobState, moves
from tests.jobs.factories import ended, sql
from tests.specimens.handlers import Fail, Noop

START = datetime(2040, 1, 1, tzinfo=UTC)
QUEUE = "machine"
WORKERS = ("left", "right")
LEGAL = moves(JOB_EDGES)
ENDINGS: tuple[Ending, ...] = (
    "failed",
    "unrecoverable",
    "snoozed",
    "timeout",
    "released",
    "cancelled",
    "bad_payload",
    "bad_result",
    "crashed",
    "lost",
)
workers = st.sampled_from(WORKERS)


@dataclass
class Seen:
    """What the model knows of a job."""

    state: str
    moves: int = 0
    token: UUID | None = None
    """The token of the claim that holds it now, and whose it is."""
    owner: UUID | None = None
    successes: int = 0


@dataclass
class Worker:
    """An executor, and every claim it ever made."""

    owner: UUID
    claims: list[Claim] = field(default_factory=list)


class Life(RuleBasedStateMachine):
    """One database, one queue, two workers."""

    def __init__(self) -> None:
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.now = START
        self.set_clock()
        know_queues({QUEUE})
        self.known: dict[UUID, Seen] = {}
        self.workers: dict[str, Worker] = {}

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)

    def set_clock(self) -> None:
        sql("SELECT set_config('jobs.now', %s, false)", [self.now.isoformat()])

    # ---- What happens

    @initialize()
    def workers_start(self) -> None:
        for name in WORKERS:
            self.restart(name)

    @rule(seconds=st.sampled_from([0.001, 1, 6, 16, 61, 3600]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.set_clock()

    @rule(
        fragile=st.booleans(),
        delay=st.sampled_from([0, 0, 0, 5, 60]),
        expires=st.sampled_from([None, None, 10, 100]),
        priority=st.integers(-100, 100),
    )
    def enqueue(self, fragile: bool, delay: float, expires: float | None, priority: int) -> None:
        payload = Fail() if fragile else Noop()
        options: dict[str, Any] = {"delay": delay, "expires": expires, "priority": priority}
        answer = jobs.enqueue(payload, queue=QUEUE, tenant="t", **options)
        self.known[answer.id] = Seen(str(answer.state))

    @rule(count=st.integers(1, 4))
    def enqueue_many(self, count: int) -> None:
        for job_id in jobs.enqueue_many([jobs.Draft(Noop(), queue=QUEUE)] * count):
            self.known[job_id] = Seen("pending")

    @rule()
    def promote(self) -> None:
        promote()

    @rule(budget=st.integers(1, 5))
    def dispatch(self, budget: int) -> None:
        ready = {r[0] for r in sql("SELECT id FROM jobs_job WHERE state = 'pending' AND wait = 0")}
        fed = {r[0] for r in sql("SELECT id FROM jobs_dispatch(%s, %s, 10, '{}')", [QUEUE, budget])}
        assert fed <= ready and (fed or not ready)

    @rule(name=workers, only=st.integers(0, 5))
    def claim(self, name: str, only: int) -> None:
        """A worker tries ids that it has from anywhere, due or not."""
        worker = self.workers[name]
        ids = list(self.known)[-5:] if only else list(self.known)
        for mine in claims.claim(QUEUE, ids, worker.owner, name):
            seen = self.known[mine.id]
            assert seen.token is None and seen.state == "queued"
            seen.token, seen.owner = mine.token, worker.owner
            worker.claims.append(mine)

    @rule(name=workers)
    def feed(self, name: str) -> None:
        """A worker gets everything that is due: the usual way, in one step."""
        promote()
        self.dispatch(5)
        self.every_move_was_legal()
        self.claim(name, 0)

    @rule(name=workers, then=workers)
    def hand_on(self, name: str, then: str) -> None:
        """A worker gives back all that it holds, and somebody gets it."""
        held = [c for c in self.workers[name].claims if self.holds(c)]
        claims.settle_endings([ended(c, "released") for c in held], name)
        self.every_move_was_legal()
        self.feed(then)

    @precondition(lambda self: any(w.claims for w in self.workers.values()))
    @rule(data=st.data(), name=workers, result=st.sampled_from(["null", '{"a": 1}']))
    def succeed(self, data: st.DataObject, name: str, result: str) -> None:
        """A worker reports success for any of its claims, old or new."""
        batch = self.some_claims(data, name)
        accepted = claims.settle_successes([Success(c, result) for c in batch], name)
        assert accepted == {c.id for c in batch if self.holds(c)}
        for job_id in accepted:
            self.known[job_id].successes += 1

    @precondition(lambda self: any(w.claims for w in self.workers.values()))
    @rule(data=st.data(), name=workers, ending=st.sampled_from(ENDINGS))
    def end(self, data: st.DataObject, name: str, ending: Ending) -> None:
        """A worker reports another ending for any of its claims, old or new."""
        batch = self.some_claims(data, name)
        floor = 30.0 if ending == "snoozed" else 0.0
        moved = claims.settle_endings([ended(c, ending, floor=floor) for c in batch], name)
        assert set(moved) == {c.id for c in batch if self.holds(c)}

    @rule(name=workers)
    def renew(self, name: str) -> None:
        owner = self.workers[name].owner
        alive = sql("SELECT 1 FROM jobs_lease WHERE owner = %s AND dead_at IS NULL", [owner])
        assert bool(leases.renew([owner])) == bool(alive)

    @rule(name=workers, crashed=st.booleans())
    def bury(self, name: str, crashed: bool) -> None:
        """A worker's death is proved; it will not know."""
        worker = self.workers[name]
        held = [j for j, seen in self.known.items() if seen.token and seen.owner == worker.owner]
        fault = Fault("Crash", "killed")
        began: dict[UUID, tuple[Ending, Fault | None]] = {}
        if crashed:
            began = dict.fromkeys(held[:1], ("crashed", fault))
        # A claim made after the worker was declared dead is held too.
        assert set(leases.bury(worker.owner, "supervisor", began, "gone")) == set(held)

    @rule(name=workers)
    def restart(self, name: str) -> None:
        """A new executor takes over the name; the old claims stay with it."""
        old = self.workers.get(name)
        self.workers[name] = Worker(uuid7(), old.claims if old else [])
        leases.open_lease(self.workers[name].owner, name, [QUEUE], 4)

    @rule()
    def reap(self) -> None:
        leases.mark_lapsed()
        leases.reap("reaper")
        lapsed = sql(
            "SELECT 1 FROM jobs_job j LEFT JOIN jobs_lease l USING (owner) WHERE state = 'running' "
            "AND (l.owner IS NULL OR dead_at IS NOT NULL AND until < jobs_clock())"
        )
        assert lapsed == []

    @rule()
    def close_expired(self) -> None:
        expire("reconciler")
        overdue = "SELECT 1 FROM jobs_job WHERE state = ANY(%s) AND expires_at <= jobs_clock()"
        assert sql(overdue, [["blocked", "pending", "queued"]]) == []

    @precondition(lambda self: self.known)
    @rule(data=st.data(), close=st.booleans())
    def retry(self, data: st.DataObject, close: bool) -> None:
        """Somebody moves a finished job back by hand, with or without closing its dead letter."""
        over = sorted(j for j, seen in self.known.items() if seen.state in RETRYABLE_STATES)
        if not over:
            return
        job_id = data.draw(st.sampled_from(over))
        sql(
            "UPDATE jobs_job SET state = 'pending', finished_at = NULL, wait = 0, "
            "run_at = jobs_clock(), expires_at = NULL, failures = 0, cancel_requested_at = NULL "
            "WHERE id = %s",
            [job_id],
        )
        if close:
            sql(
                "UPDATE jobs_deadletter SET state = 'retried', closed_at = jobs_clock() "
                "WHERE job_id = %s AND state = 'open'",
                [job_id],
            )

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Somebody cancels a job: at once, or by a request where it runs."""
        job_id = data.draw(st.sampled_from(sorted(self.known)))
        sql(
            "UPDATE jobs_job SET cancel_requested_at = jobs_clock() "
            "WHERE id = %s AND state = 'running'",
            [job_id],
        )
        sql(
            "UPDATE jobs_job SET state = 'cancelled', finished_at = jobs_clock(), queued_at = NULL "
            "WHERE id = %s AND state IN ('pending', 'queued')",
            [job_id],
        )

    # ---- What must hold

    def some_claims(self, data: st.DataObject, name: str) -> list[Claim]:
        own = self.workers[name].claims
        if not own:
            return []
        chosen = data.draw(st.lists(st.integers(1, len(own)), min_size=1, max_size=3, unique=True))
        latest = {own[-i].id: own[-i] for i in chosen}
        return list(latest.values())

    def holds(self, claim: Claim) -> bool:
        return self.known[claim.id].token == claim.token

    @invariant()
    def the_database_is_sound(self) -> None:
        self.every_move_was_legal()
        self.a_success_is_for_good()
        self.the_rest_of_the_rows_fits()

    def every_move_was_legal(self) -> None:
        found = sql(
            "SELECT id, state, token, owner, history, history_dropped, finished_at FROM jobs_job"
        )
        assert {r[0] for r in found} == set(self.known)
        for job_id, state, token, owner, raw, dropped, finished_at in found:
            seen = self.known[job_id]
            history = json.loads(raw)
            total = len(history) + dropped
            new = history[len(history) - (total - seen.moves) :] if total > seen.moves else []
            way = [seen.state, *(entry[2] for entry in new)]
            for step, entry in zip(pairwise(way), new, strict=True):
                assert step in LEGAL and entry[1] == step[0], (step, entry)
            assert way[-1] == state
            assert (state in FINAL_STATES) == (finished_at is not None)
            assert (state == "running") == (owner is not None)
            seen.state, seen.moves = state, total
            seen.token = token if state == "running" else None

    def a_success_is_for_good(self) -> None:
        for seen in self.known.values():
            assert seen.successes == (seen.state == JobState.SUCCEEDED)

    def the_rest_of_the_rows_fits(self) -> None:
        assert sql(_CONTRADICTIONS) == []


_CONTRADICTIONS = """
SELECT 'letter of the future', j.id FROM jobs_deadletter d JOIN jobs_job j ON j.id = d.job_id
  WHERE d.state = 'open' AND j.attempt < d.attempt
UNION ALL SELECT 'failure without letter', j.id FROM jobs_job j WHERE state = 'failed'
  AND NOT EXISTS (SELECT 1 FROM jobs_deadletter d WHERE d.job_id = j.id AND d.state = 'open')
UNION ALL SELECT 'attempt of the future', j.id FROM jobs_attempt a JOIN jobs_job j
  ON j.id = a.job_id WHERE a.number > j.attempt
UNION ALL SELECT 'counters', id FROM jobs_job WHERE attempt < crashes + failures
UNION ALL SELECT 'early', id FROM jobs_job WHERE state = 'running' AND started_at < run_at
"""


def lives(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.django_db
class TestLife(Life.TestCase):  # type: ignore[misc, valid-type]
    """Every way of life that hypothesis finds keeps the promises."""

    settings = lives(60)


@pytest.mark.slow
class TestManyLives(TestLife):
    """More examples of the same rules."""

    settings = lives(120)


@pytest.mark.soak
@pytest.mark.timeout(1200)
class TestMostLives(TestLife):
    """Many more examples of the same rules."""

    settings = lives(1000)
