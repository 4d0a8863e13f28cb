"""The edges are one table: the database and the docs say what ``states`` says."""

from __future__ import annotations

import pytest

from jobs import states, states_doc
from jobs.states import (
    DEAD_LETTER_EDGES,
    JOB_EDGES,
    OUTBOX_EDGES,
    DeadLetterState,
    Edge,
    JobState,
    OutboxState,
    moves,
)
from tests.architecture.sources import ROOT
from tests.jobs.factories import sql


def test_the_page_is_what_the_table_says() -> None:
    page = (ROOT / "docs" / "states.md").read_text()
    assert page == states_doc.render(), "run: python -m jobs.states_doc > docs/states.md"


def test_the_page_shows_every_edge_and_every_meaning() -> None:
    page = states_doc.render()
    for source, target in moves(JOB_EDGES) | moves(DEAD_LETTER_EDGES) | moves(OUTBOX_EDGES):
        assert f"    {source} --> {target}: " in page
    for edge in JOB_EDGES + DEAD_LETTER_EDGES + OUTBOX_EDGES:
        assert edge.meaning in page
    for state in (*JobState, *DeadLetterState, *OutboxState):
        assert f"| `{state}` | " in page and f"| `{state}` |  |" not in page


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("table", "edges"),
    [
        ("jobs_job", JOB_EDGES),
        ("jobs_deadletter", DEAD_LETTER_EDGES),
        ("jobs_outbox", OUTBOX_EDGES),
    ],
)
def test_the_trigger_knows_the_same_edges(table: str, edges: tuple[Edge, ...]) -> None:
    [(arguments,)] = sql(
        "SELECT encode(tgargs, 'escape') FROM pg_trigger WHERE tgname = %s AND tgenabled = 'O'",
        [f"{table}_guard"],
    )
    known = [tuple(pair.split(">")) for pair in arguments.split("\\000") if pair]
    assert len(known) == len(set(known))
    assert set(known) == moves(edges)


def _edges_to(*targets: JobState) -> set[str]:
    return {edge.name for edge in JOB_EDGES if edge.target in targets}


def _edges_from(*sources: JobState) -> set[str]:
    return {edge.name for edge in JOB_EDGES if set(edge.sources) & set(sources)}


def test_running_is_entered_by_a_claim_alone() -> None:
    assert _edges_to(JobState.RUNNING) == {"claim"}
    assert next(e for e in JOB_EDGES if e.name == "claim").sources == (JobState.QUEUED,)


def test_nothing_leaves_succeeded() -> None:
    assert _edges_from(JobState.SUCCEEDED) == set()
    assert _edges_to(JobState.SUCCEEDED) == {"succeed"}


def test_only_a_retry_leaves_the_other_final_states() -> None:
    retry = next(e for e in JOB_EDGES if e.name == "retry")
    assert _edges_from(*states.RETRYABLE_STATES) == {"retry"}
    assert set(retry.sources) == states.RETRYABLE_STATES
    assert states.FINAL_STATES - {JobState.SUCCEEDED} == states.RETRYABLE_STATES


def test_a_job_expires_only_before_it_starts() -> None:
    assert JobState.RUNNING not in next(e for e in JOB_EDGES if e.name == "expire").sources


def test_nothing_enters_blocked() -> None:
    assert _edges_to(JobState.BLOCKED) == set()


def test_no_two_edges_of_a_table_share_a_name() -> None:
    for edges in (JOB_EDGES, DEAD_LETTER_EDGES, OUTBOX_EDGES):
        names = [edge.name for edge in edges]
        assert len(names) == len(set(names))


def test_every_state_can_be_reached_and_left_or_is_final() -> None:
    left = {source for edge in JOB_EDGES for source in edge.sources}
    entered = {edge.target for edge in JOB_EDGES}
    assert left | states.FINAL_STATES == set(JobState)
    assert entered | states.BIRTH_STATES == set(JobState)
