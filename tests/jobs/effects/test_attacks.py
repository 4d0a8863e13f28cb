"""Never two calls for one key without a probe or a person between them."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest
from django.db import OperationalError, connection

import jobs
from jobs.engine import effects
from jobs.engine import sql as engine_sql
from jobs.engine.claims import Claim
from jobs.models import Effect
from jobs.operate import doubts
from tests.jobs.effects.world import Outside, ctx, doubted, steal, the_effect
from tests.jobs.factories import a_claim, claim_again, ended, settle

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", ["_INTEND", "_FINISH"])
def test_a_lost_answer_of_the_database_costs_no_second_call(
    monkeypatch: pytest.MonkeyPatch, outside: Outside, statement: str
) -> None:
    claim = a_claim()
    lost: list[str] = []
    original = engine_sql.bound_rows

    def losing(text: str, parameters: Any) -> Any:
        found = original(text, parameters)
        if text == getattr(effects, statement) and not lost:
            lost.append(text)
            raise OperationalError("the connection is closed")
        return found

    monkeypatch.setattr(engine_sql, "bound_rows", losing)
    assert ctx(claim).effect("send", outside) == {"number": 1}
    assert (len(lost), outside.calls, the_effect(claim.id).state) == (1, 1, "done")


@pytest.mark.django_db(transaction=True)
def test_a_zombie_and_its_successor_call_once(outside: Outside) -> None:
    claim = a_claim()
    calling, go_on = threading.Event(), threading.Event()
    ends: list[BaseException] = []

    def call() -> Any:
        calling.set()
        go_on.wait(10)
        return outside()

    def zombie() -> None:
        try:
            ctx(claim).effect("send", call)
        except BaseException as error:
            ends.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=zombie)
    thread.start()
    assert calling.wait(10)
    successor = steal(claim)
    with pytest.raises(jobs.effects.InDoubt):
        ctx(successor).effect("send", outside)
    go_on.set()
    thread.join(10)
    assert [str(end) for end in ends] == ["lease_lost"]
    assert outside.calls == 1
    # The truth came late, and is there for the next attempt.
    assert the_effect(claim.id).state == "done"
    assert ctx(steal(successor)).effect("send", outside) == {"number": 1}


@pytest.mark.parametrize("late_word", [None, jobs.effects.NotHappened("refused")])
def test_the_late_word_of_a_zombie_is_not_about_its_successors_call(
    outside: Outside, late_word: Exception | None
) -> None:
    claim = a_claim()
    successors: list[Claim] = []

    def call() -> Any:
        successors.append(steal(claim))
        with pytest.raises(TimeoutError):
            # Its probe is wrong about the call that is still under way.
            ctx(successors[0]).effect(
                "send", outside.breaking(TimeoutError()), probe=lambda _: jobs.effects.NotHappened()
            )
        if late_word is not None:
            raise late_word
        return "late"

    with pytest.raises(jobs.Stopped if late_word is None else jobs.effects.NotHappened):
        ctx(claim).effect("send", call)
    assert (the_effect(claim.id).state, the_effect(claim.id).attempt) == ("intent", 2)
    with pytest.raises(jobs.effects.InDoubt):
        ctx(steal(successors[0])).effect("send", outside)
    assert outside.calls == 1


@pytest.mark.django_db(transaction=True)
def test_of_those_that_were_told_it_did_not_happen_one_calls(outside: Outside) -> None:
    """Each has a ledger that knows nothing of the others; all hear the answer before any acts."""
    claim = doubted(outside)
    heard = threading.Barrier(4)
    ends: list[str] = []

    def race() -> None:
        answers = iter([jobs.effects.NotHappened()])

        def probe(_: jobs.effects.Intent) -> Any:
            answer = next(answers, None)
            if answer is not None:
                heard.wait(10)
            return answer or jobs.effects.Unknown()

        try:
            ctx(claim).effect("send", outside, probe=probe)
            ends.append("went on")
        except BaseException as error:
            ends.append(type(error).__name__)
        finally:
            connection.close()

    threads = [threading.Thread(target=race) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(ends) == 4
    assert set(ends) <= {"went on", "InDoubt"}
    assert (outside.calls, the_effect(claim.id).state) == (2, "done")


class World:
    """Plays attempts, losses, late zombies, probes and persons at random; counts calls that
    nobody cleared."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.claim = a_claim()
        self.uncleared = 0
        self.most = 0
        self.depth = 0
        self.seen: Counter[str] = Counter()

    def attempt(self) -> None:
        mine = self.claim
        with_probe = self.random.random() < 0.4
        try:
            ctx(mine).effect("send", self.call, probe=self.probe if with_probe else None)
            self.seen["done"] += 1
        except (
            jobs.effects.InDoubt,
            jobs.Stopped,
            jobs.effects.NotHappened,
            TimeoutError,
        ) as error:
            self.seen[type(error).__name__] += 1

    def call(self) -> str:
        self.uncleared += 1
        self.most = max(self.most, self.uncleared)
        if self.random.random() < 0.3 and self.depth < 3:
            # The job is taken away during the call, and others go on with it.
            self.depth += 1
            self.steal()
            for _ in range(self.random.randrange(3)):
                self.attempt()
            self.depth -= 1
        end = self.random.random()
        if end < 0.5:
            raise TimeoutError
        if end < 0.65 and self.depth == 0:
            self.uncleared = 0
            raise jobs.effects.NotHappened
        return "done"

    def probe(self, intent: jobs.effects.Intent) -> Any:
        if self.random.random() < 0.5:
            return jobs.effects.Unknown()
        if self.random.random() < 0.5:
            return jobs.effects.Happened("found")
        self.uncleared = 0
        return jobs.effects.NotHappened()

    def steal(self) -> None:
        self.claim = steal(self.claim)

    def person(self) -> None:
        self.seen["person"] += 1
        effect = Effect.objects.filter(job_id=self.claim.id).first()
        if effect is None or effect.state not in ("intent", "in_doubt"):
            return
        settle(ended(self.claim, "in_doubt"))
        self.uncleared = 0
        doubts.resolve(effect.id, "resend", by="ann", reason="looked")
        self.claim = claim_again(self.claim.id)


def test_no_two_calls_without_a_probe_or_a_person_in_between() -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        world = World(seed)
        for _ in range(12):
            deed = world.random.choice([world.attempt, world.attempt, world.steal, world.person])
            deed()
        assert world.most <= 1, f"seed {seed}"
        seen += world.seen
    ends = ("done", "InDoubt", "Stopped", "NotHappened", "TimeoutError", "person")
    assert all(seen[end] >= 5 for end in ends), seen
