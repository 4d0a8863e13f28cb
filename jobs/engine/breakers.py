"""The moves of circuit breakers: each is one statement on the breaker's row.

A circuit that never failed has no row. ``retry_at`` is the moment at which an open circuit may be
probed, and at which the probe of a half-open one is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import Error

from jobs.engine import sql
from jobs.errors import BreakerError
from jobs.ids import uuid7
from jobs.jsontext import printable
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


_ENTER = """
WITH probe AS (UPDATE jobs_breaker SET state = 'half_open', probe_token = %s,
    retry_at = jobs_clock() + %s * interval '1 s'
  WHERE name = %s AND state IN ('open', 'half_open') AND retry_at <= jobs_clock() RETURNING 1)
SELECT EXISTS (SELECT 1 FROM probe), state,
  extract(epoch FROM retry_at - jobs_clock())::float8 FROM jobs_breaker WHERE name = %s
"""

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
WHERE name = %s AND state = 'half_open' AND probe_token = %s
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


def enter(name: str, probe_for: float) -> Pass:
    """Whether the caller may call now; of those who ask for a due probe, one gets it."""
    if sql.in_event_loop():
        raise BreakerError(f"breaker {name!r}: in a coroutine, say: async with …")
    if sql.in_transaction():
        raise BreakerError(
            f"breaker {name!r}: inside a transaction, what it counts would be rolled back with it; "
            "use it outside of transaction.atomic and of atomic handlers"
        )
    token = uuid7()
    found = sql.repeating(lambda: sql.bound_rows(_ENTER, [token, probe_for, name, name]))
    if not found:
        return Pass(may_call=True)
    # The state is as it was before this statement: of no use to the prober.
    [(is_probe, state, wait)] = found
    if is_probe:
        return Pass(may_call=True, probe=token)
    if state == "closed":
        return Pass(may_call=True)
    return Pass(may_call=False, wait=wait or 0.0, is_probed=state == "half_open")


def succeed(name: str, held: Pass) -> None:
    """The service is well: a probe closes the circuit, anyone else ends the row of failures."""
    if held.probe is not None:
        _write(_PROBE_SUCCEEDED, [name, held.probe])
    else:
        _write(_SUCCEEDED, [name])


def fail(name: str, held: Pass, threshold: int, open_for: float, error: str) -> None:
    """One failure more; the circuit is open again after a probe, or when it is one too many."""
    text = printable(redact_text(error), ERROR_LIMIT)
    if held.probe is not None:
        _write(_PROBE_FAILED, [open_for, threshold, open_for, text, name, held.probe])
    else:
        _write(_FAIL, [name, threshold, open_for, text])


def give_back(name: str, held: Pass) -> None:
    """Nothing was learned: another may probe at once."""
    if held.probe is not None:
        _write(_GIVEN_BACK, [name, held.probe])


def reset(name: str) -> bool:
    """The circuit is closed, with nothing counted; answers whether it was known."""
    return bool(sql.repeating(lambda: sql.bound_rows(_RESET, [name])))


_FORCE_OPEN = """
UPDATE jobs_breaker SET state = 'open', probe_token = NULL, opened_at = jobs_clock(),
  retry_at = jobs_clock() + %s * interval '1 s', last_error = %s WHERE name = %s
"""


def force_open(name: str, seconds: float, why: str) -> None:
    """The circuit is open for so long, whatever it was."""
    sql.run(_FORCE_OPEN, [seconds, printable(why, ERROR_LIMIT), name])


def _write(statement: str, parameters: list[object]) -> None:
    """What the caller did stands, also where it cannot be counted."""
    try:
        sql.repeating(lambda: sql.bound_rows(statement, parameters))
    except Error:
        log.exception("a breaker could not note how a call ended")


async def aside(step: Callable[[], T]) -> T:
    """The step's answer, from a thread that may wait for the database."""
    return await asyncio.shield(sync_to_async(step, thread_sensitive=True)())
