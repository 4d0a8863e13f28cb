"""An effect waits for the database: what is known of it is written, the handler has not failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import InternalError, OperationalError
from psycopg import errors

import jobs
from jobs import registry
from jobs.context import Signal
from jobs.engine import effects, runner, settler
from jobs.engine import sql as engine_sql
from jobs.engine.claims import Ended
from jobs.outcomes import DatabaseLost
from tests.jobs.effects.world import Outside, ctx, steal, the_effect
from tests.jobs.factories import WORKER, a_claim, row

pytestmark = pytest.mark.django_db(transaction=True)


class Away:
    """The database takes nothing of one statement, until it is told to again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statement = ""
        self.tries = 0
        self.error: Exception = InternalError("cannot execute INSERT in a read-only transaction")
        self.error.__cause__ = errors.ReadOnlySqlTransaction()
        self.then: Callable[[], None] = lambda: None
        original = engine_sql.bound_rows

        def rows(text: str, parameters: Any) -> Any:
            if text == self.statement:
                self.tries += 1
                self.then()
                raise self.error
            return original(text, parameters)

        monkeypatch.setattr(engine_sql, "bound_rows", rows)

    def peek(self) -> str:
        """The attempt has to end once it has met the fault."""
        return "timeout" if self.tries else ""

    def back(self) -> None:
        self.statement = ""


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[Away]:
    yield Away(monkeypatch)
    effects._late.clear()


def test_while_the_attempt_may_it_waits(away: Away, outside: Outside) -> None:
    claim = a_claim()
    away.statement = effects._INTEND

    def back_after_three() -> None:
        if away.tries == 3:
            away.back()

    away.then = back_after_three
    assert ctx(claim).effect("send", outside) == {"number": 1}
    assert (away.tries, outside.calls) == (3, 1)


def test_what_has_happened_is_written_after_the_attempt(away: Away, outside: Outside) -> None:
    claim = a_claim()
    away.statement = effects._FINISH
    with pytest.raises(DatabaseLost):
        ctx(claim, peek=away.peek).effect("send", outside)
    assert the_effect(claim.id).state == "intent"
    with pytest.raises(InternalError):
        settler.write([], WORKER)
    away.back()
    settler.write([], WORKER)
    assert (the_effect(claim.id).state, the_effect(claim.id).outcome) == ("done", {"number": 1})
    assert ctx(steal(claim)).effect("send", outside) == {"number": 1}
    assert outside.calls == 1, "and nobody has to ask a person"


def test_a_failed_call_raises_its_own_error(away: Away, outside: Outside) -> None:
    claim = a_claim()
    away.statement = effects._NOTE
    with pytest.raises(jobs.effects.NotHappened):
        ctx(claim, peek=away.peek).effect("send", outside.breaking(jobs.effects.NotHappened("no")))
    away.back()
    settler.write([], WORKER)
    assert the_effect(claim.id).state == "failed"


def test_a_refused_outcome_is_one_that_cannot_be_stored(away: Away, outside: Outside) -> None:
    claim = a_claim()
    away.statement = effects._FINISH
    away.error = OperationalError("stack depth limit exceeded")
    away.error.__cause__ = errors.StatementTooComplex()
    away.then = away.back
    with pytest.raises(jobs.errors.EffectError, match="its outcome cannot be stored"):
        ctx(claim).effect("send", outside)
    assert (the_effect(claim.id).state, the_effect(claim.id).outcome) == ("done", None)


class Sending(jobs.Payload, kind="test.sending"):
    pass


def test_the_attempt_is_lost_and_has_not_failed(away: Away, outside: Outside) -> None:
    @jobs.handler(Sending, max_attempts=1)
    def send(ctx: jobs.Context, payload: Sending) -> None:
        try:
            ctx.effect("send", outside)
        except Exception as error:
            raise ValueError("handlers do not see it") from error

    try:
        claim = a_claim(Sending())
        away.statement = effects._INTEND
        ended = runner.run(claim, Signal(away.peek), lambda c, _: None, WORKER)
        assert isinstance(ended, Ended) and ended.fault and ended.move.delay > 0
        assert (ended.fault.error_class, ended.move.attempt) == ("DatabaseLost", "lost")
        away.back()
        settler.write([ended], WORKER)
    finally:
        registry.unregister("test.sending")
    job = row(claim.id)
    assert (job.state, job.failures, job.releases, outside.calls) == ("pending", 0, 1, 0)
