"""Replaying: a new job is made from an old one's payload, linked both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID

from django.db import IntegrityError, transaction

from jobs import registry, sensitive
from jobs.engine import intake, keys, sql
from jobs.engine.drafts import Draft, Entry, entry
from jobs.errors import InvalidOption, JobsError, KeyTaken, NotAllowed, UnknownJob
from jobs.limits import Unique
from jobs.operate import doubts, internal
from jobs.operate.lineages import unfinished
from jobs.operate.parameters import HIDDEN, Content, Lineage, Patch, Priority, QueueName
from jobs.operate.permissions import REPLAY_JOB
from jobs.operate.retry import close_dead_letters
from jobs.operate.targets import JOB
from jobs.operate.verbs import Many, acting, verb
from jobs.payloads import Payload
from jobs.principals import By
from jobs.states import FINAL_STATES, JobState

_COLUMNS = """kind, queue, state, priority, payload::text, payload_version, tenant, tags,
  unique_key, exclusive_key, limit_key, correlation_id, coalesce(lineage, id), replayed_by"""
_NAMES = (
    "kind", "queue", "state", "priority", "payload", "payload_version", "tenant", "tags",
    "unique_key", "exclusive_key", "limit_key", "correlation_id", "lineage", "replayed_by",
)  # fmt: skip


@verb("job.replay", on=JOB, permission=REPLAY_JOB, many=Many(FINAL_STATES, runs=True))
def replay(
    job_id: UUID,
    *,
    by: By,
    reason: str = "",
    payload: Content = None,
    payload_patch: Patch = None,
    same_lineage: Lineage = True,
    priority: Priority = None,
    queue: QueueName = None,
    **options: Annotated[Any, HIDDEN],
) -> UUID:
    """Make a new job from a finished one; both are linked.

    It carries the old payload, or the given one, and the keys; its id is returned.
    ``payload_patch`` is merged into the old payload (RFC 7386: None takes a field away). Without
    ``same_lineage`` the new job is one of its own: no key is carried over, and it may run beside
    others of the old one's line.

    ``options`` overrides those of the old job. Of a line of replays at most one job is unfinished.
    Of a job that did not succeed, effects that have happened do not happen again, unless the
    payload is another. Raises NotAllowed where the old one has not ended, one of its effects is in
    doubt, its kind forbids replays, or another of its line is unfinished.
    """
    with acting(replay, job_id, by=by, reason=reason) as act:
        if not act.principal.scope.covers(None, queue):
            raise InvalidOption("queue", f"there is no queue {queue!r}")
        chosen = {"priority": priority, "queue": queue}
        options |= {name: value for name, value in chosen.items() if value is not None}
        internal.check_replay(job_id, by, payload, payload_patch, options)
        new = carry_out(
            job_id,
            by=act.name,
            reason=act.reason,
            payload=payload,
            payload_patch=payload_patch,
            same_lineage=same_lineage,
            **options,
        )
        act.note(new=new, same_lineage=same_lineage)
        if payload is not None or payload_patch is not None:
            act.note(payload="edited")
        return new


def carry_out(
    job_id: UUID,
    *,
    by: str,
    reason: str = "",
    payload: Payload | Mapping[str, Any] | None = None,
    payload_patch: Mapping[str, Any] | None = None,
    same_lineage: bool = True,
    **options: Any,
) -> UUID:
    """Replay without permission check and audit; for callers that have done both."""
    if payload is not None and payload_patch is not None:
        raise InvalidOption("payload_patch", "goes without payload")
    is_same = False
    with transaction.atomic(using=sql.alias()):
        old = _locked(job_id)
        if old["state"] not in FINAL_STATES:
            raise NotAllowed("replay", job_id, old["state"], sorted(FINAL_STATES))
        handler = registry.get(old["kind"])
        if not handler.replayable:
            raise NotAllowed("replay", job_id, f"of kind {old['kind']}, which forbids it", [])
        if doubts.is_in_doubt(job_id):
            raise NotAllowed("replay", job_id, "in doubt about an effect; resolve that first", [])
        if same_lineage and (running := unfinished(old["lineage"])):
            raise NotAllowed("replay", job_id, f"succeeded by {running}, which is unfinished", [])
        if payload is None:
            payload = _payload(old, handler.payload, payload_patch)
            is_same = not payload_patch
        elif isinstance(payload, Mapping):
            payload = handler.payload.build(dict(payload))
        draft = Draft(payload, **{**_options(old), **options})
        if same_lineage:
            new = _insert(old, draft)
            _link(job_id, new, old["lineage"])
            sql.run("UPDATE jobs_key SET job_id = %s WHERE job_id = %s", [new, job_id])
        else:
            new = _insert({**old, "unique_key": None}, draft)
            _link(job_id, new, None)
        if is_same and same_lineage and old["state"] != JobState.SUCCEEDED:
            doubts.carry_over(job_id, new)
        close_dead_letters([job_id], "replayed", by, reason)
    return new


_LOCK_PLAIN = f"""
SELECT id, {_COLUMNS} FROM jobs_job j
WHERE id = ANY(%s) AND state = ANY(%s) AND unique_key IS NULL AND lineage IS NULL
  AND NOT EXISTS (SELECT 1 FROM jobs_effect e WHERE e.job_id = j.id
    AND e.state IN ('intent', 'in_doubt'))
