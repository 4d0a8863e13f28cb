"""Batches: jobs that belong together, their progress, and what follows when all have ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self, Unpack
from uuid import UUID

from django.db import transaction

from jobs import sensitive
from jobs.engine import intake, sql
from jobs.engine.drafts import Draft, Options, entry
from jobs.engine.flow import PRIORITY_STEP_MS
from jobs.engine.pushes import after_commit
from jobs.errors import InvalidOption, NotAllowed, UnknownBatch
from jobs.ids import uuid7
from jobs.names import label_problem
from jobs.operate import acts
from jobs.operate.bulkscan import scoped
from jobs.operate.cancel import cancel_many
from jobs.operate.retry import carry_out, retry_many
from jobs.payloads import Payload
from jobs.principals import By, Principal, Scope

CHUNK = 1000
CAUSES = 20
LOOK_LIMIT = 10_000
"""So many members are looked at, at most, to say how fast a batch goes and what they died of."""
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

    Waits for whoever is adding members at this moment. Raises NotAllowed when it was sealed
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
    """Seconds until the last one ends, at this rate; None where that cannot be told."""
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


def cancel_rest(batch_id: UUID, *, by: By, reason: str = "", force: bool = False) -> int:
    """Every member within the scope that has not ended is cancelled or asked to stop; answers how
    many.

    In one transaction: a large batch is cancelled by a bulk operation.
    """
    states = "'blocked', 'pending', 'queued', 'running'"

    def write() -> int:
        with _act("cancel_rest", "cancel_job", batch_id, by, reason) as act:
            act.count = sum(
                len(cancel_many(ids, by=act.name, reason=reason, force=force))
                for ids in _members(batch_id, states, act.principal.scope)
            )
            act.note(force=force)
            return act.count

    return sql.repeating(write)


@contextmanager
def _act(verb: str, permission: str, batch_id: UUID, by: By, reason: str) -> Iterator[acts.Act]:
    with acts.on(
        f"batch.{verb}", kind="batch", id=batch_id, permission=permission, by=by, reason=reason
    ) as act:
        yield act


def retry_failed(batch_id: UUID, *, by: By, reason: str = "", attempts: int = 1) -> int:
    """Every failed member within the scope is retried that can be; answers how many.

    Left alone is whatever has run on in the meantime: by a replay, or under the same key.
    """
    with _act("retry_failed", "retry_job", batch_id, by, reason) as act:
        act.count = _retry_failed(batch_id, act.principal, reason, attempts)
        return act.count


def note(batch_id: UUID, text: str, *, by: By) -> None:
    """The batch has this note; an empty text takes it away."""
    with _act("note", "edit_job", batch_id, by, "") as act:
        if text != "" and (problem := label_problem(text, NOTE_LIMIT)):
            raise InvalidOption("text", problem)
        [(before,)] = sql.rows("SELECT note FROM jobs_batch WHERE id = %s FOR UPDATE", [batch_id])
        sql.run("UPDATE jobs_batch SET note = %s WHERE id = %s", [text, batch_id])
        act.changed({"note": before}, {"note": text})


def _retry_failed(batch_id: UUID, who: Principal, reason: str, attempts: int) -> int:
    retried, by = 0, who.name
    for ids in _members(batch_id, "'failed'", who.scope):
        with transaction.atomic(using=sql.alias()):
            # Before the first retry locks the batch, behind which a finishing member may wait.
            sql.rows(
                "SELECT 1 FROM jobs_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE", [ids]
            )
            together = retry_many(ids, by=by, reason=reason, attempts=attempts)
            retried += len(together)
            for job_id in ids:
                if job_id in together:
                    continue
                with suppress(NotAllowed):
                    carry_out(job_id, by=by, reason=reason, attempts=attempts)
                    retried += 1
    return retried


def _members(batch_id: UUID, states: str, scope: Scope) -> Iterable[list[UUID]]:
    """The ids of the members in these states within the scope, in portions, each member once."""
    if not sql.rows("SELECT 1 FROM jobs_batch WHERE id = %s", [batch_id]):
        raise UnknownBatch(batch_id)
    last, (within, more) = UUID(int=0), scoped(scope)
    while True:
        found = sql.rows(
            f"SELECT j.id FROM jobs_job j WHERE batch_id = %s AND state IN ({states}) AND id > %s"  # noqa: S608 - constant
            f"{within} ORDER BY id LIMIT %s",
            [batch_id, last, *more, CHUNK],
        )
        if not found:
            return
        yield [row[0] for row in found]
        last = found[-1][0]
