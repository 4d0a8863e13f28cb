"""The ledger of effects: what an attempt does to the outside is written down before and after.

The intent is committed while the attempt's token still holds the job, then the call is made, then
its outcome is committed. Whoever finds an intent without an outcome makes no second call: it asks
the probe, and where that cannot tell, parks the job for a person.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import Error

from jobs import conf, jsontext, traffic
from jobs.context import Signal
from jobs.effects import (
    Answer,
    AsyncCall,
    AsyncProbe,
    Call,
    Happened,
    Intent,
    NotHappened,
    OnDoubt,
    Probe,
    Terms,
)
from jobs.effects import Unknown as NoTelling
from jobs.engine import sql
from jobs.engine.claims import Claim
from jobs.engine.steady import steadily
from jobs.errors import EffectError
from jobs.ids import uuid7
from jobs.jsontext import printable
from jobs.names import label_problem
from jobs.outcomes import CircuitOpen, DatabaseLost, InDoubt, MeterFull, RateLimited, Stopped
from jobs.redaction import redact_text, storable
from jobs.traffic import Traffic, was_unsent

log = logging.getLogger("jobs.effects")
T = TypeVar("T")

KEY_LIMIT = 200
NOTE_LIMIT = 500
_DEFINITE = (NotHappened, CircuitOpen, MeterFull, RateLimited)
"""Exceptions of a call that always mean that nothing has happened."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One use of ``ctx.effect``, its arguments checked."""

    key: str
    mark: UUID
    """Tells this use from every other, also from earlier ones of the same attempt."""
    request: str
    """As JSON text."""
    definite: tuple[type[BaseException], ...]
    on_doubt: OnDoubt

    @classmethod
    def make(cls, key: str, terms: Terms, *functions: object) -> Plan:
        """Raises EffectError that names the argument."""
        definite, on_doubt = terms.definite, terms.on_doubt
        for name, function in zip(("call", "probe"), functions, strict=True):
            if not callable(function) and (name == "call" or function is not None):
                raise EffectError(f"effect: {name} must be a function, got {function!r}")
        if problem := label_problem(key, KEY_LIMIT) or ("" if key else "is empty"):
            raise EffectError(f"effect: key {problem}")
        if not isinstance(definite, tuple) or not all(
            isinstance(each, type) and issubclass(each, BaseException) for each in definite
        ):
            raise EffectError("effect: definite must be a tuple of exception classes")
        if on_doubt not in ("park", "rerun"):
            raise EffectError(f"effect: on_doubt must be 'park' or 'rerun', got {on_doubt!r}")
        try:
            text = storable(terms.request, conf.settings().PAYLOAD_LIMIT)
        except jsontext.UnstorableValue as error:
            raise EffectError(f"effect: request cannot be stored: {error}") from None
        return cls(key, uuid7(), text, definite, on_doubt)


@dataclass(frozen=True, slots=True)
class _Go:
    """The intent is this attempt's own: the call is to be made."""


@dataclass(frozen=True, slots=True)
class _Done:
    outcome: Any


@dataclass(frozen=True, slots=True)
class _Doubt:
    intent: Intent
    mark: UUID


_Found = _Go | _Done | _Doubt

_HELD = """held AS MATERIALIZED (SELECT id FROM jobs_job
  WHERE id = %s AND token = %s AND state = 'running' FOR NO KEY UPDATE)"""

# An effect that is known not to have happened may be intended again.
_INTEND = f"""
WITH {_HELD},
made AS (INSERT INTO jobs_effect AS e (job_id, key, state, token, attempt, request, intended_at)
  SELECT id, %s, 'intent', %s, %s, %s::jsonb, jobs_clock() FROM held
  ON CONFLICT (job_id, key) DO UPDATE SET state = 'intent', token = excluded.token,
    attempt = excluded.attempt, request = excluded.request, intended_at = excluded.intended_at,
    settled_at = NULL,
    resolution = CASE WHEN e.resolution LIKE 'resend by %%' THEN e.resolution ELSE '' END
  WHERE e.state = 'failed' RETURNING id)
SELECT EXISTS (SELECT 1 FROM held), EXISTS (SELECT 1 FROM made)
"""  # noqa: S608 - constant text

