"""Parents: a job that waits for others is blocked until the last of them has ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from uuid import UUID

from jobs.engine import sql
from jobs.engine.drafts import Entry
from jobs.engine.flow import Flow
from jobs.errors import InvalidOption
from jobs.states import JobState

_UNSUCCESSFUL = ("failed", "cancelled", "expired")


def look(entry: Entry) -> dict[UUID, str]:
    """The states of the entry's parents, which stay as they are until the caller commits."""
    found = sql.bound_rows(
        "SELECT id, state FROM jobs_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE",
        [entry.after],
    )
    states = {job_id: str(state) for job_id, state in found}
    missing = [str(parent) for parent in entry.after if parent not in states]
    if missing:
        raise InvalidOption("after", f"there is no job {', '.join(missing[:3])}")
    return states


def is_open(state: str, policy: str) -> bool:
    """Whether a parent in this state still has to be waited for."""
    if state == JobState.SUCCEEDED:
        return False
    return not (state in _UNSUCCESSFUL and policy == "run")


def link(entry: Entry, states: dict[UUID, str]) -> None:
    """The edges to the parents exist, and the parents know that they are followed."""
    parents = list(states)
    done = [not is_open(state, entry.on_parent_failure) for state in states.values()]
    sql.bound_rows(
        "INSERT INTO jobs_dependency (parent_id, child_id, policy, done) "
        "SELECT p, %s, %s, d FROM unnest(%s::uuid[], %s::boolean[]) AS t(p, d) RETURNING id",
        [entry.id, entry.on_parent_failure, parents, done],
    )
    sql.run(
        "UPDATE jobs_job SET flow = flow | %s WHERE id = ANY(%s) AND flow & %s = 0",
        [int(Flow.FOLLOWED), parents, int(Flow.FOLLOWED)],
    )
    fallen = [p for p, state in states.items() if state in _UNSUCCESSFUL]
    if fallen and entry.on_parent_failure == "cancel":
        sql.bound_rows("SELECT jobs_follow(jobs_resolve(%s))", [fallen])


def results(child: UUID) -> dict[UUID, object]:
    """The results of the child's parents that have succeeded, by their ids."""
    found = sql.rows(
        "SELECT j.id, j.result FROM jobs_dependency d JOIN jobs_job j ON j.id = d.parent_id "
        "WHERE d.child_id = %s AND j.state = 'succeeded'",
        [child],
    )
    return {job_id: _parsed(result) for job_id, result in found}


def _parsed(result: object) -> object:
    # Django leaves jsonb of raw statements as text.
    return json.loads(result) if isinstance(result, str) else result


def members_in_order(entries: Sequence[Entry]) -> list[Entry]:
    """The entries so that each comes behind those it waits for; raises where that is impossible."""
    by_id = {entry.id: entry for entry in entries}
    graph = {e.id: [p for p in e.after if p in by_id] for e in entries}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = " > ".join(str(job_id) for job_id in error.args[1])
        raise InvalidOption("after", f"the jobs wait for each other in a circle: {cycle}") from None
    return [by_id[job_id] for job_id in order]
