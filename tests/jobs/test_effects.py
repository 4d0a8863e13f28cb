"""The ledger of effects: never two calls for one key without a probe or a person between them."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

import jobs
from jobs.context import Context, Signal
from jobs.engine import effects, runner, settler
from jobs.engine import sql as engine_sql
from jobs.engine.claims import Claim
from jobs.models import DeadLetter, Effect
from jobs.operate import doubts
from jobs.outcomes import RateLimited
from jobs.principals import Principal, Scope
from jobs.registry import get, unregister
from tests.jobs.factories import WORKER, a_claim, claim_again, ended, row, settle, succeed
from tests.jobs.factories import sql as told
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
Probe = Callable[[jobs.Intent], Any]


class Outside:
    """The world: counts what was done to it."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, int]:
        self.calls += 1
        return {"number": self.calls}

    def breaking(self, error: BaseException) -> Callable[[], Any]:
        """A call that happens, or not, and then raises."""

        def call() -> Any:
            self.calls += 1
            raise error

        return call


@pytest.fixture
def outside() -> Outside:
    return Outside()


def ctx(claim: Claim, told_to_stop: str = "") -> Context:
    """The context that the claim's handler would be given."""
    return runner._context(claim, get(claim.kind), Signal(lambda: told_to_stop))


def steal(claim: Claim) -> Claim:
    """The next attempt, after this one was lost without a word."""
    settle(ended(claim, "lost"))
    return claim_again(claim.id)


def doubted(outside: Outside) -> Claim:
    """The second attempt of a job whose first one does not know whether its call happened."""
    claim = a_claim()
    with pytest.raises(TimeoutError):
        ctx(claim).effect("send", outside.breaking(TimeoutError("no answer")))
    return steal(claim)


def the_effect(job_id: UUID, key: str = "send") -> Effect:
    return Effect.objects.get(job_id=job_id, key=key)


# ---- what is done is done


def test_the_outcome_is_answered_again_without_a_call(outside: Outside) -> None:
    claim = a_claim()
    first = ctx(claim).effect("send", outside, request={"to": "x"})
    assert ctx(steal(claim)).effect("send", outside) == first == {"number": 1}
    assert outside.calls == 1
    effect = the_effect(claim.id)
    assert (effect.state, effect.attempt, effect.request) == ("done", 1, {"to": "x"})
    assert effect.settled_at is not None


@pytest.mark.parametrize("outcome", [None, 0, "", [1, {"a": None}], False])
def test_every_outcome_comes_back(outcome: object) -> None:
    claim = a_claim()
    assert ctx(claim).effect("send", lambda: outcome) == outcome
    assert ctx(steal(claim)).effect("send", pytest.fail) == outcome


def test_the_first_run_sees_the_outcome_as_later_ones_do() -> None:
    claim = a_claim()
    assert ctx(claim).effect("send", lambda: (claim.id, 1)) == [str(claim.id), 1]


def test_keys_and_jobs_have_effects_of_their_own(outside: Outside) -> None:
    claim = a_claim()
    ctx(claim).effect("a", outside)
    ctx(claim).effect("b", outside)
    ctx(a_claim()).effect("a", outside)
    assert outside.calls == 3


@pytest.mark.django_db(transaction=True)
def test_the_intent_is_committed_before_the_call() -> None:
    claim = a_claim()
    seen: list[str] = []

    def look() -> None:
        seen.append(the_effect(claim.id).state)
        connection.close()

    def call() -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    ctx(claim).effect("send", call)
    look()
    assert seen == ["intent", "done"]


# ---- the fence


def test_a_stale_attempt_calls_nothing(outside: Outside) -> None:
    claim = a_claim()
    steal(claim)
    with pytest.raises(jobs.Stopped, match="lease_lost"):
        ctx(claim).effect("send", outside)
    assert outside.calls == 0
    assert not Effect.objects.exists()


def test_what_happened_is_recorded_although_the_job_was_taken_away(outside: Outside) -> None:
    claim = a_claim()

    def call() -> Any:
        steal(claim)
        return outside()

    with pytest.raises(jobs.Stopped, match="lease_lost"):
        ctx(claim).effect("send", call)
    assert the_effect(claim.id).outcome == {"number": 1}
    assert row(claim.id).state == "running"