ORDER BY id FOR NO KEY UPDATE
"""  # noqa: S608 - constant

_LINK_MANY = """
WITH d AS MATERIALIZED (SELECT * FROM unnest(%s::uuid[], %s::uuid[]) AS t(old, new)),
o AS (UPDATE jobs_job j SET replayed_by = d.new, lineage = d.old FROM d WHERE j.id = d.old)
UPDATE jobs_job j SET replay_of = d.old, lineage = d.old FROM d WHERE j.id = d.new
"""

_HAND_OVER_KEYS = """
WITH l AS MATERIALIZED (SELECT k.id, t.new FROM jobs_key k
  JOIN unnest(%s::uuid[], %s::uuid[]) AS t(old, new) ON k.job_id = t.old
  ORDER BY k.kind, k.tenant, k.key FOR NO KEY UPDATE OF k)
UPDATE jobs_key k SET job_id = l.new FROM l WHERE k.id = l.id
"""


def replay_many(ids: Sequence[UUID], *, by: str, reason: str = "") -> dict[UUID, UUID]:
    """The same for many, in a few statements; answers the new ids of those that were replayed.

    Left for ``carry_out`` is whatever has a unique key, other replays, a doubt, or a payload or
    kind that cannot be enqueued. A job without a line is alone in it, so that its row is the lock.
    """
    with transaction.atomic(using=sql.alias()):
        names = ("id", *_NAMES)
        rows = sql.rows(_LOCK_PLAIN, [list(ids), sorted(FINAL_STATES)])
        made: dict[UUID, Entry] = {}
        happened = []
        for old in (dict(zip(names, row, strict=True)) for row in rows):
            handler = registry.find(old["kind"])
            if handler is None or not handler.replayable:
                continue
            with suppress(JobsError):
                made[old["id"]] = entry(
                    Draft(_payload(old, handler.payload, None), **_options(old))
                )
                if old["state"] != JobState.SUCCEEDED:
                    happened.append(old["id"])
        if not made:
            return {}
        found = dict(zip(made, intake.enter_many(list(made.values())), strict=True))
        columns = [list(found), list(found.values())]
        sql.run(_LINK_MANY, columns)
        sql.run(_HAND_OVER_KEYS, columns)
        doubts.carry_over_many({old: found[old] for old in happened if old in found})
        close_dead_letters(list(found), "replayed", by, reason)
    return found


def _payload(old: dict[str, Any], model: type[Payload], patch: Mapping[str, Any] | None) -> Payload:
    """The old payload, with the patch merged into what it shows in clear."""
    place = sensitive.place_of(old["payload"], old["id"], old["tenant"])
    if patch is None:
        return model.from_text(old["payload"], old["payload_version"], place)
    if not isinstance(patch, Mapping):
        raise InvalidOption("payload_patch", f"must be an object, got {type(patch).__name__}")
    clear = json.loads(sensitive.opened(old["payload"], place))
    current = model.upcast(clear, old["payload_version"])
    try:
        merged = json.dumps(_merged(current, patch))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidOption("payload_patch", f"is no JSON: {error}") from None
    return model.from_text(merged, model.version)


def _merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    made = dict(old) if isinstance(old, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = _merged(made.get(name), value)
    return made


def _link(old: UUID, new: UUID, lineage: UUID | None) -> None:
    """The new job follows the old one; in its line, where it has one."""
    sql.run("UPDATE jobs_job SET replay_of = %s, lineage = %s WHERE id = %s", [old, lineage, new])
    sql.run(
        "UPDATE jobs_job SET replayed_by = %s, lineage = coalesce(%s, lineage) WHERE id = %s",
        [new, lineage, old],
    )


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
    return {"id": job_id, **dict(zip(_NAMES, found[0], strict=True))}
