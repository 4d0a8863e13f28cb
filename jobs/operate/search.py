"""Lists of jobs: what a query asks for, newest first, page by page in both directions.

No page costs more than a bound, whatever is asked: where no index helps, it looks at the newest
``DEPTH`` jobs from its place on, says so, and its ``next`` goes on behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from jobs import registry
from jobs.engine import sql
from jobs.errors import InvalidOption, JobsError
from jobs.models import Job
from jobs.operate import reads
from jobs.operate.query import Query, parse
from jobs.operate.query.keys import PARTS, PAYLOAD, Condition, is_selective, kept
from jobs.operate.query.terms import Term, in_scope
from jobs.operate.reads import Count
from jobs.principals import By, Scope, principal

PAGE_LIMIT = 200
DEPTH = 20_000
"""So many jobs are read for one page where no index finds them."""
SET_LIMIT = 5000
"""A set that an index finds is sorted as a whole up to so many jobs."""
Place = tuple[datetime, UUID]
"""Where a page ends: between this job and the next."""

TABS: Mapping[str, str] = {
    "all": "",
    "scheduled": "is:scheduled",
    "waiting": "is:waiting",
    "running": "state:running",
    "retrying": "is:retrying",
    "succeeded": "state:succeeded",
    "dead": "state:failed",
    "cancelled": "state:cancelled",
}
"""The tabs over a list, and the query of each."""


class Refused(JobsError):
    """A query asks for what its asker may not see."""

    def __init__(self, permission: str) -> None:
        self.permission = permission
        super().__init__(f"the query needs the permission {permission!r}")


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs, newest first. ``next`` leads to older ones, ``previous`` to newer ones."""

    jobs: tuple[Job, ...]
    next: Place | None
    previous: Place | None
    notices: tuple[str, ...] = ()
    capped: bool = False
    """Whether it looked at a part only, and may go on from ``next`` or ``previous``."""


def jobs(
    query: Query | str = "",
    *,
    by: By,
    tab: str = "all",
    limit: int = 50,
    after: Place | None = None,
    before: Place | None = None,
) -> Page:
    """The jobs of the tab behind ``after``, or in front of ``before``, that ``by`` may see.

    Raises QueryError, Refused, or TooSlow.
    """
    asked = parse(query) if isinstance(query, str) else query
    if not 1 <= limit <= PAGE_LIMIT or isinstance(limit, bool):
        raise InvalidOption("limit", f"must lie between 1 and {PAGE_LIMIT}")
    if after is not None and before is not None:
        raise InvalidOption("before", "give either after or before, not both")
    if tab not in TABS:
        raise InvalidOption("tab", f"must be one of {', '.join(TABS)}, got {tab!r}")
    who = principal(by)
    for permission in sorted(asked.permissions):
        if not who.may(permission):
            raise Refused(permission)
    with reads.bounded():
        return _page((asked, parse(TABS[tab])), who.scope, limit, after or before, before is None)


def one(job_id: UUID, *, by: By) -> Job | None:
    """The job, if there is one that ``by`` may see."""
    condition, parameters = Query().where(principal(by).scope)
    with reads.bounded():
        statement = f"SELECT j.* FROM jobs_job j WHERE j.id = %s AND {condition}"  # noqa: S608
        found = list(Job.objects.using(sql.alias()).raw(statement, [job_id, *parameters]))
    return found[0] if found else None


def _page(
    queries: Sequence[Query], scope: Scope, limit: int, place: Place | None, older: bool
) -> Page:
    where, parameters = _where(queries, scope)
    source, given, way = _source(queries, place, older)
    order = "DESC" if older else "ASC"
    statement = (
        f"SELECT j.* FROM {source} WHERE {where} "  # noqa: S608 - constants; values are bound
        f"ORDER BY j.created_at {order}, j.id {order} LIMIT %s"
    )
    values = [*given, *parameters, limit + 1]
    found: list[Job] = list(Job.objects.using(sql.alias()).raw(statement, values))
    more, found = len(found) > limit, found[:limit]
    end = _place(found[-1]) if found and more else None
    notices = [notice for query in queries for notice in _about_kinds(query)]
    capped = False
    if way != "set" and not more and (any(q.terms for q in queries) or not scope.is_everything):
        end = _depth_end(place, older) if way == "walk" else None
        if capped := end is not None:
            notices.append(
                _("Looked at %(count)s jobs that no index finds; there may be more beyond.")
                % {"count": DEPTH}
            )
    if not older:
        found.reverse()
    start = _place(found[0]) if found else place
    if older:
        return Page(tuple(found), end, start if place else None, tuple(notices), capped)
    last = _place(found[-1]) if found else place
    return Page(tuple(found), last, end, tuple(notices), capped)