def test_one_that_was_told_to_stop_begins_no_effect(outside: Outside) -> None:
    with pytest.raises(jobs.Stopped, match="cancelled"):
        ctx(a_claim(), "cancelled").effect("send", outside)
    assert outside.calls == 0


# ---- doubt


def test_without_a_probe_the_job_is_parked(outside: Outside) -> None:
    claim = doubted(outside)
    with pytest.raises(jobs.InDoubt, match=r"'send', intended by attempt 1.*no answer"):
        ctx(claim).effect("send", outside)
    assert outside.calls == 1
    assert the_effect(claim.id).state == "in_doubt"


def test_a_probe_that_finds_it_ends_the_doubt(outside: Outside) -> None:
    claim = doubted(outside)
    asked: list[jobs.Intent] = []

    def probe(intent: jobs.Intent) -> jobs.Happened:
        asked.append(intent)
        return jobs.Happened("id 7")

    assert ctx(claim).effect("send", outside, probe=probe) == "id 7"
    assert ctx(steal(claim)).effect("send", outside, probe=unasked) == "id 7"
    assert outside.calls == 1
    [intent] = asked
    assert (intent.key, intent.attempt, intent.note) == ("send", 1, "TimeoutError: no answer")


def unasked(intent: jobs.Intent) -> jobs.Unknown:
    raise AssertionError("the probe was asked")


def raising(intent: jobs.Intent) -> Any:
    raise jobs.NotHappened


@pytest.mark.parametrize(
    "probe", [lambda _: jobs.NotHappened(), lambda _: jobs.NotHappened, raising]
)
def test_a_probe_that_misses_it_lets_it_happen(outside: Outside, probe: Probe) -> None:
    claim = doubted(outside)
    assert ctx(claim).effect("send", outside, probe=probe) == {"number": 2}
    assert the_effect(claim.id).attempt == 2


def test_a_probe_that_cannot_tell_parks_the_job(outside: Outside) -> None:
    claim = doubted(outside)
    with pytest.raises(jobs.InDoubt, match="the log is gone"):
        ctx(claim).effect("send", outside, probe=lambda _: jobs.Unknown("the log is gone"))
    assert outside.calls == 1


def test_a_probe_that_breaks_fails_the_attempt_and_changes_nothing(outside: Outside) -> None:
    claim = doubted(outside)

    def probe(_: jobs.Intent) -> Any:
        raise ConnectionError("provider is away")

    with pytest.raises(ConnectionError):
        ctx(claim).effect("send", outside, probe=probe)
    assert (outside.calls, the_effect(claim.id).state) == (1, "intent")


@pytest.mark.parametrize("answer", [None, True, "done", {"happened": True}])
def test_a_probe_must_answer_in_words(outside: Outside, answer: object) -> None:
    claim = doubted(outside)
    with pytest.raises(jobs.EffectError, match="a probe answers"):
        ctx(claim).effect("send", outside, probe=lambda _: answer)  # type: ignore[arg-type,return-value]
    assert outside.calls == 1


def test_what_may_be_repeated_is_repeated(outside: Outside) -> None:
    claim = doubted(outside)
    assert ctx(claim).effect("send", outside, on_doubt="rerun") == {"number": 2}


def test_a_handler_that_swallows_the_error_does_not_call_twice(outside: Outside) -> None:
    claim = a_claim()
    context = ctx(claim)
    with pytest.raises(TimeoutError):
        context.effect("send", outside.breaking(TimeoutError()))
    with pytest.raises(jobs.InDoubt):
        context.effect("send", outside)
    assert outside.calls == 1


def test_a_key_that_is_under_way_is_refused(outside: Outside) -> None:
    context = ctx(a_claim())
    with pytest.raises(jobs.EffectError, match="under way"):
        context.effect("send", lambda: context.effect("send", outside))
    assert outside.calls == 0


class Refused(Exception):
    pass


@pytest.mark.parametrize(
    "error", [jobs.NotHappened("550"), RateLimited(1), jobs.CircuitOpen("smtp", 1), Refused()]
)
def test_an_error_that_is_definite_leaves_no_doubt(outside: Outside, error: Exception) -> None:
    claim = a_claim()
    with pytest.raises(type(error)):
        ctx(claim).effect("send", outside.breaking(error), definite=(Refused,))
    assert the_effect(claim.id).state == "failed"
    assert ctx(steal(claim)).effect("send", outside) == {"number": 2}