_FIND = """
SELECT id, state, token, outcome::text, request::text, attempt, intended_at, resolution
FROM jobs_effect WHERE job_id = %s AND key = %s
"""

_TAKE_OVER = f"""
WITH {_HELD}
UPDATE jobs_effect e SET state = 'intent', token = %s, attempt = %s, request = %s::jsonb,
  intended_at = jobs_clock(), resolution = %s
FROM held WHERE e.id = %s AND e.token = %s AND e.state IN ('intent', 'in_doubt') RETURNING 1
"""  # noqa: S608 - constant text

_LEARN = f"""
WITH {_HELD}
UPDATE jobs_effect e SET state = 'done', outcome = %s::jsonb, settled_at = jobs_clock(),
  resolution = 'found by its probe'
FROM held WHERE e.id = %s AND e.token = %s AND e.state IN ('intent', 'in_doubt') RETURNING 1
"""  # noqa: S608 - constant text

_PARK = f"""
WITH {_HELD}
UPDATE jobs_effect e SET state = 'in_doubt', resolution = %s
FROM held WHERE e.id = %s AND e.token = %s AND e.state IN ('intent', 'in_doubt') RETURNING 1
"""  # noqa: S608 - constant text

# What has happened is written down also when the job is no longer held: as long as nobody has
# taken the intent over, the row is about this very call.
_FINISH = """
WITH written AS (UPDATE jobs_effect SET state = 'done', outcome = %s::jsonb,
    settled_at = jobs_clock()
  WHERE job_id = %s AND key = %s AND token = %s AND state <> 'done' RETURNING 1)
SELECT EXISTS (SELECT 1 FROM written) OR EXISTS (SELECT 1 FROM jobs_effect
    WHERE job_id = %s AND key = %s AND token = %s AND state = 'done'),
  EXISTS (SELECT 1 FROM jobs_job WHERE id = %s AND token = %s AND state = 'running')
"""

_NOTE = """
UPDATE jobs_effect SET state = %s, resolution = %s,
  settled_at = CASE WHEN %s = 'failed' THEN jobs_clock() END
WHERE job_id = %s AND key = %s AND token = %s AND state = 'intent' RETURNING 1
"""


