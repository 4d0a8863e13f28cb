"""Lists of jobs: what a query asks for, newest first, page by page in both directions.

No page costs more than a bound, whatever is asked: where no index helps, it looks at some of the
newest jobs from its place on, says so, and its ``next`` goes on behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from jobs.engine import sql
from jobs.errors import Denied, InvalidOption
from jobs.models import Job
from jobs.operate import depths, reads, ways
from jobs.operate.phrases import Phrase, say
from jobs.operate.query import Query, parse
from jobs.operate.query.keys import PAYLOAD, Condition
from jobs.operate.reads import Count
from jobs.operate.suggestions import suggestions
from jobs.operate.ways import Place, Way
from jobs.principals import By, Principal, Scope, principal

__all__ = ["TABS", "Page", "Place", "Tab", "counts", "jobs", "one", "suggestions"]

PAGE_LIMIT = 200

Tab = Literal[
    "all", "scheduled", "waiting", "running", "retrying", "succeeded", "dead", "cancelled"
]
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


@dataclass(frozen=True, slots=True)
class Page:
    """Jobs, newest first. ``next`` leads to older ones, ``previous`` to newer ones."""

    jobs: tuple[Job, ...]
    next: Place | None
    previous: Place | None
    notices: tuple[str, ...] = ()
    """What it did not look at."""
    told: tuple[str, ...] = ()
    """The same in the caller's language."""
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

    Raises QueryError, Denied, or TooSlow.
    """
    asked = parse(query) if isinstance(query, str) else query
    if not 1 <= limit <= PAGE_LIMIT or isinstance(limit, bool):
        raise InvalidOption("limit", f"must lie between 1 and {PAGE_LIMIT}")
    if after is not None and before is not None:
        raise InvalidOption("before", "give either after or before, not both")
    if tab not in TABS:
        raise InvalidOption("tab", f"must be one of {', '.join(TABS)}, got {tab!r}")
    who = principal(by)
    _check(who, asked)
    with reads.bounded():
        return _page((asked, parse(TABS[tab])), who.scope, limit, after or before, before is None)


def one(job_id: UUID, *, by: By) -> Job | None:
    """The job, if there is one that ``by`` may see."""
    condition, parameters = Query().where(principal(by).scope)
    statement = f"SELECT j.* FROM jobs_job j WHERE j.id = %s AND {condition}"  # noqa: S608
    found = list(Job.objects.using(sql.alias()).raw(statement, [job_id, *parameters]))
    return found[0] if found else None


def _check(who: Principal, asked: Query) -> None:
    for permission in sorted(asked.permissions):
        if not who.may(permission):
            raise Denied(permission)


def _page(
    queries: Sequence[Query], scope: Scope, limit: int, place: Place | None, older: bool
) -> Page:
    where = _where(queries, scope)
    way = ways.choose(queries, scope)
    found, looked, end = ways.look(way, where, limit + 1, place, older)
    more, found = len(found) > limit, found[:limit]
    notices = [notice for query in queries for notice in _about_kinds(query)]
    if capped := end is not None:
        notices.append(_looked_at(looked))
    if more:
        end = _place(found[-1])
    if not older:
        found.reverse()
    start = _place(found[0]) if found else place
    said = tuple(notice.english for notice in notices)
    told = tuple(notice.told for notice in notices)
    if older:
        return Page(tuple(found), end, start if place else None, said, told, capped)
    last = _place(found[-1]) if found else place
    return Page(tuple(found), last, end, said, told, capped)


def _place(job: Job) -> Place:
    return job.created_at, job.pk


def _where(queries: Sequence[Query], scope: Scope) -> Condition:
    parts = [query.where(scope) for query in queries]
    return " AND ".join(text for text, _ in parts), [one for _, some in parts for one in some]


def _looked_at(count: int) -> Phrase:
    return say(
        "Looked at %(count)s jobs that no index finds; there may be more beyond.", count=count
    )


def _about_kinds(query: Query) -> list[Phrase]:
    """Says which kinds a payload field is looked for in, where that is not all of them."""
    if query.positive("kind"):
        return []
    return [
        say(
            "%(path)s is looked for in jobs of the kinds that declare it: %(kinds)s",
            path=key,
            kinds=", ".join(kinds),
        )
        for key in dict.fromkeys(t.key for t in query.terms if t.is_payload and not t.negated)
        if (kinds := query.declaring(key.removeprefix(PAYLOAD)))
    ]


# ---- counts


def counts(query: Query | str = "", *, by: By) -> dict[str, Count]:
    """How many jobs each tab has, up to a cap; without a query, as far as an index can count."""
    asked = parse(query) if isinstance(query, str) else query
    who = principal(by)
    _check(who, asked)
    tabs = {tab: parse(text) for tab, text in TABS.items()}
    with reads.bounded():
        if asked.terms or not who.scope.is_everything:
            way = ways.choose([asked], who.scope)
            found = _counted(way, _where([asked], who.scope), tabs)
            return {**found, **_of_queues(asked, who.scope)}
        return ways.counts({tab: ways.parts(query) for tab, query in tabs.items()})


def _of_queues(asked: Query, scope: Scope) -> dict[str, Count]:
    """Of whole queues, the numbers that everybody sees of them."""
    queues = frozenset(asked.positive("queue"))
    if scope.tenants is not None or len(asked.terms) != len(asked.positive("queue")):
        return {}
    if any(name.endswith("*") for name in queues):
        return {}
    if scope.queues is not None:
        queues = queues & scope.queues if queues else scope.queues
    return depths.totals(depths.by_queue(queues))


def _counted(way: Way, where: Condition, tabs: Mapping[str, Query]) -> dict[str, Count]:
    """The tabs of what one look finds."""
    conditions = [query.where() for query in tabs.values()]
    numbers, capped = ways.tell(way, where, conditions)
    return {tab: Count(n, capped) for tab, n in zip(tabs, numbers, strict=True)}