def _place(job: Job) -> Place:
    return job.created_at, job.pk


def _beyond(table: str, column: str, place: Place | None, older: bool) -> tuple[str, list[Any]]:
    if place is None:
        return "true", []
    sign = "<" if older else ">"
    return f"({table}.created_at, {table}.{column}) {sign} (%s::timestamptz, %s::uuid)", [*place]


def _where(queries: Sequence[Query], scope: Scope) -> tuple[str, list[Any]]:
    parts = [query.where(scope) for query in queries]
    return " AND ".join(text for text, _ in parts), [one for _, some in parts for one in some]


def _source(
    queries: Sequence[Query], place: Place | None, older: bool
) -> tuple[str, list[Any], str]:
    """The rows among which the query looks, as ``j``, and how they are found."""
    order = "DESC" if older else "ASC"
    beyond, at = _beyond("j", "id", place, older)
    for query in queries:
        if (found := _small_set(query)) is not None:
            source = "(SELECT * FROM jobs_job WHERE id = ANY(%s::uuid[])) j"
            return f"(SELECT * FROM {source} WHERE {beyond}) j", [found, *at], "set"  # noqa: S608
    for path, values in (pair for query in queries for pair in _streams(query)):
        inside, start = _beyond("s", "job_id", place, older)
        part = (
            "(SELECT s.job_id, s.created_at FROM jobs_search s WHERE s.path = %s "  # noqa: S608
            f"AND s.value = %s AND {inside} ORDER BY s.created_at {order}, s.job_id {order})"
        )
        given = [one for value in values for one in (path, kept(value), *start)]
        parts = " UNION ".join([part] * len(values))
        return (
            f"(SELECT * FROM ({parts}) s ORDER BY s.created_at {order}, s.job_id {order} "  # noqa: S608
            f"LIMIT {DEPTH}) s "
            "CROSS JOIN LATERAL (SELECT * FROM jobs_job WHERE id = s.job_id OFFSET 0) j",
            given,
            "stream",
        )
    terms = [t for query in queries for t in query.terms]
    bounds = [t for t in terms if t.key == "created" and not t.negated]
    conditions = [t.spec.condition(t.op, t.value) for t in bounds]
    inner = " AND ".join([beyond, *(text for text, _ in conditions)])
    return (
        f"(SELECT * FROM jobs_job j WHERE {inner} "  # noqa: S608
        f"ORDER BY j.created_at {order}, j.id {order} LIMIT {DEPTH}) j",
        [*at, *(one for _, some in conditions for one in some)],
        "walk",
    )


def _small_set(query: Query) -> list[UUID] | None:
    """The ids among which the query looks, where one of its keys finds so few."""
    for key in dict.fromkeys(t.key for t in query.terms if t.op == ":" and not t.negated):
        terms = [t for t in query.terms if (t.key, t.op, t.negated) == (key, ":", False)]
        if all(is_selective(t.key, t.value) for t in terms):
            found = _set([part for t in terms for part in _parts(t)])
            if found is not None:
                return found
    return None


def _parts(term: Term) -> list[Condition]:
    """Conditions of which any is enough, each of one index."""
    if term.key == "is" and term.value in PARTS:
        return [(part, []) for part in PARTS[term.value]]
    return [term.spec.condition(term.op, term.value)]


def _set(conditions: Sequence[tuple[str, list[Any]]]) -> list[UUID] | None:
    """The ids that the conditions find, where they are few enough."""
    found = sql.rows(*_union(conditions, SET_LIMIT + 1))
    return None if len(found) > SET_LIMIT else [row[0] for row in found]


def _union(conditions: Sequence[Condition], limit: int) -> tuple[str, list[Any]]:
    """The statement for ids of the jobs for which any of the conditions holds."""
    part = "(SELECT j.id FROM jobs_job j WHERE {} LIMIT %s)"
    parts = " UNION ".join(part.format(condition) for condition, _ in conditions)
    return parts, [one for _, some in conditions for one in (*some, limit)]


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


