"""Which jobs a bulk operation is about: walked in portions, within frozen bounds and scope."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from jobs.engine import sql
from jobs.errors import InvalidOption, TooSlow
from jobs.operate import reads, targets, ways
from jobs.operate.bulkplans import IDS_LIMIT
from jobs.operate.query import parse
from jobs.principals import Scope

Place = tuple[datetime, UUID]
QUICK = 0.05
"""Seconds in which a preview counts everything, or else looks at the newest jobs only."""
BUDGET = 0.04
"""Seconds after which it looks at no others."""
SAMPLE = 5


@dataclass(frozen=True, slots=True)
class Found:
    """A job that was selected, with its open dead letter, if there is one."""

    id: UUID
    created_at: datetime
    state: str
    kind: str
    letter: int | None
    is_replayed: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Selected jobs that are alike, and the first of them."""

    state: str
    kind: str
    has_letter: bool
    is_replayed: bool
    count: int
    first: tuple[Found, ...]


@dataclass(slots=True)
class Seen:
    """What was found of a selection."""

    groups: list[Group] = field(default_factory=list)
    """Those that are alike may be reported in several parts."""
    looked: int | None = None
    """Among this many of the newest jobs; None: among all of them."""
    is_cut: bool = False
    """Whether there may be more."""

    @property
    def total(self) -> int:
        return sum(group.count for group in self.groups)

    def add(self, groups: Iterable[Group]) -> None:
        self.groups += groups


@dataclass(frozen=True, slots=True)
class Selection:
    """Everything that a query finds among the jobs created until a moment, as somebody sees it."""

    query: str
    before: datetime
    scope: Scope
    on_letters: bool = False

    def page(self, after: Place | None, limit: int) -> list[Found]:
        """The next of them, in the order of their creation."""
        where, parameters = self._condition()
        if after is not None:
            where += " AND (j.created_at, j.id) > (%s, %s)"
            parameters = [*parameters, *after]
        statement = f"{_BY_JOB} WHERE {where} ORDER BY j.created_at, j.id LIMIT %s"
        return [Found(*row) for row in sql.rows(statement, [*parameters, limit])]

    def look(self, limit: int) -> Seen:
        """What is found of it in a short time: all of it, or the newest that there was time for."""
        try:
            with reads.bounded(QUICK):
                return self._whole(limit)
        except TooSlow:
            with reads.bounded():
                return self._newest(limit)

    def _whole(self, limit: int) -> Seen:
        where, given = self._condition()
        seen = Seen()
        seen.add(_groups(f"{_BY_JOB} WHERE {where} LIMIT %s", [*given, limit + 1]))
        seen.is_cut = seen.total > limit
        return seen

    def _newest(self, limit: int) -> Seen:
        where, given = self._condition()
        walk = ways.Way("walk", (("j.created_at <= %s", [self.before]),))
        seen, size, place, looked = Seen(), ways.FIRST_WALK, None, 0
        began = time.monotonic()
        while True:
            rows, bounds, _ = ways.source(walk, size, place, True)
            inner = f"{_BY_JOB.replace('jobs_job j', rows, 1)} WHERE {where}"
            seen.add(_groups(inner, [*bounds, *given]))
            place = ways.end(walk, size, place, True)
            if place is None:
                return seen
            looked, spent = looked + size, time.monotonic() - began
            # As much as there is time for, at the speed so far.
            size = min(2 * size, int(looked * (BUDGET - spent) / max(spent, 1e-6)))
            if size < ways.FIRST_STREAM or seen.total > limit:
                seen.looked, seen.is_cut = looked, True
                return seen

    def _condition(self) -> tuple[str, list[Any]]:
        where, parameters = parse(self.query).where(self.scope, until=self.before)
        return (f"{where} AND d.id IS NOT NULL" if self.on_letters else where), parameters


_BY_JOB = """
SELECT j.id, j.created_at, j.state, j.kind, d.id AS letter, j.replayed_by IS NOT NULL AS replayed
FROM jobs_job j LEFT JOIN jobs_deadletter d ON d.job_id = j.id AND d.state = 'open'"""

_GROUPS = """
SELECT state, kind, letter IS NOT NULL, replayed, count(*),
  (array_agg(id ORDER BY created_at, id))[:{most}],
  (array_agg(created_at ORDER BY created_at, id))[:{most}],
  (array_agg(letter ORDER BY created_at, id))[:{most}]
FROM ({inner}) f GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4
"""


def _groups(inner: str, parameters: list[Any]) -> Iterator[Group]:
    statement = _GROUPS.format(inner=inner, most=SAMPLE)
    for state, kind, has_letter, replayed, count, *first in sql.rows(statement, parameters):
        found = tuple(
            Found(job_id, at, state, kind, letter, replayed)
            for job_id, at, letter in zip(*first, strict=True)
        )
        yield Group(state, kind, has_letter, replayed, count, found)


def by_ids(ids: Sequence[Any], scope: Scope, on_letters: bool) -> list[Found]:
    """The jobs, or the jobs of the dead letters, with these ids; each must exist within scope."""
    kind, wanted = ("deadletter", int) if on_letters else ("job", UUID)
    if not ids:
        raise InvalidOption("ids", "are empty")
    if len(ids) > IDS_LIMIT:
        raise InvalidOption("ids", f"are more than {IDS_LIMIT}: use a query")
    for one in ids:
        if not isinstance(one, wanted) or isinstance(one, bool):
            raise InvalidOption("ids", f"{one!r} is no id of a {kind}")
        if isinstance(one, int) and not 0 <= one < 2**63:
            raise targets.unknown(kind, one)
    parts, more = scoped(scope)
    if on_letters:
        statement = (
            "SELECT j.id, j.created_at, j.state, j.kind, CASE d.state WHEN 'open' THEN d.id END, "
            "j.replayed_by IS NOT NULL, d.id FROM jobs_deadletter d "
            "JOIN jobs_job j ON j.id = d.job_id WHERE d.id = ANY(%s)"
        )
    else:
        statement = (
            "SELECT j.id, j.created_at, j.state, j.kind, NULL, j.replayed_by IS NOT NULL, j.id "
            "FROM jobs_job j "
            "WHERE j.id = ANY(%s)"
        )
    rows = sql.rows(f"{statement}{parts} ORDER BY 2, 1, 5 NULLS LAST", [list(ids), *more])
    if missing := set(ids) - {row[-1] for row in rows}:
        raise targets.unknown(kind, min(missing))
    once: dict[UUID, Found] = {}
    for *columns, _ in rows:
        once.setdefault(columns[0], Found(*columns))
    return list(once.values())


def scoped(scope: Scope) -> tuple[str, list[Any]]:
    """What a statement over jobs ``j`` adds to its condition, so that it sees no others."""
    text, parameters = "", list[Any]()
    for column, names in (("tenant", scope.tenants), ("queue", scope.queues)):
        if names is not None:
            text += f" AND j.{column} = ANY(%s)"
            parameters.append(sorted(names))
    return text, parameters


def as_json(scope: Scope) -> dict[str, list[str]]:
    """The scope as a row keeps it."""
    parts = {"tenants": scope.tenants, "queues": scope.queues}
    return {name: sorted(names) for name, names in parts.items() if names is not None}


def from_json(data: dict[str, list[str]]) -> Scope:
    """The scope that a row keeps."""
    return Scope(
        frozenset(data["tenants"]) if "tenants" in data else None,
        frozenset(data["queues"]) if "queues" in data else None,
    )