@pytest.mark.parametrize("error", [ValueError(), KeyboardInterrupt(), jobs.Stopped("timeout")])
def test_any_other_error_leaves_a_doubt(outside: Outside, error: BaseException) -> None:
    claim = a_claim()
    with pytest.raises(type(error)):
        ctx(claim).effect("send", outside.breaking(error))
    with pytest.raises(jobs.InDoubt):
        ctx(steal(claim)).effect("send", outside)
    assert outside.calls == 1


def test_an_outcome_that_cannot_be_stored_is_not_forgotten(outside: Outside) -> None:
    claim = a_claim()
    with pytest.raises(jobs.EffectError, match="has happened, but its outcome cannot be stored"):
        ctx(claim).effect("send", lambda: [outside(), object()])
    with pytest.raises(jobs.EffectError, match="could not be stored"):
        ctx(steal(claim)).effect("send", outside)
    assert outside.calls == 1
    doubts.resolve(
        the_effect(claim.id).id, "assume_done", by="ann", reason="seen", outcome={"number": 1}
    )
    assert ctx(steal(claim_now(claim))).effect("send", outside) == {"number": 1}


def claim_now(claim: Claim) -> Claim:
    """The claim that holds the job now."""
    [(token, attempt)] = told("SELECT token, attempt FROM jobs_job WHERE id = %s", [claim.id])
    claim.token, claim.attempt = token, attempt
    return claim


# ---- transactions and bad arguments


def test_inside_a_transaction_it_is_refused(outside: Outside) -> None:
    context = ctx(a_claim())
    with (
        transaction.atomic(),
        pytest.raises(jobs.EffectError, match=r"outside of transaction\.atomic"),
    ):
        context.effect("send", outside)
    assert not Effect.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_without_autocommit_it_is_refused(outside: Outside) -> None:
    context = ctx(a_claim())
    transaction.set_autocommit(False)
    try:
        with pytest.raises(jobs.EffectError, match="rolled back with it"):
            context.effect("send", outside)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert outside.calls == 0


class Atomic(jobs.Payload, kind="test.atomic_effect"):
    pass


class Parked(jobs.Payload, kind="test.parked_effect"):
    pass


class Async(jobs.Payload, kind="test.async_effect"):
    pass


@pytest.fixture
def registered() -> Iterator[Callable[..., None]]:
    """Registers handlers for the length of a test."""
    kinds: list[str] = []

    def register(payload: type[jobs.Payload], function: Any, **options: Any) -> None:
        jobs.handler(payload, **options)(function)
        kinds.append(payload.kind)

    yield register
    for kind in kinds:
        unregister(kind)


def run(claim: Claim) -> None:
    """One attempt, from its handler to its end."""
    outcome = runner.run(claim, Signal(str), lambda c, _: asyncio.run(c), WORKER)
    if outcome is not None:
        settler.write([outcome], WORKER)


