"""Effects in doubt: what a person decides about a call that may or may not have happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet

from jobs import conf, jsontext
from jobs.backoff import Duration
from jobs.engine import sql
from jobs.errors import EffectError, UnknownTarget
from jobs.jsontext import printable
from jobs.models import Effect
from jobs.operate import acts
from jobs.operate.retry import carry_out
from jobs.principals import By
from jobs.states import FINAL_STATES, JobState

How = Literal["resend", "assume_done"]
_RESOLUTION_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the decision led to."""

    effect_id: int
    job_id: UUID
    retried: bool
    """Whether the job runs again now; it does not while another of its effects is in doubt."""


def open_doubts() -> QuerySet[Effect]:
    """The effects that wait for a decision, oldest first: parked ones, and those left behind by
    jobs that have ended."""
    return (
        Effect.objects.using(sql.alias())
        .filter(Q(state="in_doubt") | Q(state="intent", job__state__in=sorted(FINAL_STATES)))
        .select_related("job")
        .order_by("intended_at", "id")
    )


def resolve_doubt(
    job_id: UUID,
    key: str,
    how: How,
    *,
    by: By,
    reason: str,
    outcome: Any = None,
    expires: Duration | datetime | None = None,
) -> Resolved:
    """What may have happened in this job's effect ``key`` is decided, and a failed job runs again.

    ``how`` and ``outcome`` are those of ``resolve``, ``expires`` that of ``jobs.retry``. Raises
    UnknownTarget where the job has no such effect, EffectError where it is not in doubt.
    """
    found = sql.rows("SELECT id FROM jobs_effect WHERE job_id = %s AND key = %s", [job_id, key])
    try:
        return resolve(
            found[0][0] if found else 0, how, by=by, reason=reason, outcome=outcome, expires=expires
        )
    except UnknownTarget as error:  # says the same of one that is hidden
        named = UnknownTarget("effect", f"{job_id}/{key}")
        named.audit = error.audit
        raise named from None


def resolve(
    effect_id: int,
    how: How,
    *,
    by: By,
    reason: str,
    outcome: Any = None,
    expires: Duration | datetime | None = None,
) -> Resolved:
    """The doubt is gone, and a failed job runs again.

    ``"resend"`` lets its next attempt make the call again; ``"assume_done"`` makes it go on as if
    the call had answered ``outcome``. Raises EffectError where the effect is not in doubt, or its
    call may be under way.
    """
    with acts.on(
        "effect.resolve", kind="effect", id=effect_id, permission="resolve_doubt", by=by,
        reason=reason, needs_reason=True,
    ) as act:  # fmt: skip
        resolved = _resolve(effect_id, how, act.name, act.reason, outcome, expires)
        act.note(how=how, job=resolved.job_id, retried=resolved.retried)
        return resolved


def _resolve(
    effect_id: int, how: How, by: str, reason: str, outcome: Any,
    expires: Duration | datetime | None,
) -> Resolved:  # fmt: skip
    text = _checked(how, outcome)
    with transaction.atomic(using=sql.alias()):
        job_id, job_state = _locked(effect_id)
        note = printable(f"{how} by {by}: {reason}", _RESOLUTION_LIMIT)
        if how == "resend":
            statement = "state = 'failed', settled_at = jobs_clock(), resolution = %s"
            parameters: list[object] = [note]
        else:
            statement = "state = 'done', settled_at = jobs_clock(), resolution = %s, "
            statement += "outcome = %s::jsonb"
            parameters = [note, text]
        sql.run(f"UPDATE jobs_effect SET {statement} WHERE id = %s", [*parameters, effect_id])  # noqa: S608 - constant text
        retried = job_state == JobState.FAILED and not is_in_doubt(job_id)
        if retried:
            carry_out(job_id, by=by, reason=f"{how}: {reason}", expires=expires)
    return Resolved(effect_id, job_id, retried)


def is_in_doubt(job_id: UUID) -> bool:
    """Whether one of the job's effects may or may not have happened."""
    found = sql.rows(
        "SELECT 1 FROM jobs_effect WHERE job_id = %s AND state IN ('intent', 'in_doubt') LIMIT 1",
        [job_id],
    )
    return bool(found)


def carry_over(old: UUID, new: UUID) -> int:
    """What has happened for the old job is done for the new one, too; answers how many effects."""
    return sql.run(_CARRY_OVER, [new, f"carried over from {old}", old])


_CARRY_OVER = """
INSERT INTO jobs_effect (job_id, key, state, token, attempt, request, outcome, resolution,
    intended_at, settled_at)
  SELECT %s, key, 'done', token, attempt, request, outcome, %s, intended_at, settled_at
  FROM jobs_effect WHERE job_id = %s AND state = 'done' ORDER BY id
"""


_CARRY_OVER_MANY = """
INSERT INTO jobs_effect (job_id, key, state, token, attempt, request, outcome, resolution,
    intended_at, settled_at)
  SELECT t.new, e.key, 'done', e.token, e.attempt, e.request, e.outcome,
    'carried over from ' || t.old, e.intended_at, e.settled_at
  FROM unnest(%s::uuid[], %s::uuid[]) AS t(old, new) JOIN jobs_effect e ON e.job_id = t.old
  WHERE e.state = 'done' ORDER BY e.id
"""


def carry_over_many(followed: Mapping[UUID, UUID]) -> int:
    """The same for many old jobs and the new ones that follow them."""
    if not followed:
        return 0
    return sql.run(_CARRY_OVER_MANY, [list(followed), list(followed.values())])


def _checked(how: str, outcome: Any) -> str:
    if how not in ("resend", "assume_done"):
        raise EffectError(f"resolve: how must be 'resend' or 'assume_done', got {how!r}")
    if how == "resend" and outcome is not None:
        raise EffectError("resolve: outcome goes with 'assume_done' only")
    try:
        return jsontext.dumps(outcome, conf.settings().RESULT_LIMIT)
    except jsontext.UnstorableValue as error:
        raise EffectError(f"resolve: outcome cannot be stored: {error}") from None


_LOCK_JOB = """
SELECT j.id, j.state, j.attempt FROM jobs_job j
WHERE j.id = (SELECT job_id FROM jobs_effect WHERE id = %s) FOR NO KEY UPDATE
"""
_LOCK_EFFECT = """
SELECT key, state, attempt, state = 'done' AND outcome IS NULL FROM jobs_effect WHERE id = %s
FOR NO KEY UPDATE
"""


def _locked(effect_id: int) -> tuple[UUID, str]:
    """The job and its state, both rows locked; raises EffectError where nothing is to decide."""
    jobs = sql.rows(_LOCK_JOB, [effect_id])
    effects = sql.rows(_LOCK_EFFECT, [effect_id])
    if not jobs or not effects:
        raise UnknownTarget("effect", effect_id)
    [(job_id, job_state, job_attempt)], [(key, state, attempt, is_blank)] = jobs, effects
    if state == "intent" and job_state == JobState.RUNNING and attempt == job_attempt:
        raise EffectError(f"resolve: the call of effect {key!r} may be under way: its job runs")
    if state not in ("intent", "in_doubt") and not is_blank:
        raise EffectError(f"resolve: effect {key!r} is {state}, not in doubt")
    return job_id, job_state
