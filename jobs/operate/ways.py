"""How the jobs of a query are found: as a small set, in order by an index, or by a walk.

A set is found by an index and sorted as a whole. A stream beside the jobs, the places of jobs, and
a walk over all of them come in the order of lists already, and are read in portions: until a page
is full, and otherwise for a short time or up to ``DEPTH`` jobs, whichever comes first.
"""

# Every piece of SQL here is put together from constants; values are bound.
# ruff: noqa: S608

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from jobs.engine import sql
from jobs.models import Job
from jobs.operate import places, reads
from jobs.operate.query import Query
from jobs.operate.query.keys import PARTS, PAYLOAD, Condition, is_selective, kept
from jobs.operate.query.terms import Term
from jobs.operate.reads import Count
from jobs.principals import EVERYTHING, Scope

DEPTH = 100_000
"""This many jobs are read for one page where no index finds them, if there is the time."""
BUDGET = 0.05
"""Seconds after which no other portion is read."""
FIRST_WALK, FIRST_STREAM = 2000, 500
"""Jobs of the first portion: each page goes on by this many."""
TOLD = 20_000
"""Of this many jobs a count that no index makes is made."""
SET_LIMIT = 5000
"""A set that an index finds is sorted as a whole up to this many jobs."""
Place = tuple[datetime, UUID]
"""Where a page ends: between this job and the next."""
ANYTHING: Condition = ("true", [])


