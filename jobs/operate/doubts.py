"""Effects in doubt: what a person decides about a call that may or may not have happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from pydantic import Field

from jobs import conf, jsontext
from jobs.backoff import Duration
from jobs.engine import endings, sql
from jobs.errors import EffectError, UnknownTarget
from jobs.jsontext import printable
from jobs.models import Effect
from jobs.operate.permissions import RESOLVE_DOUBT
from jobs.operate.retry import carry_out
from jobs.operate.targets import EFFECT, is_id
from jobs.operate.verbs import acting, verb
from jobs.principals import By
from jobs.states import FINAL_STATES, JobState

__all__ = ["open_doubts", "resolve", "resolve_doubt"]

How = Literal["resend", "did_not_happen", "assume_done"]
_RESOLUTION_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the decision led to."""

    effect_id: int
    job_id: UUID
    retried: bool
    """Whether the job runs again now: not after ``did_not_happen``, and not while another of its
    effects is in doubt."""


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
    """Decide what happened in this job's effect ``key``; a failed job may run again.

    ``how`` and ``outcome`` are those of ``resolve``, ``expires`` that of ``jobs.retry``. Raises
    UnknownTarget where the job has no such effect, EffectError where it is not in doubt.
    """
    found: list[Any] = []
    if is_id(job_id, UUID) and is_id(key, str):
        found = sql.rows("SELECT id FROM jobs_effect WHERE job_id = %s AND key = %s", [job_id, key])
    try:
        return resolve(
            found[0][0] if found else 0, how, by=by, reason=reason, outcome=outcome, expires=expires
        )
    except UnknownTarget as error:  # says the same of one that is hidden
        named = UnknownTarget("effect", f"{job_id}/{key}")
        named.audit = error.audit
        raise named from None


@verb("effect.resolve", on=EFFECT, permission=RESOLVE_DOUBT)
def resolve(
    effect_id: int,
    how: How,
    *,
    by: By,
    reason: str,
    outcome: Annotated[Any, Field(description="what the call answered, as JSON")] = None,
    expires: Duration | datetime | None = None,
) -> Resolved:
    """Decide about an effect in doubt; its failed job runs again unless that is left to a retry.

    ``"resend"`` lets the next attempt make the call again, ``"assume_done"`` makes it go on as if
    the call had answered ``outcome``. ``"did_not_happen"`` only says so: a failed job stays failed
    with its dead letter, and whoever asked for its end is told. Raises EffectError where the effect
    is not in doubt, or its call may be under way.
    """
    with acting(resolve, effect_id, by=by, reason=reason) as act:
        resolved = _resolve(effect_id, how, act.name, act.reason, outcome, expires)
        act.note(how=how, job=resolved.job_id, retried=resolved.retried)
        return resolved


def _resolve(
    effect_id: int, how: How, by: str, reason: str, outcome: Any,
    expires: Duration | datetime | None,
) -> Resolved:  # fmt: skip
    text = _checked(how, outcome, expires)
    with transaction.atomic(using=sql.alias()):
        job_id, job_state = _locked(effect_id)
        note = printable(f"{how} by {by}: {reason}", _RESOLUTION_LIMIT)
        if how != "assume_done":
            statement = "state = 'failed', settled_at = jobs_clock(), resolution = %s"
            parameters: list[object] = [note]
        else:
            statement = "state = 'done', settled_at = jobs_clock(), resolution = %s, "
            statement += "outcome = %s::jsonb"
            parameters = [note, text]
        sql.run(f"UPDATE jobs_effect SET {statement} WHERE id = %s", [*parameters, effect_id])  # noqa: S608 - constant text
        is_over = job_state in FINAL_STATES and not is_in_doubt(job_id)
        retried = is_over and job_state == JobState.FAILED and how != "did_not_happen"
        if is_over and how == "did_not_happen":
            endings.tell(job_id)
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


def _checked(how: str, outcome: Any, expires: object) -> str:
    if how not in get_args(How):
        names = " or ".join(map(repr, get_args(How)))
        raise EffectError(f"resolve: how must be {names}, got {how!r}")
    if how != "assume_done" and outcome is not None:
        raise EffectError("resolve: outcome goes with 'assume_done' only")
    if how == "did_not_happen" and expires is not None:
        raise EffectError("resolve: expires goes with a decision that runs the job again")
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