def _about_kinds(query: Query) -> list[str]:
    """Says which kinds a payload field is looked for in, where that is not all of them."""
    if query.positive("kind"):
        return []
    return [
        _("%(path)s is looked for in jobs of the kinds that declare it: %(kinds)s")
        % {"path": key, "kinds": ", ".join(kinds)}
        for key in dict.fromkeys(t.key for t in query.terms if t.is_payload and not t.negated)
        if (kinds := query.declaring(key.removeprefix(PAYLOAD)))
    ]


def _depth_end(place: Place | None, older: bool) -> Place | None:
    """The last job that a walk has looked at, where there are more behind it."""
    beyond, at = _beyond("j", "id", place, older)
    order = "DESC" if older else "ASC"
    found = sql.rows(
        f"SELECT j.created_at, j.id FROM jobs_job j WHERE {beyond} "  # noqa: S608
        f"ORDER BY j.created_at {order}, j.id {order} OFFSET %s LIMIT 1",
        [*at, DEPTH - 1],
    )
    return (found[0][0], found[0][1]) if found else None


# ---- counts


def counts(query: Query | str = "", *, by: By) -> dict[str, Count]:
    """How many jobs each tab has, up to a cap; without a query, as far as an index tells."""
    asked = parse(query) if isinstance(query, str) else query
    scope = principal(by).scope
    with reads.bounded():
        return {tab: _count(parse(text), asked, scope) for tab, text in TABS.items()}


def _count(tab: Query, asked: Query, scope: Scope) -> Count:
    if not asked.terms and scope.is_everything:
        conditions = [part for term in tab.terms for part in _parts(term)] or [("true", [])]
        parts, parameters = _union(conditions, reads.MOST + 1)
        found = sql.rows(f"SELECT count(*) FROM ({parts}) s", parameters)  # noqa: S608
        return reads.count(found[0][0])
    where, parameters = _where((asked, tab), scope)
    source, given, way = _source((asked, tab), None, True)
    found = sql.rows(
        f"SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {where} LIMIT %s) s",  # noqa: S608
        [*given, *parameters, reads.MOST + 1],
    )
    known = reads.count(found[0][0])
    if way == "walk" and not known.capped:
        return Count(known.value, _depth_end(None, True) is not None)
    return known


# ---- suggestions


_SUGGESTIONS: Mapping[str, str] = {
    "queue": "SELECT name FROM jobs_queue WHERE starts_with(name, %s) ORDER BY 1 LIMIT %s",
    "schedule": "SELECT name FROM jobs_schedule WHERE starts_with(name, %s) ORDER BY 1 LIMIT %s",
    "worker": "SELECT DISTINCT worker FROM jobs_lease WHERE starts_with(worker, %s) "
    "ORDER BY 1 LIMIT %s",
    "error": "SELECT DISTINCT error_class FROM (SELECT error_class FROM jobs_attempt "
    "ORDER BY id DESC LIMIT 2000) a WHERE error_class <> '' AND starts_with(error_class, %s) "
    "ORDER BY 1 LIMIT %s",
}
# A loose scan: one look into the index per tag.
_TAGS = """
WITH RECURSIVE t(value, n) AS (
  (SELECT value, 1 FROM jobs_search WHERE path = 'tag' AND value >= %s ORDER BY value LIMIT 1)
  UNION ALL SELECT (SELECT s.value FROM jobs_search s WHERE s.path = 'tag' AND s.value > t.value
    ORDER BY s.value LIMIT 1), n + 1 FROM t WHERE t.value IS NOT NULL AND n < %s)
SELECT value FROM t WHERE starts_with(value, %s)
"""


def suggestions(key: str, start: str = "", *, by: By, limit: int = 20) -> list[str]:
    """Values that may follow the key; never read from jobs.

    Tags, workers and error classes are other people's data: only those who see everything get
    them.
    """
    scope = principal(by).scope
    if key == "kind":
        return [h.kind for h in registry.handlers() if h.kind.startswith(start)][:limit]
    with reads.bounded():
        if key == "queue" and scope.queues is not None:
            return sorted(name for name in scope.queues if name.startswith(start))[:limit]
        if not in_scope(scope) and key == "tag":
            return [row[0] for row in sql.rows(_TAGS, [start, limit, start]) if row[0]]
        if key in _SUGGESTIONS and (key == "queue" or not in_scope(scope)):
            return [row[0] for row in sql.rows(_SUGGESTIONS[key], [start, limit])]
    return []
