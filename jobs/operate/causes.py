"""Causes: dead letters that died of the same error, seen together and decided upon together.

Numbers, ids and quoted texts of the message do not matter, and neither does the kind of the job.
A resolved cause is open again as soon as it kills another job; an ignored one once its time is
over and it does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from jobs.clockwork import aware
from jobs.engine import sql
from jobs.errors import InvalidOption, NotAllowed, UnknownTarget
from jobs.models import Bulk
from jobs.names import label_problem
from jobs.operate import bulk, targets
from jobs.operate.bulkplans import Care, Pace, whole
from jobs.operate.bulkscan import scoped
from jobs.operate.parameters import Until
from jobs.operate.permissions import RESOLVE_DEADLETTER, RUN_BULK
from jobs.operate.targets import CAUSE, EVERYBODYS, Place
from jobs.operate.verbs import acting, deny, of, verb
from jobs.principals import By, principal

OPEN_LIMIT = 10_000
"""Open dead letters of one cause are counted up to here."""
LIST_LIMIT = 500
NOTE_LIMIT = 500
_STATES = ("open", "ignored", "resolved")


@dataclass(frozen=True, slots=True)
class Cause:
    """One normalised error, as somebody sees it."""

    fingerprint: str
    sample: str
    state: str
    ignored_until: datetime | None
    note: str
    decided_by: str
    decided_at: datetime | None
    reopened: int
    """How often it came back."""
    count: int
    """Dead letters ever."""
    open: int
    """Dead letters that wait for a decision, at most ``OPEN_LIMIT``."""
    first_at: datetime
    last_at: datetime
    kinds: dict[str, int]
    """Dead letters ever, by the kind of their jobs."""


_NAMES = tuple(field.name for field in fields(Cause))

_LIST = """
WITH s AS (SELECT j.fingerprint, j.kind, sum(j.count)::bigint AS count, min(j.first_at) AS first_at,
    max(j.last_at) AS last_at
  FROM jobs_causeseen j WHERE {where} GROUP BY 1, 2),
g AS (SELECT fingerprint, sum(count)::bigint AS count, min(first_at) AS first_at,
    max(last_at) AS last_at, jsonb_object_agg(kind, count)::text AS kinds FROM s GROUP BY 1)
SELECT k.fingerprint, {sample}, k.state, k.ignored_until, k.note, k.decided_by, k.decided_at,
  k.reopened, g.count, (SELECT count(*) FROM (SELECT 1 FROM jobs_deadletter j
    WHERE j.fingerprint = k.fingerprint AND j.state = 'open' {scope} LIMIT %s) o),
  g.first_at, g.last_at, g.kinds