@dataclass(frozen=True, slots=True)
class Way:
    """Where the jobs of a query are looked for."""

    kind: Literal["set", "stream", "places", "walk"]
    keys: tuple[Condition, ...]
    """Of a set: conditions on jobs, any of which is enough. Of a stream: conditions on the values
    beside the jobs, any of which is enough. Of places and of a walk: one that bounds it."""
    places: tuple[str, ...] = ()

    @property
    def first(self) -> int:
        """This many jobs are read at first, of each place."""
        if self.kind == "places":
            return max(100, min(FIRST_STREAM, TOLD // len(self.places)))
        return FIRST_WALK if self.kind == "walk" else FIRST_STREAM


NOTHING = Way("set", (("false", []),))


def choose(queries: Sequence[Query], scope: Scope = EVERYTHING) -> Way:
    """The cheapest way to the jobs within the scope for which all the queries hold."""
    for query in queries:
        if (found := _small_set(query)) is not None:
            return Way("set", tuple(found))
    for path, values in (pair for query in queries for pair in _streams(query)):
        return Way(
            "stream", tuple(("s.path = %s AND s.value = %s", [path, kept(v)]) for v in values)
        )
    bounds = [
        t.spec.condition(t.op, t.value)
        for query in queries
        for t in query.terms
        if t.key == "created" and not t.negated
    ]
    found_places = places.find(queries, scope)
    if found_places is not None:
        return Way("places", (_all(bounds),), tuple(found_places)) if found_places else NOTHING
    return Way("walk", (_all(bounds),))


def look(
    way: Way, where: Condition, limit: int, place: Place | None, older: bool
) -> tuple[list[Job], int, Place | None]:
    """Up to ``limit`` jobs beyond the place, in order, and among how many it looked.

    Where these are fewer than there might be, also the place from which to go on.
    """
    if way.kind == "set":
        return _jobs(way, where, limit, SET_LIMIT + 1, place, older), 0, None
    size = least = way.first
    found: list[Job] = []
    looked, began = 0, time.monotonic()
    while True:
        size = min(size, DEPTH - looked)
        found += _jobs(way, where, limit - len(found), size, place, older)
        if len(found) >= limit:
            return found, looked, None
        looked += size
        if (last := end(way, size, place, older)) is None:
            return found, looked, None
        place, spent = last, time.monotonic() - began
        # As much as there is time for, at the speed so far.
        size = min(2 * size, int(looked * (BUDGET - spent) / max(spent, 1e-6)))
        if looked >= DEPTH or size < min(least, FIRST_STREAM):
            return found, looked, place


def tell(
    way: Way, where: Condition, conditions: Sequence[Condition]
) -> tuple[tuple[int, ...], bool]:
    """For how many of the jobs each condition holds, and whether there may be more of them."""
    if way.kind == "places":
        return _tell_places(way, where, conditions)
    size = SET_LIMIT + 1 if way.kind == "set" else TOLD
    rows, given, _ = source(way, size, None, True)
    columns = ", ".join(f"count(*) FILTER (WHERE {text})" for text, _ in conditions)
    values = [one for _, some in conditions for one in some]
    [numbers] = sql.rows(
        f"SELECT {columns} FROM {rows} WHERE {where[0]}", [*values, *given, *where[1]]
    )
    return numbers, way.kind != "set" and end(way, size, None, True) is not None


def _tell_places(
    way: Way, where: Condition, conditions: Sequence[Condition]
) -> tuple[tuple[int, ...], bool]:
    """The same place by place: which jobs are read where there are too many is of no matter."""
    [(bound, bounds)] = way.keys
    both = [_all([where, condition]) for condition in conditions]
    columns = ", ".join(f"count(*) FILTER (WHERE {text})" for text, _ in both)
    [(read, *numbers)] = sql.rows(
        f"SELECT count(*), {columns} FROM (SELECT j.* FROM unnest(%s::text[]) AS p(place) "
        f"CROSS JOIN LATERAL (SELECT j.* FROM jobs_job j WHERE {places.PLACE} = p.place "
        f"AND {bound} OFFSET 0) j LIMIT {TOLD + 1}) j",
        [*(v for _, values in both for v in values), list(way.places), *bounds],
    )
    return tuple(numbers), read > TOLD


def counts(sets: Mapping[str, Sequence[Condition]]) -> dict[str, Count]:
    """How many jobs each set has; of its conditions one holds, and they exclude each other."""
    part = "(SELECT 1 FROM jobs_job j WHERE {} LIMIT %s)"
    texts, values = [], list[Any]()
    for conditions in sets.values():
        text = " UNION ALL ".join(part.format(condition) for condition, _ in conditions)
        texts.append(f"(SELECT count(*) FROM ({text}) s)")
        values += [one for _, some in conditions for one in (*some, reads.MOST + 1)]
    [found] = sql.rows(f"SELECT {', '.join(texts)}", values)
    return {name: reads.count(number) for name, number in zip(sets, found, strict=True)}


def parts(query: Query) -> list[Condition]:
    """Conditions that exclude each other, each of one index, for a query of one condition."""
    return [part for term in query.terms for part in _parts(term)] or [ANYTHING]


# ---- rows


def _jobs(
    way: Way, where: Condition, limit: int, size: int, place: Place | None, older: bool
) -> list[Job]:
    rows, given, order = source(way, size, place, older)
    statement = f"SELECT j.* FROM {rows} WHERE {where[0]} ORDER BY {order} LIMIT %s"
    return list(Job.objects.using(sql.alias()).raw(statement, [*given, *where[1], limit]))


def source(way: Way, size: int, place: Place | None, older: bool) -> tuple[str, list[Any], str]:
    """The next this many jobs of the way, as ``j``, and the order that they come in."""
    keys, given = _keys(way, size, place, older)
    if way.kind == "walk":
        return f"({keys.replace('j.id, j.created_at', 'j.*', 1)}) j", given, _order("j", older)
    # Not before it is asked for: a page looks at few of many.
    job = "CROSS JOIN LATERAL (SELECT * FROM jobs_job WHERE id = k.id OFFSET 0) j"
    return f"({keys}) k {job}", given, _order("k", older)


def _keys(way: Way, size: int, place: Place | None, older: bool) -> tuple[str, list[Any]]:
    """The statement for id and time of the next this many jobs of the way."""
    if way.kind == "walk":
        [(bound, values)] = way.keys
        beyond, at = _beyond("j", "id", place, older)
        return (
            f"SELECT j.id, j.created_at FROM jobs_job j WHERE {beyond} AND {bound} "
            f"ORDER BY {_order('j', older)} LIMIT {size}",
            [*at, *values],
        )
    if way.kind == "places":
        [(bound, values)] = way.keys
        beyond, at = _beyond("j", "id", place, older)
        part = (
            f"SELECT j.id, j.created_at FROM jobs_job j WHERE {places.PLACE} = p.place "
            f"AND {beyond} AND {bound} ORDER BY {_order('j', older)} LIMIT {size}"
        )
        return (
            f"SELECT u.id, u.created_at FROM unnest(%s::text[]) AS p(place) CROSS JOIN LATERAL "
            f"({part}) u ORDER BY {_order('u', older)} LIMIT {size}",
            [list(way.places), *at, *values],
        )
    if way.kind == "set":
        beyond, at = _beyond("u", "id", place, older)
        part = f"(SELECT j.id, j.created_at FROM jobs_job j WHERE {{}} LIMIT {size})"
        parts = " UNION ".join(part.format(text) for text, _ in way.keys)
        return (
            f"SELECT * FROM ({parts}) u WHERE {beyond}",
            [*(one for _, values in way.keys for one in values), *at],
        )
    beyond, at = _beyond("s", "job_id", place, older)
    part = (
        f"(SELECT s.job_id AS id, s.created_at FROM jobs_search s WHERE {{}} AND {beyond} "
        f"ORDER BY s.created_at {_way(older)}, s.job_id {_way(older)} LIMIT {size})"
    )
    parts = " UNION ".join(part.format(text) for text, _ in way.keys)
    given = [one for _, values in way.keys for one in (*values, *at)]
    if len(way.keys) == 1:
        return parts, given
    return f"SELECT * FROM ({parts}) u ORDER BY {_order('u', older)} LIMIT {size}", given


def end(way: Way, size: int, place: Place | None, older: bool) -> Place | None:
    """The last job of a portion, where it is full."""
    keys, given = _keys(way, size, place, older)
    found = sql.rows(
        f"SELECT e.created_at, e.id FROM ({keys}) e ORDER BY {_order('e', older)} OFFSET %s",
        [*given, size - 1],
    )
    return (found[0][0], found[0][1]) if found else None


def _beyond(table: str, column: str, place: Place | None, older: bool) -> Condition:
    if place is None:
        return ANYTHING
    sign = "<" if older else ">"
    return f"({table}.created_at, {table}.{column}) {sign} (%s::timestamptz, %s::uuid)", [*place]


def _order(table: str, older: bool) -> str:
    return f"{table}.created_at {_way(older)}, {table}.id {_way(older)}"


def _way(older: bool) -> str:
    return "DESC" if older else "ASC"


def _all(conditions: Sequence[Condition]) -> Condition:
    if not conditions:
        return ANYTHING
    return " AND ".join(text for text, _ in conditions), [v for _, some in conditions for v in some]


# ---- which way


def _small_set(query: Query) -> list[Condition] | None:
    """The conditions of one of its keys, where they find so few."""
    for key in dict.fromkeys(t.key for t in query.terms if t.op == ":" and not t.negated):
        terms = [t for t in query.terms if (t.key, t.op, t.negated) == (key, ":", False)]
        if all(is_selective(t.key, t.value) for t in terms):
            conditions = [part for t in terms for part in _parts(t)]
            if _is_small(conditions):
                return conditions
    return None


_AMONG = "j.id IN ("


def _is_small(conditions: Sequence[Condition]) -> bool:
    text = " UNION ALL ".join(
        # Where the ids stand in another table, that one knows how many there are.
        f"({condition[len(_AMONG) : -1]} LIMIT %s)"
        if condition.startswith(_AMONG)
        else f"(SELECT 1 FROM jobs_job j WHERE {condition} LIMIT %s)"
        for condition, _ in conditions
    )
    values = [one for _, some in conditions for one in (*some, SET_LIMIT + 1)]
    [(found,)] = sql.rows(f"SELECT count(*) FROM ({text}) s", values)
    return int(found) <= SET_LIMIT


def _parts(term: Term) -> list[Condition]:
    """Conditions of which any is enough, each of one index."""
    if found := PARTS.get((term.key, term.value)):
        return [(part, []) for part in found]
    return [term.spec.condition(term.op, term.value)]


def _streams(query: Query) -> list[tuple[str, tuple[str, ...]]]:
    keys = dict.fromkeys(t.key for t in query.terms)
    return [
        (key, values)
        for key in keys
        if (values := query.positive(key))
        and (
            key in ("tag", "correlation")
            or (key.startswith(PAYLOAD) and query.declaring(key.removeprefix(PAYLOAD)))
        )
    ]