def test_an_atomic_handler_has_no_effects(registered: Any, outside: Outside) -> None:
    def handle(ctx: Context, payload: Atomic) -> None:
        ctx.effect("send", outside)

    registered(Atomic, handle, atomic=True, max_attempts=1)
    claim = a_claim(Atomic())
    run(claim)
    assert "an atomic handler has no effects" in row(claim.id).error
    assert outside.calls == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"key": ""}, "key is empty"),
        ({"key": "a\0b"}, "key contains a control character"),
        ({"key": "x" * 201}, "key is longer than 200"),
        ({"key": 7}, "key must be text"),
        ({"on_doubt": "repeat"}, "on_doubt must be"),
        ({"definite": [ValueError]}, "definite must be a tuple"),
        ({"definite": (ValueError(),)}, "definite must be a tuple"),
        ({"request": object()}, "request cannot be stored"),
        ({"request": "\0"}, "request cannot be stored"),
        ({"call": "send"}, "call must be a function"),
        ({"probe": "find"}, "probe must be a function"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(jobs.EffectError, match=problem):
        ctx(a_claim()).effect(**{"key": "send", "call": pytest.fail, **arguments})
    assert not Effect.objects.exists()


# ---- the database


@pytest.mark.parametrize(
    "change", ["state = 'failed'", "state = 'intent'", "outcome = '8'", "key = 'other'"]
)
def test_what_is_done_stays_done(change: str) -> None:
    claim = a_claim()
    ctx(claim).effect("send", lambda: 7)
    with pytest.raises(IntegrityError, match="its row stays as it is"), transaction.atomic():
        told(f"UPDATE jobs_effect SET {change} WHERE job_id = %s", [claim.id])  # noqa: S608
    told("UPDATE jobs_effect SET resolution = 'looked at' WHERE job_id = %s", [claim.id])
    assert (the_effect(claim.id).state, the_effect(claim.id).outcome) == ("done", 7)


def test_a_doubt_is_not_deleted(outside: Outside) -> None:
    claim = doubted(outside)
    effect = the_effect(claim.id)
    with (
        pytest.raises(IntegrityError, match="is intent and cannot be deleted"),
        transaction.atomic(),
    ):
        effect.delete()


# ---- the job


def handle_parked(ctx: Context, payload: Parked) -> Any:
    return ctx.effect("send", lambda: 1 // 0)


def a_parked_job(registered: Any) -> Claim:
    registered(Parked, handle_parked, max_attempts=5, backoff=jobs.Immediate())
    claim = a_claim(Parked())
    run(claim)
    run(claim_again(claim.id))
    return claim


def test_a_job_in_doubt_fails_for_a_person(registered: Any) -> None:
    claim = a_parked_job(registered)
    job = row(claim.id)
    assert (job.state, job.reason, job.attempt) == ("failed", "in_doubt", 2)
    letter = DeadLetter.objects.get(job_id=claim.id)
    assert (letter.state, letter.reason) == ("open", "in_doubt")
    assert [effect.job_id for effect in doubts.open_doubts()] == [claim.id]


def test_a_retry_alone_decides_nothing(registered: Any) -> None:
    claim = a_parked_job(registered)
    jobs.retry(claim.id, by="ann")
    run(claim_again(claim.id))
    assert (row(claim.id).state, row(claim.id).reason) == ("failed", "in_doubt")


def test_resend_lets_the_next_attempt_call_again(registered: Any) -> None:
    claim = a_parked_job(registered)
    done = doubts.resolve(the_effect(claim.id).id, "resend", by="ann", reason="not in the outbox")
    assert (done.job_id, done.retried) == (claim.id, True)
    assert row(claim.id).state == "pending"
    assert DeadLetter.objects.get(job_id=claim.id).state == "retried"
    context = ctx(claim_again(claim.id))
    assert context.effect("send", lambda: "sent") == "sent"
    assert the_effect(claim.id).resolution == "resend by ann: not in the outbox"
    assert not doubts.open_doubts().exists()


def test_assume_done_goes_on_with_the_given_outcome(registered: Any) -> None:
    claim = a_parked_job(registered)
    doubts.resolve(the_effect(claim.id).id, "assume_done", by="ann", reason="it came", outcome="7")
    run(claim_again(claim.id))
    assert (row(claim.id).state, row(claim.id).result) == ("succeeded", "7")


def test_a_doubt_is_decided_by_job_and_key(registered: Any) -> None:
    claim = a_parked_job(registered)
    done = jobs.resolve_doubt(
        claim.id, "send", "resend", by="ann", reason="looked", expires=timedelta(hours=2)
    )
    assert (done.job_id, done.retried) == (claim.id, True)
    left = row(claim.id).expires_at - told("SELECT jobs_clock()")[0][0]
    assert timedelta(hours=1, minutes=59) < left <= timedelta(hours=2)
    with pytest.raises(jobs.EffectError, match="not in doubt"):
        jobs.resolve_doubt(claim.id, "send", "resend", by="ann", reason="again")


def test_a_doubt_that_is_not_there_or_hidden_looks_the_same(registered: Any) -> None:
    claim = a_parked_job(registered)
    stranger = Principal("eve", "api", scope=Scope(frozenset({"other"})))
    said = []
    for by, key in (("ann", "no such"), (stranger, "send"), (stranger, "no such")):
        with pytest.raises(jobs.UnknownTarget) as caught:
            jobs.resolve_doubt(claim.id, key, "resend", by=by, reason="x")
        said.append(str(caught.value).replace(key, "KEY"))
    assert len(set(said)) == 1
    assert doubts.open_doubts().count() == 1


def test_the_job_waits_until_no_doubt_is_left() -> None:
    claim = a_claim()
    for key in ("a", "b"):
        with pytest.raises(ZeroDivisionError):
            ctx(claim).effect(key, lambda: 1 // 0)
    settle(ended(claim, "in_doubt"))
    first, second = (the_effect(claim.id, key).id for key in "ab")
    assert not doubts.resolve(first, "resend", by="ann", reason="looked").retried
    assert row(claim.id).state == "failed"
    assert doubts.resolve(second, "assume_done", by="ann", reason="looked").retried
    assert row(claim.id).state == "pending"


def test_a_replay_repeats_nothing_that_has_happened(outside: Outside) -> None:
    claim = a_claim()
    ctx(claim).effect("send", outside)
    settle(ended(claim, "unrecoverable"))
    replayed = claim_again(jobs.replay(claim.id, by="ann"))
    assert ctx(replayed).effect("send", outside) == {"number": 1}
    assert ctx(replayed).effect("other", outside) == {"number": 2}
    assert the_effect(replayed.id).resolution == f"carried over from {claim.id}"


def test_a_replay_with_another_payload_begins_anew(outside: Outside) -> None:
    claim = a_claim(Noop(data="to a"))
    ctx(claim).effect("send", outside)
    settle(ended(claim, "unrecoverable"))
    replayed = claim_again(jobs.replay(claim.id, by="ann", payload=Noop(data="to b")))
    assert ctx(replayed).effect("send", outside) == {"number": 2}


def test_a_replay_of_a_success_does_everything_again(outside: Outside) -> None:
    claim = a_claim()
    ctx(claim).effect("send", outside)
    succeed(claim)
    replayed = claim_again(jobs.replay(claim.id, by="ann"))
    assert ctx(replayed).effect("send", outside) == {"number": 2}


def test_a_job_in_doubt_is_not_replayed(outside: Outside) -> None:
    claim = doubted(outside)
    settle(ended(claim, "in_doubt"))
    with pytest.raises(jobs.NotAllowed, match="in doubt about an effect; resolve that first"):
        jobs.replay(claim.id, by="ann")
    assert row(claim.id).replayed_by is None


def test_a_call_that_may_be_under_way_is_not_decided_upon() -> None:
    claim = a_claim()
    problems: list[str] = []

    def call() -> None:
        with pytest.raises(jobs.EffectError) as caught:
            doubts.resolve(the_effect(claim.id).id, "resend", by="ann", reason="impatient")
        problems.append(str(caught.value))

    ctx(claim).effect("send", call)
    assert problems == ["resolve: the call of effect 'send' may be under way: its job runs"]


def test_what_is_known_is_not_decided_upon(outside: Outside) -> None:
    claim = a_claim()
    ctx(claim).effect("send", outside)
    with pytest.raises(jobs.EffectError, match="is done, not in doubt"):
        doubts.resolve(the_effect(claim.id).id, "resend", by="ann", reason="again!")
    with pytest.raises(jobs.UnknownTarget, match="there is no effect 0"):
        doubts.resolve(0, "resend", by="ann", reason="which?")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"how": "replay"}, "how must be"),
        ({"by": ""}, "by: is empty"),
        ({"reason": " "}, "reason: is empty"),
        ({"outcome": 1}, "outcome goes with 'assume_done'"),
        ({"how": "assume_done", "outcome": object()}, "outcome cannot be stored"),
    ],
)
def test_a_bad_decision_is_refused(
    outside: Outside, arguments: dict[str, Any], problem: str
) -> None:
    claim = doubted(outside)
    given = {"how": "resend", "by": "ann", "reason": "looked", **arguments}
    with pytest.raises(jobs.JobsError, match=problem):
        doubts.resolve(the_effect(claim.id).id, **given)
    assert the_effect(claim.id).state == "intent"


