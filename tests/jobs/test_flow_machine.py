"""Everything that decides who may run, in any order, against the real functions.

Hypothesis mixes keys, limits, batches, parents, replays, preemptions, pauses and schedules with two
workers that keep their old claims and try them later. After every step the doctor looks at the
whole database, and at what only this test can know: who was accepted, and what had been closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, ClassVar
from uuid import UUID

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import jobs
from jobs import registry
from jobs.engine import admission, claims, dispatch, leases, reconcile, schedules, slots, withdrawal
from jobs.engine.claims import Claim, Success
from jobs.ids import uuid7
from jobs.operate import batchacts, batches, doctor, pauses
from jobs.operate import schedules as timetables
from jobs.operate.cancel import cancel
from jobs.operate.flow_invariants import FLOW_INVARIANTS
from jobs.operate.invariants import INVARIANTS
from jobs.operate.replay import replay
from jobs.operate.retry import retry
from jobs.outcomes import Ending
from jobs.states import FINAL_STATES
from tests.jobs.factories import ended, sql
from tests.specimens.handlers import Echo

START = datetime(2040, 1, 1, tzinfo=UTC)
QUEUE = "flow"
WORKERS = ("left", "right")
CALLBACKS: dict[str, Any] = {
    name: jobs.Draft(Echo(text=name), queue="aside")
    for name in ("on_success", "on_complete", "on_failure")
}
ENDINGS: tuple[Ending, ...] = (
    "failed",
    "unrecoverable",
    "snoozed",
    "timeout",
    "released",
    "cancelled",
    "preempted",
    "held",
    "crashed",
    "lost",
)
SCOPES = (f"queue:{QUEUE}", "kind:test.flow", "tenant:a", "key:k1", "limit_key:l1")
NEVER_STUCK = 1e9
REFUSALS = (jobs.errors.NotAllowed, jobs.errors.KeyTaken)
workers = st.sampled_from(WORKERS)
# What is chosen among rows must not depend on how many there are: SQL makes some of their ids, so
# two runs of one example may differ, which hypothesis takes for an error of the test.
chances = st.integers(0, 2**16).map(Random)
decisions = st.sampled_from([cancel, retry, replay])


class Flow(jobs.Payload, kind="test.flow"):
    n: int = 0


class Pushy(jobs.Payload, kind="test.pushy"):
    n: int = 0


class Narrow(jobs.Payload, kind="test.narrow"):
    n: int = 0


def nothing(ctx: jobs.Context, payload: jobs.Payload) -> None:
    """Never called: the machine itself says how attempts end."""


uniques = st.sampled_from(
    [
        None,
        None,
        None,
        jobs.Unique("u"),
        jobs.Unique("e", "ever"),
        jobs.Unique("w", "waiting"),
        jobs.Unique("t", timedelta(seconds=20)),
    ]
)


OPTIONS: dict[str, Any] = {
    "exclusive": st.sampled_from(["", "k1", "k1", "k2"]),
    "unique": uniques,
    "priority": st.sampled_from([-5, 0, 5]),
    "delay": st.sampled_from([0, 0, 0, 10]),
    "expires": st.sampled_from([None, None, None, 40]),
    "tenant": st.sampled_from(["", "a", "b"]),
}
orders = st.tuples(
    st.sampled_from([Flow(), Flow(), Pushy(), Narrow()]), st.fixed_dictionaries(OPTIONS)
)


class Ways(RuleBasedStateMachine):
    """One database, one queue, two workers."""

    payloads: ClassVar[list[type[jobs.Payload]]] = [Flow, Pushy, Narrow]

    def __init__(self) -> None:
        super().__init__()
        jobs.handler(Flow, preemptible=True, max_attempts=2, backoff=jobs.backoff.Immediate())(
            nothing
        )
        jobs.handler(Pushy, preempts=True, preemptible=True, backoff=jobs.backoff.Fixed(5))(nothing)
        jobs.handler(Narrow, concurrency=2, per_key=jobs.Limit(at_once=1))(nothing)
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.now = START
        self.set_clock()
        dispatch.know_queues({QUEUE})
        admission.sync_limits()
        self.owners: dict[str, UUID] = {}
        self.claims: dict[str, list[Claim]] = {name: [] for name in WORKERS}
        self.accepted: Counter[UUID] = Counter()
        self.batches: list[UUID] = []
        self.watch = slots.Watch()

    def teardown(self) -> None:
        try:
            assert doctor.violations(stuck=NEVER_STUCK) == []
        finally:
            transaction.set_rollback(True)
            self.atomic.__exit__(None, None, None)
            for payload in self.payloads:
                registry.unregister(payload.kind)

    def set_clock(self) -> None:
        sql("SELECT set_config('jobs.now', %s, false)", [self.now.isoformat()])

    def ids(self, states: frozenset[Any] | None = None) -> list[UUID]:
        found = sql("SELECT id, state FROM jobs_job ORDER BY created_at, id")
        return [job_id for job_id, state in found if states is None or state in states]

    def some(self, chance: Random, states: frozenset[Any] | None = None) -> UUID | None:
        """One of the jobs in the states; the newest are the likeliest."""
        found = self.ids(states)[::-1]
        return found[min(chance.choices(range(len(found)), k=2))] if found else None

    # ---- Jobs come

    @initialize()
    def begin(self) -> None:
        for name in WORKERS:
            self.restart(name)
        timetables.create(
            "each", Flow(), interval=30, overlap="skip", missed="all", queue=QUEUE, by="x",
            reason="x",
        )  # fmt: skip
        self.batches.append(jobs.batch(**CALLBACKS).id)
        for n in range(3):
            jobs.enqueue(Flow(n=n), queue=QUEUE, exclusive="k1", batch=self.batches[0])
        jobs.chain(*[jobs.Draft(Flow(n=n), queue=QUEUE, exclusive="k2") for n in range(2)])
        batches.seal(self.batches[0])
        # So that every way to end is there from the beginning.
        for ending in (None, "unrecoverable", "failed"):
            self.feed(6, "left")
            for claim in [c for c in self.claims["left"] if self.holds(c)]:
                self.settle("left", [claim], ending)

    @rule(orders=st.lists(orders, min_size=1, max_size=3), chance=chances)
    def enqueue_some(
        self, orders: list[tuple[jobs.Payload, dict[str, Any]]], chance: Random
    ) -> None:
        for payload, options in orders:
            self.enqueue(chance, payload, **options)

    def enqueue(self, chance: Random, payload: jobs.Payload, **options: Any) -> None:
        if isinstance(payload, Narrow):
            options["limit_key"] = chance.choice(["", "l1", "l2"])
        known = self.ids()[-6:]
        if known and chance.random() < 1 / 4:
            options["after"] = chance.sample(known, min(len(known), chance.randint(0, 2)))
            options["on_parent_failure"] = chance.choice(["cancel", "wait", "run"])
        if self.batches and chance.random() < 1 / 2:
            options["batch"] = chance.choice(self.batches)
        with suppress(jobs.errors.InvalidOption):  # the batch is sealed
            jobs.enqueue(payload, queue=QUEUE, **options)

    @rule(count=st.integers(2, 4), exclusive=st.sampled_from(["", "k1"]))
    def enqueue_chain(self, count: int, exclusive: str) -> None:
        jobs.chain(*[jobs.Draft(Flow(n=n), queue=QUEUE, exclusive=exclusive) for n in range(count)])

    def tick(self) -> None:
        for job_id in schedules.tick():
            assert sql("SELECT slot_at <= jobs_clock() FROM jobs_job WHERE id = %s", [job_id]) == [
                (True,)
            ]

    # ---- Time passes, and what the reconciler does about it

    @rule(seconds=st.sampled_from([0.001, 1, 3, 16, 45]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.set_clock()

    @rule(duty=st.sampled_from(["expire", "withdraw", "free", "preempt", "tick", "reap"]))
    def reconcile(self, duty: str) -> None:
        if duty == "expire":
            reconcile.expire("reconciler")
        elif duty == "withdraw":
            withdrawal.withdraw("reconciler")
        elif duty == "reap":
            leases.mark_lapsed()
            leases.reap("reaper")
        else:
            getattr(self, duty)()

    def free(self) -> None:
        """After the belt and braces nobody sleeps beside a key that is free."""
        slots.free_leaked()
        self.watch.wake_forgotten()
        slots.wake_limited()
        assert sql(_SLEEPERS) == []

    def preempt(self) -> None:
        reconcile.preempt()
        assert sql(_BAD_PREEMPTIONS) == []

    @rule(scope=st.sampled_from(SCOPES), open_=st.sampled_from([True, True, False]))
    def pause(self, scope: str, open_: bool) -> None:
        if open_:
            pauses.resume(scope, by="x", reason="x")
        else:
            pauses.pause(scope, by="x", reason="x", until=self.now + timedelta(seconds=30))

    # ---- Jobs run

    @rule(budget=st.integers(1, 6), name=workers)
    def feed(self, budget: int, name: str) -> None:
        """The usual way: what is due is admitted, and a worker claims it."""
        dispatch.promote()
        fed = dispatch.admit(QUEUE, budget)
        assert len(fed) <= budget
        self.claim(name, fed)

    @rule(name=workers)
    def claim_anything(self, name: str) -> None:
        """A worker has ids from anywhere."""
        self.claim(name, self.ids())

    def claim(self, name: str, ids: list[UUID]) -> None:
        closed = {r[0] for r in sql("SELECT scope FROM jobs_closure WHERE until > jobs_clock()")}
        for mine in claims.claim(QUEUE, ids, self.owners[name], name):
            self.claims[name].append(mine)
            [(key,)] = sql("SELECT exclusive_key FROM jobs_job WHERE id = %s", [mine.id])
            scopes = {f"queue:{mine.queue}", f"kind:{mine.kind}", f"tenant:{mine.tenant}"}
            assert not closed & (scopes | {f"key:{key}", f"limit_key:{mine.limit_key}"})

    def holds(self, claim: Claim) -> bool:
        found = sql("SELECT token FROM jobs_job WHERE id = %s AND state = 'running'", [claim.id])
        return found == [(claim.token,)]

    @rule(
        name=workers,
        nth=st.lists(st.integers(0, 7), min_size=1, max_size=3),
        ending=st.sampled_from([None, *ENDINGS]),
    )
    def end(self, name: str, nth: list[int], ending: Ending | None) -> None:
        """A worker says how some of its claims ended, old and new; without a word, they succeed."""
        if not self.claims[name]:
            return
        own = self.claims[name][-8:]
        some = [own[-1 - n % len(own)] for n in nth]
        self.settle(name, list({claim.id: claim for claim in some}.values()), ending)

    def settle(self, name: str, batch: list[Claim], ending: Ending | None) -> None:
        """What is accepted is what the worker still holds."""
        held = {c.id for c in batch if self.holds(c)}
        if ending is None:
            done = claims.settle_successes([Success(c, "null") for c in batch], name)
            self.accepted.update(done)
        else:
            floor = 7.0 if ending in ("snoozed", "held") else 0.0
            endings = [ended(c, ending, floor=floor) for c in batch]
            done = set(claims.settle_endings(endings, name))
        assert done == held

    @rule(name=workers, budget=st.integers(1, 6), chance=chances)
    def work(self, name: str, budget: int, chance: Random) -> None:
        """Admitted, claimed and ended; most jobs succeed."""
        self.feed(budget, name)
        for claim in [c for c in self.claims[name] if self.holds(c)]:
            is_good = chance.random() < 2 / 3
            self.settle(name, [claim], None if is_good else chance.choice(ENDINGS))

    @rule(name=workers, key=st.sampled_from(["k1", "k2"]), preempts=st.booleans())
    def push(self, name: str, key: str, preempts: bool) -> None:
        """Somebody urgent wants a key; whoever holds it may be asked to make way."""
        payload = Pushy() if preempts else Flow()
        jobs.enqueue(payload, queue=QUEUE, exclusive=key, priority=9)
        self.feed(6, name)
        self.preempt()
        self.obey(name)

    @rule(name=workers)
    def obey(self, name: str) -> None:
        """Who was asked to stop does so, and the heir of its key is the next to go."""
        asked = dict(sql("SELECT id, preempted_by FROM jobs_job WHERE preempted_by IS NOT NULL"))
        for claim in [c for c in self.claims[name] if c.id in asked and self.holds(c)]:
            [(state, key)] = sql(
                "SELECT state, exclusive_key FROM jobs_job WHERE id = %s", [asked[claim.id]]
            )
            claims.settle_endings([ended(claim, "preempted")], name)
            is_open = sql("SELECT 1 FROM jobs_closure WHERE until > jobs_clock()") == []
            if state == "pending" and is_open:  # an heir that may not start inherits nothing
                assert sql("SELECT job_id FROM jobs_slot WHERE key = %s", [key]) == [
                    (asked[claim.id],)
                ]

    @rule(name=workers, what=st.sampled_from(["restart", "renew", "bury"]))
    def live(self, name: str, what: str) -> None:
        if what == "renew":
            leases.renew([self.owners[name]])
            return
        if what == "bury":
            leases.bury(self.owners[name], "supervisor", {}, "gone")
        self.restart(name)

    def restart(self, name: str) -> None:
        """Another executor takes over the name; the old claims stay with it."""
        self.owners[name] = uuid7()
        leases.open_lease(self.owners[name], name, [QUEUE], 4)

    # ---- People act

    @rule(chance=chances, over=st.booleans(), acts=st.lists(decisions, min_size=1, max_size=3))
    def decide(self, chance: Random, over: bool, acts: list[Callable[..., Any]]) -> None:
        """Several decisions about the same job, as two people make them."""
        if job_id := self.some(chance, FINAL_STATES if over else None):
            for act in acts:
                with suppress(*REFUSALS):
                    act(job_id, by="x")
                self.the_doctor_finds_nothing()

    @rule(chance=chances, act=st.sampled_from([retry, replay]))
    def run_again_twice(self, chance: Random, act: Callable[..., Any]) -> None:
        """A replay, and another decision about the old job while the new one is unfinished."""
        if job_id := self.some(chance, FINAL_STATES):
            with suppress(*REFUSALS):
                replay(job_id, by="x")
            with suppress(*REFUSALS):
                act(job_id, by="y")

    @rule(chance=chances, act=st.sampled_from(["open", "seal", "retry", "cancel"]))
    def manage_batches(self, chance: Random, act: str) -> None:
        batch = chance.choice(self.batches)
        if act == "open":
            self.batches.append(jobs.batch(**CALLBACKS).id)
        elif act == "seal":
            with suppress(jobs.errors.NotAllowed):
                batches.seal(batch)
        elif act == "retry":
            batchacts.retry_failed(batch, by="x")
        else:
            batchacts.cancel_rest(batch, by="x")

    # ---- What must hold

    @invariant()
    def the_doctor_finds_nothing(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_EVERYTHING, doctor._parameters(1000, 5, NEVER_STUCK))
            assert cursor.fetchall() == []

    @invariant()
    def a_success_is_for_good_and_accepted_once(self) -> None:
        done = {r[0] for r in sql("SELECT id FROM jobs_job WHERE state = 'succeeded'")}
        assert done == set(self.accepted)
        assert set(self.accepted.values()) <= {1}

    @invariant()
    def callbacks_come_once_per_generation(self) -> None:
        assert sql(_CALLED_TOO_OFTEN) == []


# One statement instead of thirty.
_EVERYTHING: Any = " UNION ALL ".join(
    f"(SELECT '{one.name}', q.* FROM ({one.query}) AS q(subject, detail))"  # noqa: S608 - our own
    for one in (*INVARIANTS, *FLOW_INVARIANTS)
)

_SLEEPERS = """
SELECT j.id, j.exclusive_key FROM jobs_job j
WHERE j.state = 'pending' AND j.wait = 2 AND j.exclusive_key IS NOT NULL AND j.limit_key IS NULL
  AND NOT EXISTS (SELECT 1 FROM jobs_slot s WHERE s.key = j.exclusive_key)
  AND NOT EXISTS (SELECT 1 FROM jobs_closure c WHERE c.scope = 'key:' || j.exclusive_key)
  AND NOT EXISTS (SELECT 1 FROM jobs_job w WHERE w.exclusive_key = j.exclusive_key
    AND w.state = 'pending' AND w.wait = 0)
"""

_BAD_PREEMPTIONS = """
SELECT j.id, j.state FROM jobs_job j LEFT JOIN jobs_job r ON r.id = j.preempted_by
WHERE j.preempted_by IS NOT NULL AND (j.state <> 'running' OR NOT j.preemptible
  OR r.exclusive_key IS DISTINCT FROM j.exclusive_key OR r.priority <= j.priority)
"""

_CALLED_TOO_OFTEN = """
SELECT b.id, c.payload FROM jobs_batch b JOIN jobs_job c ON c.correlation_id = b.id::text
  AND c.kind = 'test.echo' AND c.replay_of IS NULL
GROUP BY b.id, c.payload HAVING count(*) > b.generation
"""


def ways(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.django_db
class TestWays(Ways.TestCase):  # type: ignore[misc, valid-type]
    """Whatever way hypothesis finds, the rules of flow control hold."""

    settings = ways(12)


@pytest.mark.slow
class TestManyWays(TestWays):
    """More examples of the same rules."""

    settings = ways(25)


@pytest.mark.soak
@pytest.mark.timeout(1200)
class TestMostWays(TestWays):
    """Many more examples of the same rules."""

    settings = ways(200)
