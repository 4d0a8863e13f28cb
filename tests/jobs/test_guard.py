"""The database refuses impossible rows and records every move, whoever makes it."""

from __future__ import annotations

from itertools import product
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, transaction

import jobs
from jobs.engine import intake
from jobs.models import DeadLetter, Job
from jobs.states import (
    BIRTH_STATES,
    DEAD_LETTER_EDGES,
    FINAL_STATES,
    JOB_EDGES,
    DeadLetterState,
    JobState,
    moves,
)
from tests.jobs.factories import (
    SHAPES,
    a_claim,
    a_job,
    an_executor,
    claim_again,
    ended,
    move,
    row,
    settle,
    sql,
    state,
)
from tests.specimens.handlers import Noop

pytestmark = pytest.mark.django_db
LEGAL = moves(JOB_EDGES)
STATES = [str(s) for s in JobState]


def refused(constraint: str, statement: str, *parameters: object) -> None:
    """The database refuses the statement because of this constraint or trigger."""
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        sql(statement, parameters)
    diagnosis = caught.value.__cause__.diag  # type: ignore[union-attr]
    assert diagnosis.constraint_name == constraint


@pytest.fixture
def me() -> str:
    """The name by which the database knows us."""
    [(name,)] = sql("SELECT session_user")
    return str(name)


@pytest.mark.parametrize(("source", "target"), [p for p in product(STATES, STATES) if p in LEGAL])
def test_an_outsiders_legal_move_is_recorded_as_his(source: str, target: str, me: str) -> None:
    job_id = a_job(source)
    before = row(job_id).history
    move(job_id, target)
    after = row(job_id)
    assert after.state == target
    assert after.history[:-1] == before
    assert after.history[-1][1:] == [source, target, f"db:{me}", None]


@pytest.mark.parametrize(
    ("source", "target"),
    [p for p in product(STATES, STATES) if p not in LEGAL and p[0] != p[1]],
)
def test_an_illegal_move_is_refused_and_changes_nothing(source: str, target: str) -> None:
    job_id = a_job(source)
    before = Job.objects.filter(pk=job_id).values().get()
    refused(
        "jobs_job_guard",
        f"UPDATE jobs_job SET state = %s, {SHAPES[target]} WHERE id = %s",  # noqa: S608
        target,
        job_id,
    )
    assert Job.objects.filter(pk=job_id).values().get() == before


def test_a_write_that_does_not_move_leaves_no_history() -> None:
    job_id = a_job("queued")
    before = row(job_id).history
    sql("UPDATE jobs_job SET state = state, progress = '{}', priority = 7 WHERE id = %s", [job_id])
    assert row(job_id).history == before


@pytest.mark.parametrize("born", sorted(set(JobState) - BIRTH_STATES))
def test_no_job_is_born_in_the_middle_or_at_the_end_of_its_life(born: JobState) -> None:
    job_id = a_job()
    refused(
        "jobs_job_birth",
        "INSERT INTO jobs_job (id, kind, queue, state, payload, lane, rank, max_attempts, "
        "timeout, lease, finished_at, owner, token) SELECT gen_random_uuid(), kind, queue, %s, "
        "payload, lane, rank, max_attempts, timeout, lease, CASE WHEN %s THEN jobs_clock() END, "
        "CASE WHEN %s THEN id END, CASE WHEN %s THEN id END FROM jobs_job WHERE id = %s",
        born.value,
        born in FINAL_STATES,
        born is JobState.RUNNING,
        born is JobState.RUNNING,
        job_id,
    )


@pytest.mark.parametrize("unfinished", sorted(set(JobState) - FINAL_STATES))
def test_an_unfinished_job_cannot_be_deleted(unfinished: JobState) -> None:
    job_id = a_job(unfinished)
    refused("jobs_job_death", "DELETE FROM jobs_job WHERE id = %s", job_id)
    assert state(job_id) == unfinished


@pytest.mark.parametrize("final", sorted(FINAL_STATES))
def test_a_finished_job_can_be_deleted(final: JobState) -> None:
    job_id = a_job(final)
    sql("DELETE FROM jobs_job WHERE id = %s", [job_id])
    assert not Job.objects.filter(pk=job_id).exists()


