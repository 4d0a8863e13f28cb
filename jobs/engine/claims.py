"""Claims: taking jobs to run them, and settling what became of them.

Every claim carries a fresh token. Each later write of that attempt names it, so that a job that
was taken away in the meantime is left alone. Many jobs share one statement; its rows are locked
in the order of their ids before they change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from jobs import registry
from jobs.engine import admission, letters, minutes, outbox, pushes, reports, rq, sql
from jobs.engine.admission import Closing
from jobs.engine.flow import PRIORITY_STEP_MS, Flow
from jobs.engine.minutes import Note
from jobs.engine.reports import Report
from jobs.events import Message
from jobs.fingerprints import fingerprint
from jobs.ids import uuid7
from jobs.jsontext import printable
from jobs.outcomes import Counters, Fault, Move
from jobs.states import JobState

log = logging.getLogger("jobs.claims")


OWING = Flow.EXCLUSIVE | Flow.BATCH | Flow.FOLLOWED | Flow.KEYED
"""A job with one of these owes something to others when it moves."""


@dataclass(slots=True)
class Claim:
    """A job that this executor holds, as it was when it was claimed."""

    id: UUID
    kind: str
    queue: str
    payload: str
    payload_version: int
    attempt: int
    failures: int
    crashes: int
    releases: int
    max_attempts: int
    timeout: float
    tenant: str
    correlation_id: str
    priority: int
    token: UUID
    flow: int = 0
    limit_key: str | None = None
    begun: float = 0.0
    """When its handler was called, by this process's monotonic clock."""

    @property
    def counters(self) -> Counters:
        return Counters(self.failures, self.crashes, self.releases, self.max_attempts)


_COLUMNS = """j.id, kind, queue, payload::text, payload_version, attempt, failures, crashes,
  releases, max_attempts, timeout, tenant, correlation_id, priority, token, flow, limit_key"""

_CLAIM = "SELECT * FROM jobs_claim(%s, %s, %s, %s, %s)"


def claim(
    queue: str, ids: Sequence[UUID], owner: UUID, worker: str, token: UUID | None = None
) -> list[Claim]:
    """Those of the ids that now run for this owner; the others were not to be had."""
    parameters = [list(ids), queue, token or uuid7(), owner, worker]
    return [Claim(*row) for row in sql.repeating(lambda: sql.bound_rows(_CLAIM, parameters))]


def claimed(token: UUID, ids: Sequence[UUID]) -> list[Claim]:
    """What a claim with this token has taken: for the claim whose COMMIT answer was lost."""
    statement = (
        f"SELECT {_COLUMNS} FROM jobs_job j "  # noqa: S608 - constant columns
        "WHERE j.id = ANY(%s) AND j.token = %s AND j.state = 'running' ORDER BY j.id"
    )
    return [Claim(*row) for row in sql.bound_rows(statement, [list(ids), token])]


@dataclass(frozen=True, slots=True)
class Success:
    """A handler returned; ``result`` is checked JSON text."""

    claim: Claim
    result: str
    messages: Sequence[Message] = ()
    """Events that are told if the success is accepted."""
    seconds: float = 0.0
    """How long the handler took."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt ended otherwise: the decided move, and what is written beside it."""

    id: UUID
    token: UUID
    kind: str
    move: Move
    fault: Fault | None = None
    closing: Closing | None = None
    ending: str = ""
    """How it ended, where the move does not tell: ``limited``, ``held`` or ``snoozed``."""
    lines: Sequence[str] = ()
    """What its handler logged last, redacted."""

    @property
    def wants_dead_letter(self) -> bool:
        handler = registry.find(self.kind)
        return self.move.state is JobState.FAILED and (handler is None or handler.dead_letter)


_SUCCEED = "SELECT * FROM jobs_succeed(%s, %s, %s::jsonb, %s)"
_SUCCEED_AND_TELL = "SELECT * FROM jobs_succeed(%s, %s, %s::jsonb, %s, %s::jsonb)"


def settle_successes(successes: Sequence[Success], worker: str) -> set[UUID]:
    """The jobs whose success was accepted; the others had been taken away before."""
    parameters: list[Any] = [
        [s.claim.id for s in successes],
        [s.claim.token for s in successes],
        "[" + ",".join(s.result for s in successes) + "]",
        worker,
    ]
    statement = _SUCCEED
    if told := [outbox.as_json(s.claim.id, m) for s in successes for m in s.messages]:
        statement = _SUCCEED_AND_TELL
        parameters.append("[" + ",".join(told) + "]")
    [(refused, freed)] = sql.repeating(lambda: sql.bound_rows(statement, parameters))
    if freed:
        nudge()
    accepted = {s.claim.id for s in successes}.difference(refused)
    took: dict[tuple[str, str], list[float]] = {}
    for s in successes:
        if not refused or s.claim.id in accepted:
            took.setdefault((s.claim.kind, s.claim.queue), []).append(s.seconds)
    for (kind, queue), seconds in took.items():
        minutes.recorder.note_successes(kind, queue, seconds)
    if reports.log.isEnabledFor(logging.DEBUG):
        reports.reporter.put([_success_report(s) for s in successes if s.claim.id in accepted])
    return accepted


