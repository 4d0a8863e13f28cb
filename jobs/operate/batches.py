"""Batches: jobs that belong together, their progress, and what follows when all have ended."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Annotated, Any, Self, Unpack
from uuid import UUID

from django.db import transaction
from pydantic import Field

from jobs import sensitive
from jobs.engine import intake, sql
from jobs.engine.drafts import Draft, Options, entry
from jobs.engine.flow import PRIORITY_STEP_MS
from jobs.engine.pushes import after_commit
from jobs.errors import InvalidOption, NotAllowed, UnknownBatch
from jobs.ids import uuid7
from jobs.names import label_problem
from jobs.operate.permissions import EDIT_JOB
from jobs.operate.targets import BATCH
from jobs.operate.verbs import acting, verb
from jobs.payloads import Payload
from jobs.principals import By, Scope

CAUSES = 20
LOOK_LIMIT = 10_000
"""This many members are looked at, at most, to say how fast a batch goes and what they died of."""
NOTE_LIMIT = 500


class OpenBatch:
    """A batch that still takes members. As a context manager it is sealed at the end.

    ::

        with jobs.batch("import", on_complete=ImportDone(file_id=7)) as batch:
            for row in rows:
                batch.add(ImportRow(row_id=row.id))

    Left by an exception it stays open, for the caller's transaction to take back.
    """

    def __init__(self, batch_id: UUID, tenant: str) -> None:
        self.id, self.tenant = batch_id, tenant

    def add(self, payload: Payload, **options: Unpack[Options]) -> intake.Enqueued:
        """The job is a member of the batch."""
        options.setdefault("tenant", self.tenant)
        options["batch"] = self.id
        return intake.enqueue(payload, **options)

    def add_many(self, drafts: Iterable[Payload | Draft]) -> list[UUID]:
        """All the jobs are members of the batch."""
        return intake.enqueue_many(self._draft(d) for d in drafts)

    def seal(self) -> None:
        """Nothing can be added any more; the batch is done when its last member has ended."""
        seal(self.id)

    def _draft(self, draft: Payload | Draft) -> Draft:
        if isinstance(draft, Payload):
            return Draft(draft, batch=self.id, tenant=self.tenant)
        options = {name: getattr(draft, name) for name in Draft.__dataclass_fields__}
        options["tenant"] = draft.tenant or self.tenant
        return Draft(**{**options, "batch": self.id})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.seal()


def batch(
    name: str = "",
    *,
    tenant: str = "",
    on_success: Payload | Draft | None = None,
    on_complete: Payload | Draft | None = None,
    on_failure: Payload | Draft | None = None,
) -> OpenBatch:
    """An open batch, in the caller's transaction.

    ``on_success`` is enqueued when all members have succeeded, ``on_complete`` when all have
    ended, ``on_failure`` at the first failure; each once, and once more for each time that a retry
    has opened the batch again.
    """
    for option, value in (("name", name), ("tenant", tenant)):
        if value != "" and (problem := label_problem(value, 200)):
            raise InvalidOption(option, problem)
    callbacks = {
        name_: _callback(name_, draft)
        for name_, draft in (
            ("on_success", on_success),
            ("on_complete", on_complete),
            ("on_failure", on_failure),
        )
        if draft is not None
    }
    batch_id = uuid7()
    sql.run(
        "INSERT INTO jobs_batch (id, name, tenant, callbacks, called) "
        "VALUES (%s, %s, %s, %s, '{}')",
        [batch_id, name, tenant, json.dumps(callbacks)],
    )
    return OpenBatch(batch_id, tenant)


def _callback(option: str, draft: Payload | Draft) -> dict[str, Any]:
    made = entry(draft if isinstance(draft, Draft) else Draft(draft))
    if made.unique or made.exclusive or made.limit_key or made.batch or made.after:
        raise InvalidOption(option, "a callback takes no keys, no batch and no parents")
    if sensitive.IN_TEXT in made.text:
        raise InvalidOption(
            option, "a callback's payload has no sensitive fields: give it an id to look them up by"
        )
    if made.delay or made.run_at or made.expires_at or made.chosen_id:
        raise InvalidOption(option, "a callback takes no time and no id of its own")
    return {
        "kind": made.kind,
        "queue": made.queue,
        "priority": made.priority,
        "payload": json.loads(made.text),
        "version": made.version,
        "weight": PRIORITY_STEP_MS,
        "expires_in": made.expires_in,
        "max_attempts": made.max_attempts,
        "timeout": made.timeout,
        "lease": made.lease,
        "flow": made.flow,
    }


def seal(batch_id: UUID) -> None:
    """The batch takes no more members, and is done if all have ended already.

    Waits for those who are adding members at this moment. Raises NotAllowed when it was sealed
    before.
    """
    with transaction.atomic(using=sql.alias()):
        found = sql.rows("SELECT state FROM jobs_batch WHERE id = %s FOR UPDATE", [batch_id])
        if not found:
            raise UnknownBatch(batch_id)
        if found[0][0] != "open":
            raise NotAllowed("seal", batch_id, found[0][0], ["open"])
        sql.run(
            "UPDATE jobs_batch SET state = 'sealed', sealed_at = jobs_clock(), total = (SELECT "
            "count(*) FROM jobs_job WHERE batch_id = %s) WHERE id = %s",
            [batch_id, batch_id],
        )
        sql.rows("SELECT jobs_conclude(%s)", [batch_id])
    after_commit(None)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch is."""

    id: UUID
    name: str
    state: str
    total: int
    """Members so far, while it is open."""
    succeeded: int
    failed: int
    cancelled: int
    expired: int
    generation: int
    rate: float
    """Members that ended per second, over the last minute; of a large batch since it was made."""
    eta: float | None
    """Seconds until the last one ends, at this rate; None where that is unknown."""
    causes: dict[str, int]
    """Failures by their cause, the most frequent first, among the first ten thousand."""
    created_at: datetime
    finished_at: datetime | None

    @property
    def done(self) -> int:
        return self.succeeded + self.failed + self.cancelled + self.expired


