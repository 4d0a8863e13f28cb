"""Accepting operations: the row and its job are written in one transaction."""

from __future__ import annotations

import difflib
import re
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils import timezone

import jobs
from jobs.verbs import permissions as platform
from operations import events, mirror, order, payloads, states
from operations.config import settings
from operations.errors import Refused
from operations.models import Agent, Operation, Phase, Step
from operations.permissions import agent_for
from operations.table import OPERATIONS, SERVICE_ACCOUNT, Family
from operations.table import Operation as Spec

if TYPE_CHECKING:
    from jobs.acts import By

DOUBLE_CLICK = timedelta(seconds=30)
AGAIN = "submitted again"
_KEY = re.compile(r"[\x21-\x7e]{1,128}\Z")


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted operation; ``deduplicated`` if it is an earlier one."""

    id: uuid.UUID
    deduplicated: bool = False


def enqueue(
    type: str, data: object, *, by: By, agent: str = "", idempotency_key: str = ""
) -> Accepted:
    """Store an operation and enqueue its job; raise Refused, and nothing is stored."""
    spec, parsed = _checked(type, data, idempotency_key)
    if not isinstance(by, str) and not by.may(platform.ENQUEUE_JOB):
        raise Refused(403, "forbidden", f"needs the permission {platform.ENQUEUE_JOB}")
    row = agent_for(by, SERVICE_ACCOUNT if spec.is_shared else agent, spec.queue)
    return accept(spec, parsed, row, by if isinstance(by, str) else by.name, idempotency_key)


def find_type(type: str) -> Spec:
    """Return the line of the table; raise Refused that names the nearest type."""
    if type in OPERATIONS:
        return OPERATIONS[type]
    near = difflib.get_close_matches(type, OPERATIONS, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise Refused(422, "unknown-type", "there is no such type of operation" + hint, [
        ("/type", "is unknown" + hint)])  # fmt: skip


def _checked(type: str, data: object, key: str) -> tuple[Spec, payloads.Data]:
    """Return the line of the table and the parsed data; raise Refused with all problems."""
    fields: list[tuple[str, str]] = []
    code, message = "invalid", f"the request for {type} is invalid"
    try:
        spec = find_type(type)
        parsed = payloads.parse(type, data)
    except Refused as refused:
        if not refused.fields:
            raise
        if refused.code == "unknown-type":
            code, message = refused.code, str(refused)
        fields += refused.fields
    if key and not _KEY.match(key):
        fields.append(("/idempotencyKey", "must be up to 128 characters, none of them a space"))
    if fields:
        raise Refused(422, code, message, fields)
    return spec, parsed


def accept(
    spec: Spec, data: payloads.Data, agent: Agent, by: str, key: str = ""
) -> Accepted:  # fmt: skip
    """Store a valid operation of an agent and enqueue its job."""
    if not settings().ERP_URL:
        raise Refused(503, "no-erp", "no ERP is configured")
    digest = payloads.digest(agent.pk, spec.type, data)
    try:
        with transaction.atomic():
            # One at a time per agent, so that writes have an order.
            Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
            if not agent.is_active:
                raise Refused(409, "agent-inactive", "the agent is inactive")
            body = data.as_json()
            entity = f"{spec.entity}:{body[spec.entity]}" if spec.entity else ""
            return _insert(
                spec, body, agent, by, entity, digest, _unique(spec, agent, key or digest)
            )
    except jobs.errors.KeyConflict:
        raise Refused(409, "key-reused", "the key was used with other data", [
            ("/idempotencyKey", "was used with other data")]) from None  # fmt: skip
    except IntegrityError:
        raise Refused(409, "already-submitted", "the pending order has been submitted", [
            ("/data/pendingOrderId", "has been submitted already")]) from None  # fmt: skip


def reopen(row: Operation, by: By, reason: str) -> None:
    """Run an operation again that has failed or was cancelled."""
    name = by if isinstance(by, str) else by.name
    states.operation.move(
        row, Phase.QUEUED, by=name, why=reason, ended_at=None, error_code=""
    )  # fmt: skip
    mirror.put_temporary(row)
    jobs.retry(row.pk, by=by, reason=reason)


def _unique(spec: Spec, agent: Agent, key: str) -> jobs.Unique | None:
    if spec.family is Family.SYNC:
        return jobs.Unique(f"{spec.type}-{agent.pk}")
    if spec.family is Family.WRITE:
        return jobs.Unique(key, DOUBLE_CLICK, "raise")
    return None


def _insert(
    spec: Spec, body: dict[str, Any], agent: Agent, by: str, entity: str, digest: str,
    unique: jobs.Unique | None, **options: Any,
) -> Accepted:  # fmt: skip
    id = uuid.uuid4()
    before = order.last_open(agent.pk, entity) if spec.family is Family.WRITE else []
    task = payloads.TASKS[spec.type](agent=agent.pk, type=spec.type, digest=digest)
    job = jobs.enqueue(
        task, job_id=id, tenant=agent.tenant, priority=spec.priority,
        exclusive=f"agent:{agent.pk}", unique=unique, after=before, on_parent_failure="run",
        timeout=settings().timeout(spec.type), **options,
    )  # fmt: skip
    if job.deduplicated:
        if unique is not None and unique.key == digest:  # a double click, unless nothing was saved
            row = states.lock(job.id)
            if row is not None and row.phase in states.ENDED:
                reopen(row, by, AGAIN)
                return Accepted(job.id)
        jobs.emit(
            "operations.JOB_DEDUPLICATED",
            jobs.types.Vouched(
                {"jobId": str(job.id), "deduplicationId": unique.key if unique else ""}
            ),
            key=f"job:{job.id}", tenant=agent.tenant,
        )  # fmt: skip
        return Accepted(job.id, True)
    row = Operation.objects.create(
        id=id, agent=agent, tenant=agent.tenant, type=spec.type, entity=entity, data=body,
        digest=digest, asked_by=by, created_at=timezone.now(),
    )  # fmt: skip
    Step.objects.create(operation=row, phase=Phase.QUEUED, by=by)
    events.emit(row, "JOB_QUEUED")
    mirror.put_temporary(row)
    return Accepted(id)


def open_writes(agent: str) -> bool:
    """Return whether a write of the agent waits or runs."""
    types = [one.type for one in OPERATIONS.values() if one.family is Family.WRITE]
    return Operation.objects.filter(
        agent_id=agent, type__in=types, phase__in=states.OPEN
    ).exists()  # fmt: skip
