"""Replaying: a new job is made from an old one's payload, linked both ways."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from jobs import registry, sensitive
from jobs.engine import intake, keys, sql
from jobs.engine.drafts import Draft
from jobs.errors import KeyTaken, NotAllowed, UnknownJob
from jobs.limits import Unique
from jobs.operate import doubts
from jobs.operate.lineages import unfinished
from jobs.operate.retry import close_dead_letter
from jobs.payloads import Payload
from jobs.states import FINAL_STATES, JobState

_COLUMNS = """kind, queue, state, priority, payload::text, payload_version, tenant, tags,
  unique_key, exclusive_key, limit_key, correlation_id, coalesce(lineage, id), replayed_by"""


def replay(
    job_id: UUID, *, by: str, reason: str = "", payload: Payload | None = None, **options: Any
) -> UUID:
    """The id of the new job, which carries the old payload (or the given one) and its keys.

    ``options`` overrides those of the old job. Of a line of replays at most one job is unfinished.
    Of a job that did not succeed, effects that have happened do not happen again, unless the
    payload is another. Raises NotAllowed where the old one has not ended, one of its effects is in
    doubt, its kind forbids replays, or another of its line is unfinished.
    """
    with transaction.atomic(using=sql.alias()):
        old = _locked(job_id)
        if old["state"] not in FINAL_STATES:
            raise NotAllowed("replay", job_id, old["state"], sorted(FINAL_STATES))
        handler = registry.get(old["kind"])
        if not handler.replayable:
            raise NotAllowed("replay", job_id, f"of kind {old['kind']}, which forbids it", [])
        if doubts.is_in_doubt(job_id):
            raise NotAllowed("replay", job_id, "in doubt about an effect; resolve that first", [])
        if running := unfinished(old["lineage"]):
            raise NotAllowed("replay", job_id, f"succeeded by {running}, which is unfinished", [])
        carried = payload or handler.payload.from_text(
            old["payload"],
            old["payload_version"],
            sensitive.place_of(old["payload"], job_id, old["tenant"]),
        )
        new = _insert(old, Draft(carried, **{**_options(old), **options}))
        sql.run(
            "UPDATE jobs_job SET replay_of = %s, lineage = %s WHERE id = %s",
            [job_id, old["lineage"], new],
        )
        sql.run(
            "UPDATE jobs_job SET replayed_by = %s, lineage = %s WHERE id = %s",
            [new, old["lineage"], job_id],
        )
        if payload is None and old["state"] != JobState.SUCCEEDED:
            doubts.carry_over(job_id, new)
        sql.run("UPDATE jobs_key SET job_id = %s WHERE job_id = %s", [new, job_id])
        close_dead_letter(job_id, "replayed", by, reason)
    return new


def _insert(old: dict[str, Any], draft: Draft) -> UUID:
    # The line's key is ours: only another line can be in the way, and jobs_key is not asked.
    held = Draft(
        **{
            **{name: getattr(draft, name) for name in Draft.__dataclass_fields__},
            "unique": Unique(old["unique_key"]) if old["unique_key"] else draft.unique,
        }
    )
    try:
        with transaction.atomic(using=sql.alias()):
            made = intake.enter(held)
    except IntegrityError as error:
        raise _taken(old) from error
    if made.deduplicated:
        raise _taken(old)
    return made.id


def _taken(old: dict[str, Any]) -> KeyTaken:
    other = keys.holder(old["kind"], old["tenant"], old["unique_key"] or "")
    return KeyTaken(old["id"], old["unique_key"], other or old["id"])


def _options(old: dict[str, Any]) -> dict[str, Any]:
    return {
        "queue": old["queue"],
        "priority": old["priority"],
        "tenant": old["tenant"],
        "tags": list(old["tags"]),
        "exclusive": old["exclusive_key"] or "",
        "limit_key": old["limit_key"] or "",
        "correlation_id": old["correlation_id"],
    }


def _locked(job_id: UUID) -> dict[str, Any]:
    found = sql.rows(
        f"SELECT {_COLUMNS} FROM jobs_job WHERE id = %s FOR NO KEY UPDATE",  # noqa: S608 - constant
        [job_id],
    )
    if not found:
        raise UnknownJob(job_id)
    names = "kind queue state priority payload payload_version tenant tags unique_key exclusive_key"
    names += " limit_key correlation_id lineage replayed_by"
    return {"id": job_id, **dict(zip(names.split(), found[0], strict=True))}
