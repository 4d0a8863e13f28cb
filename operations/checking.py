"""Jobs beside the operations: the check of a doubtful write, and the test of a login."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

import jobs
from jobs import flow
from operations import endings, payloads, running, states, writes
from operations.errors import ErpUnreachable, LoginRefused
from operations.models import Agent, Login, Operation, Phase

BY = "check"
NOT_SAVED = "not_saved"
"""The error of a write that the ERP turned out not to have."""


def check(ctx: jobs.Context, task: payloads.CheckTask) -> dict[str, Any]:
    """Ask the ERP whether it has a write, and end or finish the operation."""
    row = Operation.objects.select_related("agent").get(pk=UUID(task.operation))
    if row.tenant != ctx.tenant:
        raise jobs.Unrecoverable("operation_mismatch")
    if row.phase == Phase.ERP_SAVE_DONE and not row.awaits_decision:
        _finish_it(ctx, row)
        return {"found": True}
    if row.phase != Phase.IN_DOUBT:
        return {"found": None}
    if row.agent.login in (Login.REFUSED, Login.TESTING):
        raise jobs.Snooze(running.HELD_FOR, "the login is not accepted")
    try:
        with running.session(ctx, row.agent) as erp:
            answer = writes.probe(erp, str(row.pk))
    except ErpUnreachable as error:
        raise jobs.Snooze(endings.EVERY, error.code) from None
    if isinstance(answer, jobs.effects.Unknown):
        return {"found": None}
    with transaction.atomic():
        ctx.fence()
        found = states.lock(row.pk)
        if found is None or found.phase != Phase.IN_DOUBT:
            return {"found": None}  # somebody has decided in between
        row = found
        if isinstance(answer, jobs.effects.Happened):
            saved(row, str(answer.outcome["id"]), BY, "found in the ERP")
        else:
            not_saved(row, BY, "not found in the ERP")
    return {"found": isinstance(answer, jobs.effects.Happened)}


def _finish_it(ctx: jobs.Context, row: Operation) -> None:
    with transaction.atomic(), suppress(jobs.errors.NotAllowed):
        ctx.fence()
        jobs.retry(row.pk, by=BY, reason="the ERP has it")


def saved(row: Operation, erp_id: str, by: Any, reason: str) -> None:
    """Decide that the ERP has a write under this number: its job runs again and finishes it."""
    name = by if isinstance(by, str) else by.name
    if row.phase == Phase.ERP_SAVE_DONE:  # the number was wrong
        row.erp_id, row.mismatch, row.error_code = erp_id, [], ""
        row.save(update_fields=["erp_id", "mismatch", "error_code"])
        jobs.retry(row.pk, by=by, reason=reason)
        return
    states.operation.move(
        row, Phase.ERP_SAVE_DONE, by=name, why=reason, erp_id=erp_id, error_code="", wanted_end=""
    )
    done = jobs.effects.resolve_doubt(
        row.pk, writes.EFFECT, "assume_done", by=by, reason=reason, outcome={"id": erp_id}
    )
    if not done.retried:
        jobs.retry(row.pk, by=by, reason=reason)


def not_saved(row: Operation, by: Any, reason: str) -> None:
    """Decide that the ERP does not have a doubtful write: the operation ends."""
    name = by if isinstance(by, str) else by.name
    code = NOT_SAVED if row.error_code in ("", Phase.IN_DOUBT) else row.error_code
    endings.finish(row, Phase(row.wanted_end or Phase.FAILED), code, by=name, why=reason)
    jobs.effects.resolve_doubt(row.pk, writes.EFFECT, "did_not_happen", by=by, reason=reason)


def test_login(ctx: jobs.Context, task: payloads.LoginTask) -> dict[str, Any]:
    """Log in once, under the agent's key, and say whether the ERP accepts it."""
    agent = Agent.objects.get(pk=task.agent)
    if agent.tenant != ctx.tenant:
        raise jobs.Unrecoverable("operation_mismatch")
    with running.connected(ctx, agent) as erp:
        ctx.checkpoint()
        try:
            erp.login(agent.password)
        except LoginRefused:
            with transaction.atomic():
                ctx.fence()
                running.suspend(agent)
            return {"accepted": False}
    with transaction.atomic():
        ctx.fence()
        Agent.objects.filter(pk=agent.pk).update(login=Login.GOOD, login_tested_at=timezone.now())
        flow.resume(running.key_scope(agent.pk), by="operations", reason="the login was accepted")
    return {"accepted": True}


def end_login_test(ended: jobs.types.Ended) -> None:
    """Say that a login is untested if its test could not be made."""
    Agent.objects.filter(tenant=ended.tenant, login=Login.TESTING).update(login=Login.UNTESTED)