FROM jobs_cause k JOIN g USING (fingerprint)
WHERE k.state = ANY(%s) ORDER BY g.last_at DESC, k.fingerprint LIMIT %s
"""

_SAMPLE = """coalesce((SELECT j.summary FROM jobs_deadletter j
    WHERE j.fingerprint = k.fingerprint AND j.state = 'open' {scope}
    ORDER BY j.opened_at DESC LIMIT 1), split_part(k.sample, ': ', 1))"""


def every(*states: str, by: By, limit: int = 100) -> list[Cause]:
    """Causes in these states (without any: open ones), the latest first, as ``by`` sees them."""
    for state in states:
        if state not in _STATES:
            raise InvalidOption("state", f"{state!r} is none of {', '.join(_STATES)}")
    whole("limit", limit, 1, LIST_LIMIT)
    return _read("true", [], list(states) or ["open"], by, limit)


def find(fingerprint: str, *, by: By) -> Cause:
    """The cause; raises UnknownTarget where there is none that ``by`` may see."""
    if not isinstance(fingerprint, str) or "\x00" in fingerprint:
        raise targets.unknown("cause", fingerprint)
    found = _read("j.fingerprint = %s", [fingerprint], list(_STATES), by, 1)
    if not found:
        raise targets.unknown("cause", fingerprint)
    return found[0]


def _read(where: str, parameters: list[Any], states: list[str], by: By, limit: int) -> list[Cause]:
    scope, more = scoped(principal(by).scope)
    # The first one to die of it may be somebody else's, and its words with it.
    sample = _SAMPLE.format(scope=scope) if scope else "k.sample"
    statement = _LIST.format(where=where + scope, scope=scope, sample=sample)
    samples = more if scope else []
    rows = sql.rows(statement, [*parameters, *more, *samples, *more, OPEN_LIMIT, states, limit])
    found = [dict(zip(_NAMES, row, strict=True)) for row in rows]
    return [Cause(**{**one, "kinds": json.loads(one["kinds"])}) for one in found]


# ---- deciding


@verb("cause.ignore", on=CAUSE, permission=RESOLVE_DEADLETTER)
def ignore(fingerprint: str, *, by: By, reason: str, until: Until = None) -> Cause:
    """Ignore a known cause until a given time, or until it is reopened."""
    if until is not None:
        aware("until", until)
        if sql.rows("SELECT 1 WHERE jobs_clock() >= %s", [until]):
            raise InvalidOption("until", "has passed")
    return _decide(fingerprint, ignore, "ignored", ("open", "ignored"), by, reason, until)


@verb("cause.resolve", on=CAUSE, permission=RESOLVE_DEADLETTER)
def resolve(fingerprint: str, *, by: By, reason: str) -> Cause:
    """Mark a cause resolved; it reopens if it recurs."""
    return _decide(fingerprint, resolve, "resolved", ("open", "ignored"), by, reason)


@verb("cause.reopen", on=CAUSE, permission=RESOLVE_DEADLETTER)
def reopen(fingerprint: str, *, by: By, reason: str) -> Cause:
    """Reopen a cause that was ignored or resolved."""
    return _decide(fingerprint, reopen, "open", ("ignored", "resolved"), by, reason)


@verb("cause.note", on=CAUSE, permission=RESOLVE_DEADLETTER)
def note(fingerprint: str, text: Annotated[str, Field(max_length=NOTE_LIMIT)], *, by: By) -> Cause:
    """Write the note of a cause; an empty text removes it."""
    if problem := label_problem(text, NOTE_LIMIT):
        raise InvalidOption("note", problem)
    with acting(note, fingerprint, by=by, place=EVERYBODYS) as act:
        before = find(fingerprint, by=by)
        sql.run("UPDATE jobs_cause SET note = %s WHERE fingerprint = %s", [text, fingerprint])
        act.changed({"note": before.note}, {"note": text})
    return find(fingerprint, by=by)


def _decide(
    fingerprint: str, function: Callable[..., Any], to: str, allowed: tuple[str, ...], by: By,
    reason: str, until: datetime | None = None,
) -> Cause:  # fmt: skip
    with acting(function, fingerprint, by=by, reason=reason, place=EVERYBODYS) as act:
        find(fingerprint, by=by)
        [(state,)] = sql.rows(
            "SELECT state FROM jobs_cause WHERE fingerprint = %s FOR UPDATE", [fingerprint]
        )
        if state not in allowed:
            raise NotAllowed(of(function).action, fingerprint, state, allowed)
        sql.run(
            "UPDATE jobs_cause SET state = %s, ignored_until = %s, decided_by = %s, "
            "decided_at = jobs_clock() WHERE fingerprint = %s",
            [to, until, act.name, fingerprint],
        )
        act.changed({"state": state}, {"state": to})
    return find(fingerprint, by=by)


@verb("cause.retry_all", on=CAUSE, permission=RESOLVE_DEADLETTER, also=(RUN_BULK,))
def retry_all(fingerprint: str, *, by: By, reason: str, care: Care = Care()) -> Bulk:  # noqa: B008
    """Retry every job with an open dead letter of a cause, as a bulk operation."""
    return _all(retry_all, "retry_letter", fingerprint, by, reason, care)


@verb("cause.replay_all", on=CAUSE, permission=RESOLVE_DEADLETTER, also=(RUN_BULK,))
def replay_all(fingerprint: str, *, by: By, reason: str, care: Care = Care()) -> Bulk:  # noqa: B008
    """Replay every job with an open dead letter of a cause, as a bulk operation."""
    return _all(replay_all, "replay_letter", fingerprint, by, reason, care)


@verb("cause.discard_all", on=CAUSE, permission=RESOLVE_DEADLETTER, also=(RUN_BULK,))
def discard_all(fingerprint: str, *, by: By, reason: str, care: Pace = Pace()) -> Bulk:  # noqa: B008
    """Discard every open dead letter of a cause, as a bulk operation."""
    return _all(discard_all, "discard_letter", fingerprint, by, reason, Care(care.per_minute))


def _all(
    function: Callable[..., Any], action: str, fingerprint: str, by: By, reason: str, care: Care
) -> Bulk:
    if not principal(by).may(RUN_BULK):
        raise deny(function, RUN_BULK, by, fingerprint)
    place = _place(fingerprint, by)
    with acting(function, fingerprint, by=by, reason=reason, place=place) as act:
        # What is named is one thing, which needs no second look.
        query = f"fingerprint:{find(fingerprint, by=by).fingerprint}"
        made = bulk.carry_out(action, query=query, who=act.principal, reason=act.reason, care=care)
        act.note(bulk=made.id)
    return made


def _place(fingerprint: str, by: By) -> Place:
    """Whoever has nothing of the cause meets the place of those who see everything."""
    try:
        find(fingerprint, by=by)
    except UnknownTarget:
        return EVERYBODYS
    return Place()
