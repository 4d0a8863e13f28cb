"""The moves of circuit breakers: each is one statement on the breaker's row.

A circuit that never failed has no row. ``retry_at`` is the moment at which an open circuit may be
probed, and at which the probe of a half-open one is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import Error

from jobs.engine import delayed, sql
from jobs.engine.pushes import after_commit
from jobs.errors import BreakerError
from jobs.ids import uuid7
from jobs.jsontext import printable
from jobs.outcomes import CircuitOpen
from jobs.redaction import redact_text

log = logging.getLogger("jobs.breakers")
T = TypeVar("T")
ERROR_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Pass:
    """What a caller was told: whether it may call, and as what."""

    may_call: bool
    probe: UUID | None = None
    """Set for the one caller that probes an open circuit."""
    wait: float = 0.0
    """Seconds until the next probe may go."""
    is_probed: bool = False
    is_clean: bool = False
    """Whether no failure was counted when the caller was let in."""


_ENTER = "SELECT * FROM jobs_enter_breakers(%s::text[], %s::uuid[], %s::float8[])"

_FAIL = """
INSERT INTO jobs_breaker AS b (name, state, failures, threshold, open_for, opened_at, retry_at,
    last_error)
  SELECT name_, CASE WHEN threshold_ <= 1 THEN 'open' ELSE 'closed' END, 1, threshold_, open_for_,
    CASE WHEN threshold_ <= 1 THEN now_ END,
    CASE WHEN threshold_ <= 1 THEN now_ + open_for_ * interval '1 s' END, error_
  FROM (SELECT %s::text AS name_, %s::int AS threshold_, %s::float8 AS open_for_,
    %s::text AS error_, jobs_clock() AS now_) given
ON CONFLICT (name) DO UPDATE SET failures = b.failures + 1, threshold = excluded.threshold,
  open_for = excluded.open_for, last_error = excluded.last_error,
  state = CASE WHEN b.failures + 1 >= excluded.threshold THEN 'open' ELSE 'closed' END,
  opened_at = CASE WHEN b.failures + 1 >= excluded.threshold THEN jobs_clock() END,
  retry_at = CASE WHEN b.failures + 1 >= excluded.threshold
    THEN jobs_clock() + excluded.open_for * interval '1 s' END
WHERE b.state = 'closed'
"""

_PROBE_FAILED = """
UPDATE jobs_breaker SET state = 'open', probe_token = NULL, failures = failures + 1,
  opened_at = jobs_clock(), retry_at = jobs_clock() + %s * interval '1 s', threshold = %s,
  open_for = %s, last_error = %s
WHERE name = %s AND state = 'half_open' AND probe_token = %s
"""

_PROBE_SUCCEEDED = """
UPDATE jobs_breaker SET state = 'closed', probe_token = NULL, failures = 0, opened_at = NULL,
  retry_at = NULL
WHERE name = %s AND state = 'half_open' AND probe_token = %s RETURNING 1
"""

_SUCCEEDED = """
UPDATE jobs_breaker SET failures = 0 WHERE name = %s AND state = 'closed' AND failures > 0
"""

_GIVEN_BACK = """
UPDATE jobs_breaker SET state = 'open', probe_token = NULL, retry_at = jobs_clock()
WHERE name = %s AND state = 'half_open' AND probe_token = %s
"""

_RESET = """
UPDATE jobs_breaker SET state = 'closed', probe_token = NULL, failures = 0, opened_at = NULL,
  retry_at = NULL WHERE name = %s RETURNING 1