@pytest.mark.parametrize(
    ("constraint", "start", "columns"),
    [
        ("jobs_job_running_has_owner", "running", "owner = NULL"),
        ("jobs_job_running_has_owner", "running", "token = NULL"),
        ("jobs_job_running_has_owner", "queued", "owner = gen_random_uuid()"),
        ("jobs_job_running_has_owner", "queued", "state = 'running'"),
        ("jobs_job_final_has_end", "succeeded", "finished_at = NULL"),
        ("jobs_job_final_has_end", "queued", "finished_at = jobs_clock()"),
        ("jobs_job_final_has_end", "pending", "state = 'cancelled'"),
        ("jobs_job_queued_has_time", "queued", "queued_at = NULL"),
        ("jobs_job_queued_has_time", "pending", "state = 'queued'"),
        ("jobs_job_priority_range", "pending", "priority = 101"),
        ("jobs_job_priority_range", "pending", "priority = -101"),
        ("jobs_job_counters", "pending", "failures = 1"),
        ("jobs_job_counters", "pending", "failures = -1"),
        ("jobs_job_counters", "pending", "crashes = -1"),
        ("jobs_job_counters", "pending", "releases = -1"),
        ("jobs_job_counters", "pending", "max_attempts = 0"),
        ("jobs_job_durations", "pending", "timeout = 0"),
        ("jobs_job_durations", "pending", "lease = 0"),
        ("jobs_job_mover_consumed", "pending", "moved_by = 'me'"),
        ("jobs_job_mover_consumed", "pending", "move_reason = 'why'"),
        ("jobs_job_success_no_reason", "succeeded", "reason = 'exhausted'"),
        ("jobs_job_blocked_has_parents", "blocked", "open_parents = 0"),
    ],
)
def test_an_impossible_job_is_refused(constraint: str, start: str, columns: str) -> None:
    job_id = a_job(start)
    refused(constraint, f"UPDATE jobs_job SET {columns} WHERE id = %s", job_id)  # noqa: S608


def test_an_unknown_state_is_refused() -> None:
    job_id = a_job()
    refused("jobs_job_guard", "UPDATE jobs_job SET state = 'done' WHERE id = %s", job_id)


def test_every_constraint_of_the_job_is_attacked_above() -> None:
    found = sql(
        "SELECT conname FROM pg_constraint WHERE conrelid = 'jobs_job'::regclass AND contype = 'c'"
    )
    attacked = {
        mark.args[1][i][0]
        for mark in test_an_impossible_job_is_refused.pytestmark  # type: ignore[attr-defined]
        if mark.name == "parametrize"
        for i in range(len(mark.args[1]))
    }
    assert attacked == {name for (name,) in found}


# ---- Who moved it


def test_the_mover_and_his_reason_are_consumed(me: str) -> None:
    job_id = a_job()
    sql(
        "UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock(), moved_by = 'ann', "
        "move_reason = 'because' WHERE id = %s",
        [job_id],
    )
    job = row(job_id)
    assert job.history[-1][3:] == ["ann", "because"]
    assert (job.moved_by, job.move_reason) == (None, None)
    move(job_id, "pending")
    assert row(job_id).history[-1][3:] == [f"db:{me}", None]


def test_an_overlong_mover_and_reason_are_cut() -> None:
    job_id = a_job()
    sql(
        "UPDATE jobs_job SET state = 'cancelled', finished_at = jobs_clock(), moved_by = %s, "
        "move_reason = %s WHERE id = %s",
        ["m" * 500, "r" * 500, job_id],
    )
    assert row(job_id).history[-1][3:] == ["m" * 60, "r" * 100]


def test_history_holds_the_whole_way_with_rising_times() -> None:
    job_id = a_job("failed")
    move(job_id, "pending")
    history = row(job_id).history
    assert [entry[1:3] for entry in history] == [
        ["pending", "queued"],
        ["queued", "running"],
        ["running", "failed"],
        ["failed", "pending"],
    ]
    times = [entry[0] for entry in history]
    assert times == sorted(times)


def test_a_forged_history_is_replaced_by_the_true_one() -> None:
    job_id = a_job("queued")
    before = row(job_id).history
    sql(
        "UPDATE jobs_job SET state = 'pending', queued_at = NULL, history = '[]' WHERE id = %s",
        [job_id],
    )
    assert row(job_id).history[:-1] == before


# ---- History is bounded

# The commits let PostgreSQL clean up behind the row: without, each move is slower than the last.
_SNOOZE = """
DO $$ BEGIN SET synchronous_commit = off; FOR i IN 1..%d LOOP
  UPDATE jobs_job SET state = 'queued', queued_at = jobs_clock(), moved_by = 'dispatcher'
    WHERE id = '%s';
  UPDATE jobs_job SET state = 'running', token = gen_random_uuid(), owner = gen_random_uuid(),
    attempt = attempt + 1, moved_by = %s WHERE id = '%s';
  UPDATE jobs_job SET state = 'pending', owner = NULL, queued_at = NULL, moved_by = %s,
    move_reason = %s WHERE id = '%s';
  %s
END LOOP; RESET synchronous_commit; END $$
"""


def snooze(job_id: UUID, times: int, mover: str, reason: str, then: str = "") -> None:
    sql(_SNOOZE % (times, job_id, mover, job_id, mover, reason, job_id, then))


def history_bytes(job_id: UUID) -> int:
    """The size of the history before any compression."""
    [(size,)] = sql("SELECT pg_column_size(history || '[]') FROM jobs_job WHERE id = %s", [job_id])
    return int(size)