def nudge() -> None:
    """Once it is committed that a place is free, a dispatcher is told."""
    transaction.on_commit(pushes.nudge, using=sql.alias(), robust=True)


# A cancel request that arrived meanwhile wins over another attempt. The attempt row and the
# dead letter are written by the same statement as the move, from the rows that really moved.
_END = """
WITH d AS MATERIALIZED (SELECT * FROM unnest(%s::uuid[], %s::uuid[], %s::text[], %s::text[],
    %s::float8[], %s::int[], %s::int[], %s::int[], %s::int[], %s::text[], %s::text[], %s::text[],
    %s::text[], %s::text[], %s::boolean[], %s::text[], %s::text[], %s::interval[])
  AS t(id, token, target, why, delay, failed, crashed, released, preempted, outcome, reason,
    error_class, message, traceback, bury, fingerprint, lines, stay)),
l AS MATERIALIZED (SELECT d.*, j.owner AS held_by, j.cancel_requested_at IS NOT NULL
      AND target = 'pending' AS cancelled, jobs_clock() AS now
  FROM jobs_job j JOIN d USING (id)
  WHERE j.state = 'running' AND j.token = d.token ORDER BY j.id FOR NO KEY UPDATE OF j),
m AS (UPDATE jobs_job j SET
    state = CASE WHEN l.cancelled THEN 'cancelled' ELSE l.target END,
    finished_at = CASE WHEN l.cancelled OR l.target <> 'pending' THEN l.now END,
    run_at = CASE WHEN l.target = 'pending' THEN l.now + l.delay * interval '1 s'
      ELSE j.run_at END,
    rank = CASE WHEN l.target = 'pending'
      THEN (extract(epoch FROM l.now + l.delay * interval '1 s') * 1000)::bigint
        - j.priority * %s::bigint ELSE j.rank END,
    wait = CASE WHEN l.target = 'pending' AND l.delay > 0 THEN 1 ELSE 0 END,
    failures = j.failures + l.failed, crashes = j.crashes + l.crashed,
    releases = j.releases + l.released, preemptions = j.preemptions + l.preempted,
    error = CASE WHEN l.error_class = '' THEN j.error
      ELSE left(l.error_class || ': ' || l.message, 1000) END,
    reason = CASE WHEN l.target = 'failed' THEN l.reason ELSE '' END,
    queued_at = NULL, owner = NULL, moved_by = %s, move_reason = l.why,
    -- Of those that make way for no job, but were stopped by a pause.
    preempted_by = nullif(j.preempted_by, '00000000-0000-0000-0000-000000000000'),
    preempt_asked_at = CASE WHEN j.preempted_by <> '00000000-0000-0000-0000-000000000000'
      THEN j.preempt_asked_at END
  FROM l WHERE j.id = l.id
  RETURNING j.id, j.kind, j.queue, j.tenant, j.state, j.attempt, j.started_at, j.reason, j.flow,
    j.correlation_id),
a AS (INSERT INTO jobs_attempt (job_id, number, outcome, error_class, message, traceback, lines,
    worker, started_at, ended_at)
  SELECT m.id, m.attempt, l.outcome, l.error_class, l.message, l.traceback, l.lines,
    -- A lost attempt was that of the worker that held the job, whoever has found it.
    coalesce((SELECT e.worker FROM jobs_lease e WHERE e.owner = l.held_by
      AND l.outcome = 'lost'), %s), m.started_at, l.now
  FROM m JOIN l USING (id) WHERE l.outcome IS NOT NULL
  ON CONFLICT (job_id, number) DO NOTHING),
b AS (INSERT INTO jobs_deadletter (job_id, kind, queue, tenant, attempt, reason, fingerprint,
    summary, opened_at, expires_at)
  SELECT m.id, m.kind, m.queue, m.tenant, m.attempt, m.reason, l.fingerprint,
    left(l.error_class || ': ' || l.message, 300), l.now, l.now + l.stay
  FROM m JOIN l USING (id) WHERE l.bury AND m.state = 'failed'
  -- Somebody may have moved the job by hand and left its entry open: the entry is about it again.
  ON CONFLICT (job_id) WHERE state = 'open' DO UPDATE SET attempt = excluded.attempt,
    reason = excluded.reason, fingerprint = excluded.fingerprint, summary = excluded.summary,
    expires_at = excluded.expires_at),
c AS MATERIALIZED (SELECT l.fingerprint, m.kind, m.queue, m.tenant, count(*) AS count,
    max(left(l.error_class || ': ' || l.message, 300)) AS sample, max(l.now) AS now
  FROM m JOIN l USING (id) WHERE l.bury AND m.state = 'failed' GROUP BY 1, 2, 3, 4),
e AS (INSERT INTO jobs_cause (fingerprint, sample, first_at)
  SELECT fingerprint, max(sample), max(now) FROM c GROUP BY 1 ORDER BY 1
  ON CONFLICT (fingerprint) DO NOTHING),
-- In the order of their keys, so that those who write at the same time wait for each other once.
f AS (INSERT INTO jobs_causeseen (fingerprint, kind, queue, tenant, count, first_at, last_at)
  SELECT fingerprint, kind, queue, tenant, count, now, now FROM c ORDER BY 1, 2, 3, 4
  ON CONFLICT (fingerprint, kind, queue, tenant) DO UPDATE SET
    count = jobs_causeseen.count + excluded.count,
    last_at = greatest(jobs_causeseen.last_at, excluded.last_at)),
g AS (UPDATE jobs_cause k SET state = 'open', ignored_until = NULL, reopened = k.reopened + 1
  FROM (SELECT DISTINCT fingerprint, now FROM c) c WHERE k.fingerprint = c.fingerprint
    AND (k.state = 'resolved' OR k.state = 'ignored' AND k.ignored_until <= c.now))
SELECT m.id, m.state, m.flow, m.kind, m.queue,
  greatest(0, extract(epoch FROM l.now - m.started_at))::float8, m.tenant, m.attempt,
  m.correlation_id
FROM m JOIN l USING (id)
"""