def progress(batch_id: UUID) -> Progress:
    """How far the batch is; raises UnknownBatch."""
    found = sql.rows(
        "SELECT id, name, state, coalesce(total, (SELECT count(*) FROM jobs_job j "
        "WHERE j.batch_id = b.id)), succeeded, failed, cancelled, expired, generation, created_at, "
        "finished_at FROM jobs_batch b WHERE id = %s",
        [batch_id],
    )
    if not found:
        raise UnknownBatch(batch_id)
    _, name, state, total, succeeded, failed, cancelled, expired, generation, *times = found[0]
    done = succeeded + failed + cancelled + expired
    rate = _rate(batch_id) if total <= LOOK_LIMIT else _mean(done, *times)
    left = total - done
    return Progress(
        id=batch_id,
        name=name,
        state=state,
        total=total,
        succeeded=succeeded,
        failed=failed,
        cancelled=cancelled,
        expired=expired,
        generation=generation,
        rate=rate,
        eta=left / rate if rate and state == "sealed" else None,
        causes=_causes(batch_id) if failed else {},
        created_at=times[0],
        finished_at=times[1],
    )


def _rate(batch_id: UUID) -> float:
    [(ended, since)] = sql.rows(
        "SELECT count(*), extract(epoch FROM least(interval '60 s', jobs_clock() - "
        "min(started_at)))::float8 FROM jobs_job WHERE batch_id = %s "
        "AND finished_at > jobs_clock() - interval '60 s'",
        [batch_id],
    )
    return ended / max(since, 0.001) if ended and since else 0.0


def check_whole(batch_id: UUID, scope: Scope) -> None:
    """Raise UnknownBatch where a member is in a queue outside of the scope.

    Who sees only a part of a batch acts on those members, and does not change the batch.
    """
    if not lies_within(batch_id, scope):
        raise UnknownBatch(batch_id)


def lies_within(batch_id: UUID, scope: Scope) -> bool:
    """Whether every member is in a queue of the scope."""
    return scope.queues is None or not sql.rows(
        "SELECT 1 FROM jobs_job WHERE batch_id = %s AND queue <> ALL(%s) LIMIT 1",
        [batch_id, sorted(scope.queues)],
    )


def _mean(done: int, begin: datetime, end: datetime | None) -> float:
    [(seconds,)] = sql.rows(
        "SELECT extract(epoch FROM coalesce(%s, jobs_clock()) - %s)::float8", [end, begin]
    )
    return float(done / max(seconds, 0.001))


def _causes(batch_id: UUID) -> dict[str, int]:
    return dict(
        sql.rows(
            "SELECT coalesce(nullif(split_part(error, ':', 1), ''), reason), count(*) "
            "FROM (SELECT error, reason FROM jobs_job WHERE batch_id = %s AND state = 'failed' "
            "LIMIT %s) f GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %s",
            [batch_id, LOOK_LIMIT, CAUSES],
        )
    )


@verb("batch.note", on=BATCH, permission=EDIT_JOB)
def note(batch_id: UUID, text: Annotated[str, Field(max_length=NOTE_LIMIT)], *, by: By) -> None:
    """Write the note of a batch; an empty text removes it."""
    with acting(note, batch_id, by=by) as act:
        check_whole(batch_id, act.principal.scope)
        if text != "" and (problem := label_problem(text, NOTE_LIMIT)):
            raise InvalidOption("text", problem)
        [(before,)] = sql.rows("SELECT note FROM jobs_batch WHERE id = %s FOR UPDATE", [batch_id])
        sql.run("UPDATE jobs_batch SET note = %s WHERE id = %s", [text, batch_id])
        act.changed({"note": before}, {"note": text})