# ---- async


def test_async_handlers_have_effects_too(registered: Any, outside: Outside) -> None:
    async def call() -> Any:
        await asyncio.sleep(0)
        return outside()

    async def handle(ctx: Context, payload: Async) -> Any:
        plain = await ctx.effect_async("plain", outside)
        return [plain, await ctx.effect_async("send", call)]

    registered(Async, handle)
    job_id = jobs.enqueue(Async()).id
    from jobs.testing import run_jobs

    assert run_jobs().succeeded == 1
    assert row(job_id).result == [{"number": 1}, {"number": 2}]
    assert the_effect(job_id).state == "done"


def test_a_handler_with_an_effect_keeps_the_contract(registered: Any, outside: Outside) -> None:
    from jobs.testing import check_handler

    def handle(ctx: Context, payload: Parked) -> Any:
        return ctx.effect("send", outside)

    registered(Parked, handle)
    assert check_handler(Parked()) == {"number": 1}


def test_async_probes_are_awaited(registered: Any, outside: Outside) -> None:
    async def probe(intent: jobs.Intent) -> jobs.Happened:
        await asyncio.sleep(0)
        return jobs.Happened(intent.attempt)

    async def break_it() -> None:
        outside()
        raise TimeoutError

    async def handle(ctx: Context, payload: Async) -> Any:
        return await ctx.effect_async("send", break_it, probe=probe)

    registered(Async, handle, backoff=jobs.Immediate())
    job_id = jobs.enqueue(Async()).id
    from jobs.testing import run_jobs

    run_jobs()
    assert (row(job_id).state, row(job_id).result, outside.calls) == ("succeeded", 1, 1)