class Ledger:
    """The effects of one attempt."""

    def __init__(self, claim: Claim, signal: Signal, *, is_atomic: bool) -> None:
        self._job, self._token, self._attempt = claim.id, claim.token, claim.attempt
        self._signal = signal
        self._is_atomic = is_atomic
        self._lock = threading.Lock()
        self._under_way: set[str] = set()

    def run(self, key: str, call: Call, probe: Probe | None, terms: Terms) -> Any:
        """The outcome of the effect, which has happened once, now or earlier."""
        plan = Plan.make(key, terms, call, probe)
        with self._alone(plan.key):
            found = self._begin(plan)
            while isinstance(found, _Doubt):
                answer = _heard(lambda intent=found.intent: probe(intent)) if probe else NoTelling()  # type: ignore[misc]
                found = self._weigh(plan, found, answer)
            if isinstance(found, _Done):
                return found.outcome
            with traffic.watching() as seen:
                try:
                    value = call()
                except BaseException as error:
                    self._note(plan, error, seen)
                    raise
            return self._finish(plan, value)

    async def run_async(
        self, key: str, call: AsyncCall, probe: AsyncProbe | None, terms: Terms
    ) -> Any:
        """The same; call and probe may be coroutine functions."""
        plan = Plan.make(key, terms, call, probe)
        with self._alone(plan.key):
            found = await _aside(lambda: self._begin(plan))
            while isinstance(found, _Doubt):
                answer = await _heard_async(probe, found.intent) if probe else NoTelling()
                doubt = found
                found = await _aside(lambda d=doubt, a=answer: self._weigh(plan, d, a))  # type: ignore[misc]
            if isinstance(found, _Done):
                return found.outcome
            with traffic.watching() as seen:
                try:
                    value = call()
                    if inspect.isawaitable(value):
                        value = await value
                except BaseException as error:
                    failure = error
                    await _aside(lambda: self._note(plan, failure, seen))
                    raise
            return await _aside(lambda: self._finish(plan, value))

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        with self._lock:
            if key in self._under_way:
                raise EffectError(f"effect: {key!r} is under way in this attempt already")
            self._under_way.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(key)

    def _begin(self, plan: Plan) -> _Found:
        """The intent is committed, or what stands in its way is found."""
        self._refuse_transactions()
        parameters = [
            self._job,
            self._token,
            plan.key,
            plan.mark,
            self._attempt,
            plan.request,
        ]
        [(is_held, is_made)] = self._ask(_INTEND, parameters)
        if not is_held:
            raise Stopped("lease_lost")
        return _Go() if is_made else self._find(plan)

    def _find(self, plan: Plan) -> _Found:
        rows = self._ask(_FIND, [self._job, plan.key])
        if not rows or rows[0][1] == "failed":
            return self._begin(plan)  # it was settled, or taken away, only now
        [(pk, state, mark, outcome, request, attempt, intended_at, note)] = rows
        if state == "done":
            if outcome is None:
                raise EffectError(
                    f"effect {plan.key!r} has happened, but its outcome could not be stored"
                )
            return _Done(json.loads(outcome))
        if state == "intent" and mark == plan.mark:
            return _Go()  # our own, committed although the answer was lost
        known = None if request is None else json.loads(request)
        return _Doubt(Intent(pk, plan.key, known, attempt, intended_at, note), mark)

    def _weigh(self, plan: Plan, doubt: _Doubt, answer: Answer) -> _Found:
        """What follows from the probe's answer; raises InDoubt where it cannot tell."""
        if isinstance(answer, Happened):
            text = _outcome_text(answer.outcome)
            if self._settle_doubt(_LEARN, [text], doubt):
                return _Done(json.loads(text))
        elif isinstance(answer, NotHappened) or plan.on_doubt == "rerun":
            by_probe = isinstance(answer, NotHappened)
            note = "not found by its probe" if by_probe else "run again, as its handler allows"
            columns = [plan.mark, self._attempt, plan.request, note]
            if self._settle_doubt(_TAKE_OVER, columns, doubt):
                return _Go()
        else:
            intent = doubt.intent
            why = printable(getattr(answer, "why", "") or intent.note, NOTE_LIMIT)
            if self._settle_doubt(_PARK, [why], doubt):
                raise InDoubt(
                    f"effect {plan.key!r}, intended by attempt {intent.attempt}, may or may not "
                    "have happened" + (f" ({why})" if why else "")
                )
        return self._begin(plan)

    def _settle_doubt(self, statement: str, columns: list[Any], doubt: _Doubt) -> bool:
        parameters = [self._job, self._token, *columns, doubt.intent.id, doubt.mark]
        return bool(self._ask(statement, parameters))

    def _ask(self, statement: str, parameters: list[Any]) -> list[sql.Row]:
        """Run the statement, for as long as the attempt may wait for the database."""
        return steadily(lambda: sql.bound_rows(statement, parameters), self._signal)

    def _tell(self, statement: str, parameters: list[Any]) -> list[sql.Row]:
        """Run a statement that writes down what has happened, now or, at the latest, later."""
        try:
            return self._ask(statement, parameters)
        except DatabaseLost:
            _late.append((statement, parameters))
            raise

    def _note(self, plan: Plan, error: BaseException, seen: Traffic) -> None:
        """What the failed call means is on the row; whether that is known is said by its state."""
        is_definite = isinstance(error, (*_DEFINITE, *plan.definite)) or was_unsent(error, seen)
        state = "failed" if is_definite else "intent"
        told = redact_text(
            f"{type(error).__qualname__}: {_text(error)}", multiline=True, limit=NOTE_LIMIT, head=1
        )
        text = printable(told, NOTE_LIMIT)
        parameters = [state, text, state, self._job, plan.key, plan.mark]
        try:
            self._tell(_NOTE, parameters)
        except DatabaseLost:
            pass  # it will be written later; what the caller raises is the error of the call
        except Error:
            # The intent stays as it was: in doubt, which is never wrong.
            log.exception("the failure of effect %r of job %s is not noted", plan.key, self._job)

    def _finish(self, plan: Plan, value: Any) -> Any:
        """The outcome is on the row; answers it as it will be read again."""
        problem: Exception | None = None
        try:
            told = storable(value, conf.settings().RESULT_LIMIT)
            text: str | None = told
        except jsontext.UnstorableValue as error:
            text, problem = None, error
        try:
            [(is_written, is_held)] = self._tell(_FINISH, self._finished(plan, text))
        except Error as error:
            if text is None or not sql.is_refusal(error):
                raise
            text, problem = None, error
            [(is_written, is_held)] = self._tell(_FINISH, self._finished(plan, text))
        if not is_written:
            log.error(
                "effect %r of job %s has happened in attempt %d after another attempt had taken it "
                "over: it may have happened twice",
                plan.key,
                self._job,
                self._attempt,
            )
        if not (is_written and is_held):
            raise Stopped("lease_lost")
        if text is None:
            raise EffectError(
                f"effect {plan.key!r} has happened, but its outcome cannot be stored: {problem}"
            )
        return json.loads(text)

    def _finished(self, plan: Plan, outcome: str | None) -> list[Any]:
        mine = [self._job, plan.key, plan.mark]
        return [outcome, *mine, *mine, self._job, self._token]

    def _refuse_transactions(self) -> None:
        if self._is_atomic:
            raise EffectError(
                "effect: an atomic handler has no effects outside: its intent would be rolled "
                "back with it; make the handler not atomic, or enqueue a job for the effect"
            )
        if sql.in_event_loop():
            raise EffectError("effect: in an async handler, say: await ctx.effect_async(…)")
        if sql.in_transaction():
            raise EffectError(
                "effect: inside a transaction the intent would be rolled back with it; call "
                "ctx.effect outside of transaction.atomic"
            )


