"""Places of jobs: the queues, tenants and kinds that occur together, each found by one look.

One index has every job by its place and its age. Distinct places are found by jumping from one to
the next, and a query for queues, tenants or kinds becomes the few places that it is about.
"""

# Every piece of SQL here is put together from constants; values are bound.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.engine import sql
from jobs.operate.query import Query
from jobs.principals import Scope

MOST = 2000
"""This many places are looked at; where there are more, they tell nothing."""
MATCHING = 200
"""More places than these are not read side by side."""
KEYS = ("queue", "tenant", "kind")
PLACE = "((j.queue || E'\\x1f' || j.lane) COLLATE \"C\")"
"""As it stands in the index; a lane is a tenant and a kind."""
_PART = "split_part({place}, E'\\x1f', {n})"
_TENANT, _QUEUE = _PART.format(place="p.place", n=2), _PART.format(place="p.place", n=1)
# Where a tenant is known, the others of each queue are jumped over.
_BEHIND = f"""CASE WHEN %(tenant)s::text IS NULL OR {_TENANT} = %(tenant)s THEN p.place
    WHEN {_TENANT} COLLATE "C" < %(tenant)s
      THEN {_QUEUE} || E'\\x1f' || %(tenant)s || E'\\x1f'
    ELSE {_QUEUE} || ' ' END"""
_NEXT = f"""SELECT {PLACE} FROM jobs_job j WHERE {PLACE} > {{behind}}
  AND (%(end)s::text IS NULL OR {PLACE} < %(end)s) ORDER BY {PLACE} LIMIT 1"""
_FIND = f"""
WITH RECURSIVE p(place, n) AS (
  (SELECT s.place, 1 FROM ({_NEXT.format(behind="%(begin)s")}) AS s(place))
  UNION ALL SELECT ({_NEXT.format(behind=_BEHIND)}), n + 1
  FROM p WHERE p.place IS NOT NULL AND n <= {MOST})
SELECT (SELECT count(place) FROM p), ARRAY(SELECT j.place FROM (SELECT p.place, {_QUEUE} AS queue,
    {_TENANT} AS tenant, {_PART.format(place="p.place", n=3)} AS kind
  FROM p WHERE p.place IS NOT NULL) AS j WHERE {{where}} LIMIT {MATCHING + 1})
"""
QUEUES = f"""
(WITH RECURSIVE p(place, n) AS (
  (SELECT {PLACE}, 1 FROM jobs_job j ORDER BY {PLACE} LIMIT 1)
  UNION ALL SELECT (SELECT {PLACE} FROM jobs_job j WHERE {PLACE} > {_QUEUE} || ' '
    ORDER BY {PLACE} LIMIT 1), n + 1
  FROM p WHERE p.place IS NOT NULL AND n < {MOST})
SELECT {_QUEUE} COLLATE "default" FROM p WHERE p.place IS NOT NULL)
"""
"""The queues that jobs name, whatever their state, in the collation of the column's own indexes."""


def find(queries: Sequence[Query], scope: Scope) -> list[str] | None:
    """Return the places of the jobs that are asked for, or None where there are too many to tell.

    None, too, where neither the queries nor the scope name any queue, tenant or kind.
    """
    named = {key: _named(queries, key) for key in KEYS}
    if not any(named.values()) and scope.is_everything:
        return None
    queue, tenant = _only(named["queue"]), _only(named["tenant"] or scope.tenants)
    queries = [Query(tuple(t for t in query.terms if t.key in KEYS)) for query in queries]
    conditions = [query.where(scope) for query in queries]
    given: list[Any] = [value for _, values in conditions for value in values]
    # Names for the values of conditions, which are named by their order.
    texts = " AND ".join(text for text, _ in conditions).replace("%s", "\x00")
    for n in range(len(given)):
        texts = texts.replace("\x00", f"%(v{n})s", 1)
    values: dict[str, Any] = {f"v{n}": value for n, value in enumerate(given)}
    values |= {"tenant": tenant, "begin": "", "end": None}
    if queue is not None:
        values |= {"begin": f"{queue}\x1f", "end": f"{queue} "}
    with sql.connection().cursor() as cursor:
        cursor.execute(_FIND.replace("{where}", texts), values)
        [(looked, found)] = cursor.fetchall()
    return None if looked > MOST or len(found) > MATCHING else list(found)


def _named(queries: Sequence[Query], key: str) -> frozenset[str]:
    return frozenset(value for query in queries for value in query.positive(key))


def _only(values: frozenset[str] | None) -> str | None:
    """The one value, unless it stands for many."""
    only = next(iter(values)) if values is not None and len(values) == 1 else None
    return None if only is None or only.endswith("*") else only