MESSAGE_LIMIT = 4000
TRACEBACK_LIMIT = 20_000
LINES_LIMIT = 250_000
_NO_FAULT = Fault("", "")


def settle_endings(endings: Sequence[Ended], worker: str) -> dict[UUID, JobState]:
    """The state each job moved to; those missing had been taken away before."""
    columns: list[list[Any]] = [[] for _ in range(18)]
    for ended in endings:
        for column, value in zip(columns, _ended_row(ended), strict=True):
            column.append(value)
    parameters = [
        *columns,
        PRIORITY_STEP_MS,
        worker,
        worker,
    ]

    def write() -> list[sql.Row]:
        with transaction.atomic(using=sql.alias()):
            moved = sql.bound_rows(_END, parameters)
            _close({row[0] for row in moved}, endings)
            follow([row[:3] for row in moved])
            return moved

    moved = sql.repeating(write)
    minutes.recorder.note(_notes(moved, endings))
    reports.reporter.put(_reports(moved, endings))
    return {row[0]: JobState(row[1]) for row in moved}


_REPEATED = """
SELECT j.id, j.state, j.flow, j.kind, j.queue, 0, j.tenant, j.attempt, j.correlation_id
FROM jobs_job j JOIN unnest(%s::uuid[], %s::uuid[], %s::text[], %s::text[])
  AS d(id, token, state, error) ON j.id = d.id AND j.token = d.token AND j.state = d.state
  AND j.error = left(d.error, 1000)
"""


def report_repeated(endings: Sequence[Ended]) -> None:
    """Report those endings that were written before, by a write whose COMMIT answer was lost.

    Whoever else has settled such a job has reported that; its error is another one.
    """
    failed = [ended for ended in endings if ended.fault is not None]
    rows = [_ended_row(ended) for ended in failed]
    if rows:
        parameters = [
            [row[0] for row in rows],
            [row[1] for row in rows],
            [row[2] for row in rows],
            [f"{row[11]}: {row[12]}" for row in rows],
        ]
        reports.reporter.put(_reports(sql.bound_rows(_REPEATED, parameters), failed))


def _reports(moved: Sequence[sql.Row], endings: Sequence[Ended]) -> list[Report]:
    by_id = {ended.id: ended for ended in endings}
    return [
        Report(
            job_id, kind, queue, tenant, attempt, correlation_id, JobState(state),
            by_id[job_id].move, by_id[job_id].fault,
        )
        for job_id, state, _, kind, queue, _, tenant, attempt, correlation_id in moved
    ]  # fmt: skip