@pytest.mark.django_db(transaction=True)
def test_a_job_snoozed_ten_thousand_times_stays_small() -> None:
    job_id = a_job()
    first = 4
    snooze(job_id, first, "'first'", "'early ' || i")
    snooze(job_id, 10_000 - first, "repeat('w', 60)", "repeat(md5(i::text), 4)", "COMMIT;")
    job = row(job_id)
    assert job.attempt == 10_000
    assert [entry[3] for entry in job.history[:8]].count("first") == 5
    assert len(job.history) + job.history_dropped == 30_000
    assert len(job.history) >= 32
    assert history_bytes(job_id) < 16 * 1024


def test_wide_characters_do_not_widen_the_bound() -> None:
    job_id = a_job()
    snooze(job_id, 100, "repeat('😀', 60)", "repeat(chr(128512 + i), 100)")
    job = row(job_id)
    assert history_bytes(job_id) < 16 * 1024
    assert len(job.history) + job.history_dropped == 300
    assert job.history[-1][4] == chr(128512 + 100) * 100


def test_the_first_eight_moves_and_the_last_are_kept() -> None:
    job_id = a_job()
    for number in range(50):
        snooze(job_id, 1, "'w'", f"'{number}'")
    job = row(job_id)
    assert len(job.history) == 64 and job.history_dropped == 150 - 64
    assert [entry[4] for entry in job.history[:8]] == [None, None, "0", None, None, "1", None, None]
    assert [entry[4] for entry in job.history[8:]][-1] == "49"


# ---- Dead letters


@pytest.fixture
def letter() -> DeadLetter:
    claim = a_claim()
    settle(ended(claim, "unrecoverable"))
    return DeadLetter.objects.get(job_id=claim.id)


@pytest.mark.parametrize("target", sorted(set(DeadLetterState) - {DeadLetterState.OPEN}))
def test_an_open_dead_letter_is_closed_once(letter: DeadLetter, target: str, me: str) -> None:
    statement = "UPDATE jobs_deadletter SET state = %s, closed_at = jobs_clock() WHERE id = %s"
    sql(statement, [target, letter.id])
    letter.refresh_from_db()
    assert letter.history[-1][1:] == ["open", target, f"db:{me}", None]
    for other in DeadLetterState:
        if other != target:
            assert (target, other.value) not in moves(DEAD_LETTER_EDGES)
            refused("jobs_deadletter_guard", statement, other.value, letter.id)


@pytest.mark.parametrize(
    ("constraint", "columns"),
    [
        ("jobs_dl_closed_has_time", "state = 'discarded'"),
        ("jobs_dl_closed_has_time", "closed_at = jobs_clock()"),
        ("jobs_dl_mover_consumed", "moved_by = 'me'"),
        ("jobs_deadletter_guard", "state = 'lost'"),
    ],
)
def test_an_impossible_dead_letter_is_refused(
    letter: DeadLetter, constraint: str, columns: str
) -> None:
    refused(constraint, f"UPDATE jobs_deadletter SET {columns} WHERE id = %s", letter.id)  # noqa: S608


def test_a_job_has_one_open_dead_letter(letter: DeadLetter) -> None:
    copy = (
        "INSERT INTO jobs_deadletter (job_id, kind, queue, attempt, reason, fingerprint, "
        "expires_at, state, closed_at) SELECT job_id, kind, queue, attempt, reason, fingerprint, "
        "expires_at, %s, NULL FROM jobs_deadletter"
    )
    refused("jobs_dl_one_open_per_job", copy, "open")
    refused("jobs_deadletter_birth", copy, "discarded")


def test_an_open_dead_letter_cannot_be_deleted(letter: DeadLetter) -> None:
    refused("jobs_deadletter_death", "DELETE FROM jobs_deadletter")


def test_a_job_whose_dead_letter_is_open_cannot_be_deleted(letter: DeadLetter) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(pk=letter.job_id).delete()
    assert state(letter.job_id) == "failed"


def test_an_attempt_number_is_written_once() -> None:
    claim = a_claim()
    settle(ended(claim, "snoozed"), ended(claim_again(a_job()), "failed"))
    [(attempts,)] = sql("SELECT count(*) FROM jobs_attempt")
    assert attempts == 1
    copy = (
        "INSERT INTO jobs_attempt (job_id, number, outcome, ended_at) "
        "SELECT job_id, number, %s, ended_at FROM jobs_attempt"
    )
    refused("jobs_attempt_once", copy, "failed")
    refused("jobs_attempt_outcome_known", copy, "splendid")


def test_ids_are_unique_for_ever() -> None:
    job_id = uuid4()
    a_job("succeeded", job_id=job_id)
    with pytest.raises(jobs.errors.DuplicateJob):
        intake.enqueue(Noop(), job_id=job_id)


def test_an_executor_is_one_row() -> None:
    owner = an_executor()
    with pytest.raises(IntegrityError), transaction.atomic():
        sql(
            "INSERT INTO jobs_lease (owner, worker, queues, until) "
            "VALUES (%s, 'w', '{}', jobs_clock())",
            [owner],
        )
