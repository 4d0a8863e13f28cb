"""The database itself refuses what the doctor would otherwise find."""

# Every piece of SQL here is put together from constants of this file.
# ruff: noqa: S608

from __future__ import annotations

from itertools import product

import pytest
from django.db import Error, IntegrityError, connection, transaction

from jobs.operate.schema import FUNCTIONS
from jobs.states import BIRTH_STATES, DEAD_LETTER_EDGES, FINAL_STATES, JOB_EDGES, JobState, moves
from tests.operate.test_doctor import PLANTS, failed, run

pytestmark = pytest.mark.django_db

REFUSED = {
    "running_has_owner": "jobs_job_running_has_owner",
    "final_has_end": "jobs_job_final_has_end",
    "dead_letter_closed_has_time": "jobs_dl_closed_has_time",
    "mover_consumed": "jobs_job_mover_consumed",
    "history_reaches_now": "jobs_job_guard",
    "dead_letter_open_means_failed": "jobs_job_guard",
    "queued_has_time": "jobs_job_guard",
}


def refused_by(statement: str, parameters: list[object]) -> str:
    """The constraint or trigger that refuses the statement."""
    with pytest.raises(Error) as caught, transaction.atomic():
        run(statement, parameters)
    assert isinstance(caught.value, IntegrityError)
    return str(caught.value.__cause__.diag.constraint_name)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", REFUSED)
def test_the_database_refuses(name: str) -> None:
    make, statement = PLANTS[name]
    assert refused_by(statement, [make()]) == REFUSED[name]


def test_a_second_open_dead_letter_is_refused() -> None:
    copy = (
        "INSERT INTO jobs_deadletter (job_id, kind, queue, attempt, reason, fingerprint, "
        "expires_at) SELECT job_id, kind, queue, attempt, reason, fingerprint, expires_at "
        "FROM jobs_deadletter WHERE job_id = %s"
    )
    assert refused_by(copy, [failed()]) == "jobs_dl_one_open_per_job"


def test_an_attempt_is_recorded_once() -> None:
    copy = (
        "INSERT INTO jobs_attempt (job_id, number, outcome, ended_at) "
        "SELECT job_id, number, outcome, ended_at FROM jobs_attempt WHERE job_id = %s"
    )
    assert refused_by(copy, [failed()]) == "jobs_attempt_once"


@pytest.mark.parametrize("counter", ["failures", "crashes", "releases"])
def test_no_counter_is_negative(counter: str) -> None:
    statement = f"UPDATE jobs_job SET {counter} = -1 WHERE id = %s"
    assert refused_by(statement, [failed()]) == "jobs_job_counters"


def put(state: JobState) -> None:
    """The one job of the table is in that state, whatever the triggers say."""
    run("SET LOCAL session_replication_role = replica")
    run(
        "UPDATE jobs_job SET state = %s, reason = '', queued_at = jobs_clock(), open_parents = 1, "
        "owner = CASE WHEN %s = 'running' THEN token END, "
        "finished_at = CASE WHEN %s = ANY (%s) THEN jobs_clock() END",
        [state.value, state.value, state.value, [s.value for s in FINAL_STATES]],
    )
    run("SET LOCAL session_replication_role = origin")


def move(target: JobState) -> tuple[str, list[object]]:
    return (
        "UPDATE jobs_job SET state = %s, queued_at = jobs_clock(), "
        "owner = CASE WHEN %s = 'running' THEN token END, "
        "finished_at = CASE WHEN %s = ANY (%s) THEN jobs_clock() END",
        [target.value, target.value, target.value, [s.value for s in FINAL_STATES]],
    )


PAIRS = [(a, b) for a, b in product(JobState, JobState) if a != b]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_job_moves_along_an_edge_or_not_at_all(source: JobState, target: JobState) -> None:
    failed()
    put(source)
    statement, parameters = move(target)
    if (source.value, target.value) in moves(JOB_EDGES):
        run(statement, parameters)
        with connection.cursor() as cursor:
            cursor.execute("SELECT state, history->-1->>1, history->-1->>2 FROM jobs_job")
            assert cursor.fetchall() == [(target.value, source.value, target.value)]
    else:
        assert refused_by(statement, parameters) == "jobs_job_guard"


LETTERS = ["open", "retried", "replayed", "discarded", "expired"]


@pytest.mark.parametrize(
    ("source", "target"), [p for p in product(LETTERS, LETTERS) if len({*p}) > 1]
)
def test_a_dead_letter_moves_along_an_edge_or_not_at_all(source: str, target: str) -> None:
    failed()
    closed = "CASE WHEN %s = 'open' THEN NULL ELSE jobs_clock() END"
    run("SET LOCAL session_replication_role = replica")
    run(f"UPDATE jobs_deadletter SET state = %s, closed_at = {closed}", [source, source])
    run("SET LOCAL session_replication_role = origin")
    statement = f"UPDATE jobs_deadletter SET state = %s, closed_at = {closed}"
    if (source, target) in moves(DEAD_LETTER_EDGES):
        run(statement, [target, target])
    else:
        assert refused_by(statement, [target, target]) == "jobs_deadletter_guard"


@pytest.mark.parametrize("state", JobState)
def test_a_job_is_born_and_deleted_only_in_the_states_for_it(state: JobState) -> None:
    failed()
    put(state)
    columns = "kind, queue, state, payload, lane, rank, max_attempts, timeout, lease, queued_at"
    columns += ", owner, token, finished_at, open_parents"
    copy = f"INSERT INTO jobs_job (id, {columns}) SELECT gen_random_uuid(), {columns} FROM jobs_job"
    if state in BIRTH_STATES:
        with transaction.atomic():
            run(copy)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM jobs_job")
            assert cursor.fetchone() == (2,)
    else:
        assert refused_by(copy, []) == "jobs_job_birth"
    run("SET LOCAL session_replication_role = replica")
    run("DELETE FROM jobs_deadletter")
    run("DELETE FROM jobs_attempt")
    run("SET LOCAL session_replication_role = origin")
    if state in FINAL_STATES:
        run("DELETE FROM jobs_job")
    else:
        assert refused_by("DELETE FROM jobs_job", []) == "jobs_job_death"


def test_a_job_that_moves_for_ever_stays_small() -> None:
    failed()
    for _ in range(40):
        for state in (JobState.PENDING, JobState.QUEUED, JobState.RUNNING):
            run(*move(state))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT jsonb_array_length(history), history_dropped, history->0->>1 FROM jobs_job"
        )
        assert cursor.fetchone() == (64, 59, "pending")


def test_a_move_without_a_mover_is_the_session_users() -> None:
    failed()
    run(*move(JobState.PENDING))
    with connection.cursor() as cursor:
        cursor.execute("SELECT history->-1->>3, 'db:' || session_user FROM jobs_job")
        [(told, expected)] = cursor.fetchall()
    assert told == expected


def test_the_doctor_knows_every_function_of_the_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT proname FROM pg_proc WHERE starts_with(proname, 'jobs_')")
        assert {name for (name,) in cursor.fetchall()} == set(FUNCTIONS)