def test_the_sync_form_says_what_async_handlers_should_say(
    registered: Any, outside: Outside
) -> None:
    async def handle(ctx: Context, payload: Async) -> Any:
        return ctx.effect("send", outside)

    registered(Async, handle, max_attempts=1)
    job_id = jobs.enqueue(Async()).id
    from jobs.testing import run_jobs

    run_jobs()
    assert "await ctx.effect_async" in row(job_id).error


# ---- attacks


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

    monkeypatch.setattr(effects, "_PAUSES", (0.0, 0.0))
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
    with pytest.raises(jobs.InDoubt):
        ctx(successor).effect("send", outside)
    go_on.set()
    thread.join(10)
    assert [str(end) for end in ends] == ["lease_lost"]
    assert outside.calls == 1
    # The truth came late, and is there for the next attempt.
    assert the_effect(claim.id).state == "done"
    assert ctx(steal(successor)).effect("send", outside) == {"number": 1}


@pytest.mark.parametrize("late_word", [None, jobs.NotHappened("refused")])
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
                "send", outside.breaking(TimeoutError()), probe=lambda _: jobs.NotHappened()
            )
        if late_word is not None:
            raise late_word
        return "late"

    with pytest.raises(jobs.Stopped if late_word is None else jobs.NotHappened):
        ctx(claim).effect("send", call)
    assert (the_effect(claim.id).state, the_effect(claim.id).attempt) == ("intent", 2)
    with pytest.raises(jobs.InDoubt):
        ctx(steal(successors[0])).effect("send", outside)
    assert outside.calls == 1


@pytest.mark.django_db(transaction=True)
def test_of_those_that_were_told_it_did_not_happen_one_calls(outside: Outside) -> None:
    """Each has a ledger that knows nothing of the others; all hear the answer before any acts."""
    claim = doubted(outside)
    heard = threading.Barrier(4)
    ends: list[str] = []

    def race() -> None:
        answers = iter([jobs.NotHappened()])

        def probe(_: jobs.Intent) -> Any:
            answer = next(answers, None)
            if answer is not None:
                heard.wait(10)
            return answer or jobs.Unknown()

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
        except (jobs.InDoubt, jobs.Stopped, jobs.NotHappened, TimeoutError) as error:
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
            raise jobs.NotHappened
        return "done"

    def probe(self, intent: jobs.Intent) -> Any:
        if self.random.random() < 0.5:
            return jobs.Unknown()
        if self.random.random() < 0.5:
            return jobs.Happened("found")
        self.uncleared = 0
        return jobs.NotHappened()

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
