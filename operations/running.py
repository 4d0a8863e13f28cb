"""What all attempts share: the operation of the job, the session in the ERP, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import transaction
from django.utils import timezone

import jobs
from jobs import flow
from operations import clients, events, order, payloads, states
from operations.config import settings
from operations.errors import (
    ErpError,
    ErpRefused,
    ErpUnreachable,
    ErpUnreadable,
    LoginRefused,
    Refused,
    SessionEnded,
)
from operations.models import Agent, Login, Operation, Phase

HELD_FOR = 5
"""Seconds after which an operation looks again whether the login has been mended."""
PROBE_FOR = 300
"""Seconds of the longest session: nobody else of the agent can be the probe meanwhile."""
WHO = "worker"


def breaker(agent: str) -> Any:
    """Return the circuit breaker between an agent and the ERP."""
    found = settings()
    return jobs.breaker(
        f"erp:{agent}", threshold=found.BREAKER_THRESHOLD, open_for=found.BREAKER_OPEN_FOR,
        counts=(ErpUnreachable,), probe_for=PROBE_FOR,
    )  # fmt: skip


def begin(ctx: jobs.Context, task: payloads.Task) -> Operation:
    """Return the operation of the job, in progress; refuse a job that is not its own."""
    with transaction.atomic():
        ctx.fence()
        row = (
            Operation.objects.select_related("agent").select_for_update(of=("self",))
            .filter(pk=ctx.job_id).first()
        )  # fmt: skip
        if row is None or not _is_own(ctx, task, row):
            raise jobs.Unrecoverable("operation_mismatch")
        _wait_for_login(row.agent)
        if row.phase in (Phase.QUEUED, *states.ENDED):
            order.wait_for_earlier(row)
        if row.phase in states.ENDED:
            path = [Phase.QUEUED, Phase.IN_PROGRESS]
        else:
            path = [Phase.IN_PROGRESS] if row.phase == Phase.QUEUED else []
        if path:
            states.operation.walk(
                row, path, by=WHO, started_at=timezone.now(), ended_at=None, error_code=""
            )  # fmt: skip
    return row


def _is_own(ctx: jobs.Context, task: payloads.Task, row: Operation) -> bool:
    if (row.type, row.agent_id, row.tenant, row.digest, row.spec.kind) != (
        task.type, task.agent, ctx.tenant, task.digest, ctx.kind,
    ):  # fmt: skip
        return False
    try:
        data = payloads.parse(row.type, row.data)
    except Refused:
        return False
    return payloads.digest(row.agent_id, row.type, data) == row.digest


def _wait_for_login(agent: Agent) -> None:
    """Try no password that was refused; the login test runs first."""
    if agent.login in (Login.REFUSED, Login.TESTING):
        raise jobs.Snooze(HELD_FOR, f"the login is {agent.get_login_display()}")


def key_scope(agent: str) -> str:
    """Return the scope of an agent's exclusive key, for pauses."""
    return f"key:agent:{agent}"


@contextmanager
def connected(
    ctx: jobs.Context, agent: Agent, limit: int = 0, seconds: float = 0
) -> Iterator[clients.Client]:
    """Connect to the ERP; a stop of the attempt ends its call as Stopped."""
    with clients.connect(
        agent, seconds or None, limit or clients.ANSWER_LIMIT, ctx.checkpoint
    ) as erp:
        ctx.on_stop(erp.end)
        yield erp


@contextmanager
def session(ctx: jobs.Context, agent: Agent, limit: int = 0, seconds: float = 0) -> Iterator[Any]:
    """Open a new session, while this attempt holds its job; a stop ends the call under way.

    The circuit sees one call: otherwise each login that succeeds would hide the writes that fail
    after it.
    """
    with connected(ctx, agent, limit, seconds) as erp, breaker(agent.pk):
        login(ctx, agent, erp)
        yield erp


def login(ctx: jobs.Context, agent: Agent, erp: clients.Client) -> None:
    """Log in; a refused password is not tried again until a person has changed or tested it."""
    ctx.checkpoint()
    with transaction.atomic():
        ctx.fence()
    try:
        erp.login(agent.password)
    except LoginRefused:
        suspend(agent)
        raise jobs.Snooze(HELD_FOR, "the ERP refuses the login") from None
    if agent.login == Login.UNTESTED:
        Agent.objects.filter(pk=agent.pk, login=Login.UNTESTED).update(
            login=Login.GOOD, login_tested_at=timezone.now()
        )


def suspend(agent: Agent) -> None:
    """Let the agent's operations wait until the login is changed or tested."""
    with transaction.atomic():
        Agent.objects.filter(pk=agent.pk).update(
            login=Login.REFUSED, login_tested_at=timezone.now()
        )
        flow.pause(key_scope(agent.pk), by="operations", reason="the ERP refuses the login")


@contextmanager
def attempt(ctx: jobs.Context, row: Operation) -> Iterator[None]:
    """Translate errors of the ERP into the end of the attempt, and keep the phase in step."""
    try:
        yield
    except jobs.Stopped as stop:
        if ctx.signal.reason == "preempted":
            _put_back(ctx, row, events.PREEMPTED)
        elif ctx.signal.reason == "shutdown":
            _put_back(ctx, row, "released")
        raise stop
    except jobs.effects.CircuitOpen as held:
        _put_back(ctx, row, held.words(held.name))
        raise
    except jobs.Snooze as held:
        _put_back(ctx, row, str(held))
        raise
    except ErpRefused as error:
        _note(ctx, row, error)
        raise jobs.Unrecoverable(error.code) from None
    except (ErpUnreachable, SessionEnded) as error:
        _note(ctx, row, error)
        try:
            breaker(row.agent_id).raise_if_open()
        except jobs.effects.CircuitOpen as held:
            _put_back(ctx, row, held.words(held.name))
            raise
        if not ctx.is_last_attempt:
            _put_back(ctx, row, error.code)
        raise
    except ErpUnreadable as error:
        _note(ctx, row, error)
        if not row.is_write:
            raise jobs.Unrecoverable(error.code) from None
        if not ctx.is_last_attempt:
            _put_back(ctx, row, error.code)
        raise


def _note(ctx: jobs.Context, row: Operation, error: ErpError) -> None:
    """Store what the ERP said, encrypted, and the code that lists show."""
    with suppress(jobs.errors.StaleClaim), transaction.atomic():
        ctx.fence()
        row.error_code, row.error_words = error.code[:60], error.words
        row.save(update_fields=["error_code", "error_words"])


def _put_back(ctx: jobs.Context, row: Operation, why: str) -> None:
    with suppress(jobs.errors.StaleClaim), transaction.atomic():
        ctx.fence()
        phase = Operation.objects.values_list("phase", flat=True).get(pk=row.pk)
        if phase == Phase.IN_PROGRESS:
            states.operation.move(row.pk, Phase.QUEUED, by=WHO, why=why)


def complete(ctx: jobs.Context, row: Operation, result: dict[str, Any]) -> dict[str, Any]:
    """Move the operation to its end; the caller's transaction is fenced."""
    path = (
        [Phase.DB_COMMITTED, Phase.COMPLETED]
        if row.phase == Phase.ERP_SAVE_DONE
        else [Phase.COMPLETED]
    )
    states.operation.walk(row, path, by=WHO, result=result, error_code="", ended_at=timezone.now())
    order.wake_later(row)
    return {"success": True, "data": result}
