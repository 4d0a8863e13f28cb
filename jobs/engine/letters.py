"""Retention of open dead letters: those for which nobody has decided in time are closed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from jobs import conf, registry
from jobs.engine import kept, sql
from jobs.engine.kept import NOTHING, Portion, Steps

RULE = "dead_letter_retention"
_BY_TIME = "nobody decided in time"
_BY_NUMBER = "there are newer ones enough"

_DUE = "state = 'open' AND expires_at <= jobs_clock()"
_EXPIRE = """
WITH l AS MATERIALIZED (SELECT id FROM jobs_deadletter
  WHERE {} ORDER BY id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
UPDATE jobs_deadletter d SET state = 'expired', closed_at = jobs_clock(),
  moved_by = 'retention', move_reason = %s
FROM l WHERE d.id = l.id
"""
_MANY = "state = 'open' AND kind = ANY (%s) AND (opened_at, id) < (%s, %s)"
_NEWEST = """
SELECT id, kind, opened_at FROM jobs_deadletter
WHERE state = 'open' AND (opened_at, id) < (%s, %s) ORDER BY opened_at DESC, id DESC LIMIT %s
"""
_TABLE = kept.Table(_NEWEST, no_id=0)


def stay_of(kind: str) -> timedelta:
    """How long a dead letter of the kind waits for somebody."""
    handler = registry.find(kind)
    keep = None if handler is None else handler.dead_letter_retention
    usual = conf.settings().DEAD_LETTER_RETENTION
    return usual if keep is None or keep.time is None else keep.time


def expire(dry_run: bool, chunk: int) -> Steps:
    """Open dead letters whose time is over, or that are too many of their kind, are closed."""
    yield from _close(_DUE, [], _BY_TIME, dry_run, chunk)
    limited = {name: rule for name, rule in kept.keeps(RULE).items() if rule[1].last is not None}
    if not limited:
        return
    rules = yield from kept.rules(_TABLE, conf.settings().DEAD_LETTER_RETENTION, limited)
    for place in sorted(set(rules.by_kind.values())):
        names = sorted(name for name, other in rules.by_kind.items() if other == place)
        yield from _close(_MANY, [names, *place], _BY_NUMBER, dry_run, chunk)


def _close(which: str, given: list[Any], why: str, dry_run: bool, chunk: int) -> Steps:
    if dry_run:
        [(due,)] = sql.rows(f"SELECT count(*) FROM jobs_deadletter WHERE {which}", given)  # noqa: S608 - constant text
        yield Portion({"deadletters expired": due})
        return
    while True:
        expired = sql.repeating(lambda: sql.run(_EXPIRE.format(which), [*given, chunk, why]))
        yield Portion({"deadletters expired": expired}) if expired else NOTHING
        if expired < chunk:
            return