def _success_report(success: Success) -> Report:
    claim = success.claim
    return Report(
        claim.id, claim.kind, claim.queue, claim.tenant, claim.attempt, claim.correlation_id,
        JobState.SUCCEEDED, seconds=success.seconds,
    )  # fmt: skip


def _notes(moved: Sequence[sql.Row], endings: Sequence[Ended]) -> Iterator[Note]:
    by_id = {ended.id: ended for ended in endings}
    for job_id, state, _, kind, queue, seconds, *_ in moved:
        ended = by_id[job_id]
        how = minutes.outcome(JobState(state), ended.move.attempt, ended.ending)
        buried = state == JobState.FAILED and ended.wants_dead_letter
        stalled = ended.move.attempt in ("crashed", "lost")
        yield Note(kind, queue, how, seconds or 0.0, buried, stalled)


def _close(moved: set[UUID], endings: Sequence[Ended]) -> None:
    closings = [e.closing for e in endings if e.closing is not None and e.id in moved]
    if closings:
        admission.close(closings)
        queues = sorted({closing.queue for closing in closings})
        transaction.on_commit(lambda: rq.try_shut(queues), using=sql.alias(), robust=True)


def follow(moved: Sequence[sql.Row]) -> None:
    """What the moved jobs (id, state, flow) owe to others is done, in the same transaction."""
    owing = [job_id for job_id, _, flow in moved if flow & OWING]
    if owing:
        sql.bound_rows("SELECT jobs_follow(%s)", [owing])
    if any(flow & (OWING | Flow.LIMITED) for _, _, flow in moved):
        nudge()


def _ended_row(ended: Ended) -> tuple[Any, ...]:
    move, fault = ended.move, ended.fault or _NO_FAULT
    message = printable(fault.message, MESSAGE_LIMIT)
    # The end of a traceback tells more than its beginning.
    trace = printable(fault.traceback[-TRACEBACK_LIMIT:], TRACEBACK_LIMIT)
    mark = ""
    if ended.wants_dead_letter:
        error_class = fault.error_class or move.reason
        mark = fingerprint(error_class, fault.message, fault.traceback)
    return (
        ended.id,
        ended.token,
        move.state.value,
        printable(move.why, 100),
        move.delay,
        move.failed,
        move.crashed,
        move.released,
        move.preempted,
        move.attempt,
        move.reason,
        printable(fault.error_class, 200),
        message,
        trace,
        ended.wants_dead_letter,
        mark,
        printable("\n".join(ended.lines), LINES_LIMIT) if move.attempt else "",
        letters.stay_of(ended.kind) if ended.wants_dead_letter else timedelta(0),
    )


_WHOSE = """
SELECT j.id FROM jobs_job j JOIN unnest(%s::uuid[], %s::uuid[], %s::text[]) AS d(id, token, state)
  ON j.id = d.id AND j.token = d.token AND j.state = d.state
"""


def already_ours(written: Sequence[tuple[UUID, UUID, JobState]]) -> set[UUID]:
    """Which of (job, token, state) hold already: the write whose COMMIT answer was lost.

    The token stays on a row until the next claim, so it tells our own earlier write from
    somebody else's.
    """
    parameters = [
        [job_id for job_id, _, _ in written],
        [token for _, token, _ in written],
        [state.value for _, _, state in written],
    ]
    return {row[0] for row in sql.bound_rows(_WHOSE, parameters)}


@dataclass(frozen=True, slots=True)
class Held:
    """A running job as the reaper sees it."""

    id: UUID
    token: UUID
    kind: str
    owner: UUID
    attempt: int
    counters: Counters
    started_at: datetime


_HELD_COLUMNS = """j.id, j.token, j.kind, j.owner, j.attempt, j.failures, j.crashes, j.releases,
  j.max_attempts, j.started_at"""


def held(condition: str, parameters: Sequence[Any], limit: int, *, skip_locked: bool) -> list[Held]:
    """Running jobs that meet the condition, locked in the order of their ids."""
    statement = (
        f"SELECT {_HELD_COLUMNS} FROM jobs_job j LEFT JOIN jobs_lease l ON l.owner = j.owner "  # noqa: S608 - the condition is the engine's own text
        f"WHERE j.state = 'running' AND {condition} ORDER BY j.id LIMIT %s "
        f"FOR NO KEY UPDATE OF j{' SKIP LOCKED' if skip_locked else ''}"
    )
    return [
        Held(job_id, token, kind, owner, attempt, Counters(*counters), started_at)
        for job_id, token, kind, owner, attempt, *counters, started_at in sql.rows(
            statement, [*parameters, limit]
        )
    ]
