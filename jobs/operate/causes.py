"""Causes: dead letters that died of the same error, seen together and decided upon together.

Numbers, ids and quoted texts of the message do not matter, and neither does the kind of the job.
A resolved cause is open again as soon as it kills another job; an ignored one once its time is
over and it does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from jobs.clockwork import aware
from jobs.engine import sql
from jobs.errors import Denied, InvalidOption, NotAllowed, UnknownTarget
from jobs.models import Bulk
from jobs.names import label_problem
from jobs.operate import acts, bulk, targets
from jobs.operate.bulkplans import Care, whole
from jobs.operate.bulkscan import scoped
from jobs.operate.targets import EVERYBODYS, Place
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


def ignore(fingerprint: str, *, by: By, reason: str, until: datetime | None = None) -> Cause:
    """It is known and nothing to look at, until then, or until somebody reopens it."""
    if until is not None:
        aware("until", until)
        if sql.rows("SELECT 1 WHERE jobs_clock() >= %s", [until]):
            raise InvalidOption("until", "has passed")
    return _decide(fingerprint, "ignore", "ignored", ("open", "ignored"), by, reason, until)


def resolve(fingerprint: str, *, by: By, reason: str) -> Cause:
    """It is believed to be gone; it is open again where it comes back."""
    return _decide(fingerprint, "resolve", "resolved", ("open", "ignored"), by, reason)


def reopen(fingerprint: str, *, by: By, reason: str) -> Cause:
    """It wants to be looked at again."""
    return _decide(fingerprint, "reopen", "open", ("ignored", "resolved"), by, reason)


def note(fingerprint: str, text: str, *, by: By) -> Cause:
    """The note that everybody sees beside it; an empty one takes the note away."""
    if problem := label_problem(text, NOTE_LIMIT):
        raise InvalidOption("note", problem)
    with acts.on(
        "cause.note", kind="cause", id=fingerprint, permission="resolve_deadletter", by=by,
        place=EVERYBODYS,
    ) as act:  # fmt: skip
        before = find(fingerprint, by=by)
        sql.run("UPDATE jobs_cause SET note = %s WHERE fingerprint = %s", [text, fingerprint])
        act.changed({"note": before.note}, {"note": text})
    return find(fingerprint, by=by)


def _decide(
    fingerprint: str, verb: str, to: str, allowed: tuple[str, ...], by: By, reason: str,
    until: datetime | None = None,
) -> Cause:  # fmt: skip
    with acts.on(
        f"cause.{verb}", kind="cause", id=fingerprint, permission="resolve_deadletter", by=by,
        reason=reason, needs_reason=True, place=EVERYBODYS,
    ) as act:  # fmt: skip
        find(fingerprint, by=by)
        [(state,)] = sql.rows(
            "SELECT state FROM jobs_cause WHERE fingerprint = %s FOR UPDATE", [fingerprint]
        )
        if state not in allowed:
            raise NotAllowed(verb, fingerprint, state, allowed)
        sql.run(
            "UPDATE jobs_cause SET state = %s, ignored_until = %s, decided_by = %s, "
            "decided_at = jobs_clock() WHERE fingerprint = %s",
            [to, until, act.name, fingerprint],
        )
        act.changed({"state": state}, {"state": to})
    return find(fingerprint, by=by)


def retry_all(fingerprint: str, *, by: By, reason: str, care: Care = Care()) -> Bulk:  # noqa: B008
    """A bulk operation that retries every job that died of it and is not decided upon."""
    return _all("retry", fingerprint, by, reason, care)


def replay_all(fingerprint: str, *, by: By, reason: str, care: Care = Care()) -> Bulk:  # noqa: B008
    """A bulk operation that replays every job that died of it and is not decided upon."""
    return _all("replay", fingerprint, by, reason, care)


def discard_all(fingerprint: str, *, by: By, reason: str, care: Care = Care()) -> Bulk:  # noqa: B008
    """A bulk operation that discards every open dead letter of it."""
    return _all("discard", fingerprint, by, reason, care)


def _all(verb: str, fingerprint: str, by: By, reason: str, care: Care) -> Bulk:
    name, target = f"cause.{verb}_all", {"kind": "cause", "id": fingerprint}
    if not principal(by).may("run_bulk"):
        raise acts.deny(Denied("run_bulk"), by, name, **target)
    with acts.on(
        name, permission="resolve_deadletter", by=by, reason=reason, needs_reason=True,
        place=_place(fingerprint, by), **target,
    ) as act:  # fmt: skip
        # What is named is one thing, which needs no second look.
        query = f"fingerprint:{find(fingerprint, by=by).fingerprint}"
        made = bulk.carry_out(
            f"{verb}_letter", query=query, who=act.principal, reason=act.reason, care=care
        )
        act.note(bulk=made.id)
    return made


def _place(fingerprint: str, by: By) -> Place:
    """Whoever has nothing of the cause meets the place of those who see everything."""
    try:
        find(fingerprint, by=by)
    except UnknownTarget:
        return EVERYBODYS
    return Place()