"""


def enter(lasting: Mapping[str, float]) -> dict[str, Pass]:
    """Return whether a caller may call now, of each of its breakers, by one statement.

    Each has a name and the seconds that its probe may last. Of those who ask for a due probe, one
    gets it, and only where no other breaker of its own forbids the call.
    """
    if sql.in_event_loop():
        raise BreakerError(f"breaker {_names(lasting)}: in a coroutine, say: async with …")
    if sql.in_transaction():
        raise BreakerError(
            f"breaker {_names(lasting)}: inside a transaction, what it counts would be rolled back "
            "with it; use it outside of transaction.atomic and of atomic handlers"
        )
    tokens = {name: uuid7() for name in lasting}
    given = [[*lasting], [*tokens.values()], [*lasting.values()]]
    passes = dict.fromkeys(lasting, Pass(may_call=True, is_clean=True))
    for name, state, is_probe, wait, failures in sql.repeating(
        lambda: sql.bound_rows(_ENTER, given)
    ):
        if is_probe:
            passes[name] = Pass(may_call=True, probe=tokens[name])
        elif state == "closed":
            passes[name] = Pass(may_call=True, is_clean=failures == 0)
        else:
            passes[name] = Pass(may_call=False, wait=wait or 0.0, is_probed=state == "half_open")
    return passes


def _names(lasting: Iterable[str]) -> str:
    return ", ".join(map(repr, lasting))


_LOOK = """
SELECT state, extract(epoch FROM retry_at - jobs_clock())::float8 FROM jobs_breaker WHERE name = %s
"""


def look(name: str) -> Pass:
    """Return what a caller would get now, without asking for the probe.

    One that would be let in as a probe has no ``wait``.
    """
    found = sql.repeating(lambda: sql.bound_rows(_LOOK, [name]))
    state, wait = found[0] if found else ("closed", None)
    return Pass(
        may_call=state == "closed", wait=max(0.0, wait or 0.0), is_probed=state == "half_open"
    )


def succeed(name: str, held: Pass) -> None:
    """The service is well: a probe closes the circuit, anyone else ends the row of failures.

    A call that began before the first of these failures says nothing about them. The jobs that the
    circuit has delayed are due when it is closed.
    """
    if held.probe is not None:
        if _write(_PROBE_SUCCEEDED, [name, held.probe]):
            _release_late(name)
    elif not held.is_clean:
        _write(_SUCCEEDED, [name])


def fail(name: str, held: Pass, threshold: int, open_for: float, error: str) -> bool:
    """Count one failure more; return whether it was that of a probe.

    The circuit is open again after a probe, or when it is one too many.
    """
    text = printable(redact_text(error, limit=ERROR_LIMIT, head=1), ERROR_LIMIT)
    if held.probe is not None:
        _write(_PROBE_FAILED, [open_for, threshold, open_for, text, name, held.probe])
    else:
        _write(_FAIL, [name, threshold, open_for, text])
    return held.probe is not None


_BLAMED = "__jobs_circuit__"


def blame(error: BaseException, opened: CircuitOpen) -> None:
    """Note on the error of a failed probe how long its job waits, like those it probed for."""
    with suppress(AttributeError, TypeError):
        setattr(error, _BLAMED, opened)


def blamed(error: BaseException) -> CircuitOpen | None:
    """Return how the job waits whose handler has raised this, where a failed probe is the cause.

    An error that was raised while that of the probe was handled, and does not say that it stands
    for it (``raise … from``), is an error of its own.
    """
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        if isinstance(found := getattr(each, _BLAMED, None), CircuitOpen):
            delattr(each, _BLAMED)  # the same object may be raised again by another attempt
            return found
        each = each.__cause__ or (each.__context__ if each.__suppress_context__ else None)
    return None


def give_back(name: str, held: Pass) -> None:
    """Nothing was learned: another may probe at once."""
    if held.probe is not None:
        _write(_GIVEN_BACK, [name, held.probe])


def reset(name: str) -> bool:
    """The circuit is closed, with nothing counted; answers whether it was known."""
    return bool(sql.repeating(lambda: sql.bound_rows(_RESET, [name])))


def release(name: str) -> int:
    """Make the jobs due that the circuit has delayed; return how many there were."""
    return delayed.release(CircuitOpen.words(name))


_FORCE_OPEN = """
UPDATE jobs_breaker SET state = 'open', probe_token = NULL, opened_at = jobs_clock(),
  retry_at = jobs_clock() + %s * interval '1 s', last_error = %s WHERE name = %s
"""


def force_open(name: str, seconds: float, why: str) -> None:
    """The circuit is open for so long, whatever it was."""
    sql.run(_FORCE_OPEN, [seconds, printable(why, ERROR_LIMIT), name])


def _release_late(name: str) -> None:
    """Release what waits for a circuit that a probe has closed; at worst it waits on."""
    try:
        if release(name):
            after_commit(None)
    except Error:
        log.exception("jobs that circuit %r has delayed wait on", name)


def _write(statement: str, parameters: list[object]) -> bool:
    """What the caller did stands, also where it cannot be counted; answers whether it changed."""
    try:
        return bool(sql.repeating(lambda: sql.bound_rows(statement, parameters)))
    except Error:
        log.exception("a breaker could not note how a call ended")
        return False


async def aside(step: Callable[[], T]) -> T:
    """The step's answer, from a thread that may wait for the database."""
    return await asyncio.shield(sync_to_async(step, thread_sensitive=True)())