_late: deque[tuple[str, list[Any]]] = deque()
"""What has happened and could not be written down before its attempt had to end."""


def write_late() -> None:
    """Write what attempts of this process could not write; raise while the database is away."""
    for _ in range(len(_late)):
        try:
            late = _late.popleft()
        except IndexError:
            return  # another thread has it
        try:
            sql.repeating(partial(sql.bound_rows, *late))
        except Exception as error:
            if sql.is_refusal(error):
                log.exception("what became of an effect is refused; it stays in doubt")
                continue
            _late.append(late)
            if sql.is_disconnected(error):
                raise


def _heard(ask: Callable[[], Any]) -> Answer:
    try:
        return _checked(ask())
    except NotHappened as answer:
        return answer


async def _heard_async(probe: AsyncProbe, intent: Intent) -> Answer:
    try:
        answer = probe(intent)
        return _checked(await answer if inspect.isawaitable(answer) else answer)
    except NotHappened as raised:
        return raised


def _checked(answer: Any) -> Answer:
    if isinstance(answer, type) and issubclass(answer, NotHappened | NoTelling):
        answer = answer()
    if isinstance(answer, Happened | NotHappened | NoTelling):
        return answer
    raise EffectError(
        f"effect: a probe must return Happened(outcome), NotHappened() or Unknown(), got {answer!r}"
    )


def _outcome_text(outcome: Any) -> str:
    try:
        return storable(outcome, conf.settings().RESULT_LIMIT)
    except jsontext.UnstorableValue as error:
        raise EffectError(f"effect: the probe's outcome cannot be stored: {error}") from None


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message cannot be shown)"


async def _aside(step: Callable[[], T]) -> T:
    """The step's answer, from a thread that may wait for the database.

    A step that was begun is done, also when the coroutine is cancelled meanwhile.
    """

    def stepping() -> T:
        try:
            return step()
        finally:
            sql.give_back()

    return await asyncio.shield(sync_to_async(stepping, thread_sensitive=True)())
