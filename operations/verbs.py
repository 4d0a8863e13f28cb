"""Verbs on operations, agents and sync runs, for the admin, the API and the command line."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from pydantic import Field

import jobs
from jobs import flow
from jobs.models import Effect
from jobs.verbs import By, Target, permissions, verb
from operations import checking, mirror, payloads, running, states
from operations.acting import acting
from operations.errors import Refused
from operations.models import MIRROR, Agent, Login, Operation, Outcome, Phase, SyncRun
from operations.services import accept, syncs
from operations.table import SERVICE_ACCOUNT, SYNCS
from operations.writes import EFFECT

ACT_FOR_AGENTS = "operations.act_for_agents"
VIEW_OPERATION = "operations.view_operation"
VIEW_AGENT = "operations.view_agent"
CHANGE_AGENT = "operations.change_agent"
VIEW_RUN = "operations.view_syncrun"
DECIDE_DELETIONS = "operations.decide_deletions"
VIEW_MIRROR = "operations.view_mirror"
PERMISSIONS = {
    VIEW_OPERATION: _("Can see operations"),
    ACT_FOR_AGENTS: _("Can act for agents"),
    VIEW_AGENT: _("Can see agents"),
    CHANGE_AGENT: _("Can create, change and stop agents"),
    VIEW_RUN: _("Can see sync runs"),
    DECIDE_DELETIONS: _("Can decide about held deletions"),
    VIEW_MIRROR: _("Can see the mirror of the ERP"),
}
"""Permissions of the app, in addition to the platform's."""

OPERATION = Target("operation", UUID, "operations", rows=Operation.objects.all, tenant="tenant")
AGENT = Target("agent", str, "agents", rows=Agent.objects.all, tenant="tenant")
RUN = Target("syncrun", UUID, "sync runs", rows=SyncRun.objects.all, tenant="tenant")
Password = Annotated[str, Field(description="the password of the ERP", max_length=200)]
ErpLogin = Annotated[str, Field(description="the login of the ERP", min_length=1, max_length=100)]
TOO_LATE = "too late: the ERP may already have it"


def _operation(id: UUID) -> Operation:
    # An attempt locks its job and then its operation: in the other order, each would wait for the
    # other.
    jobs.Job.objects.select_for_update(no_key=True).filter(pk=id).first()
    found = (
        Operation.objects.select_for_update(of=("self",)).select_related("agent").filter(pk=id)
    ).first()  # fmt: skip
    if found is None:
        raise Refused(404, "not-found", "there is no such operation")
    return found


def _place(id: UUID) -> tuple[str, str]:
    row = Operation.objects.filter(pk=id).first()
    if row is None:
        raise Refused(404, "not-found", "there is no such operation")
    return row.tenant, row.spec.queue


def _wrong_phase(row: Operation) -> Refused:
    return Refused(409, "conflict", f"it is {row.phase}")


# ---- operations


@verb("operation.cancel", on=OPERATION, permission=permissions.CANCEL_JOB)
def cancel(
    operation_id: UUID,
    *,
    by: By,
    reason: str,
    force: Annotated[
        bool, Field(description="kill its process if it does not stop by itself")
    ] = False,
) -> str:
    """Cancel an operation: at once while it waits, at its next check while it runs.

    A write whose call has begun is not cancelled, unless it is forced: the ERP is then asked
    whether it has it.
    """
    tenant, queue = _place(operation_id)
    with acting(cancel, operation_id, tenant=tenant, queue=queue, by=by, reason=reason) as act:
        row = _operation(operation_id)
        if row.phase not in (Phase.QUEUED, Phase.IN_PROGRESS):
            too_late = row.phase in (*states.UNDECIDED, Phase.DB_COMMITTED)
            raise Refused(409, "too-late", TOO_LATE) if too_late else _wrong_phase(row)
        begun = Effect.objects.filter(job_id=row.pk, key=EFFECT).exclude(state="failed").exists()
        if begun and not force:
            raise Refused(409, "too-late", TOO_LATE)
        done = jobs.cancel(row.pk, by=by, reason=act.reason, force=force)
        if done.state == jobs.JobState.CANCELLED and not begun:
            states.operation.move(
                row, Phase.CANCELLED, by=act.name, why=act.reason, ended_at=timezone.now()
            )
            if row.is_write:
                mirror.remove_temporary(row)
        act.note(requested=done.requested)
        return "cancelling" if done.requested else "cancelled"


@verb("operation.retry", on=OPERATION, permission=permissions.RETRY_JOB)
def retry(operation_id: UUID, *, by: By, reason: str) -> None:
    """Run a failed or cancelled operation again; one that the ERP has is only finished."""
    tenant, queue = _place(operation_id)
    with acting(retry, operation_id, tenant=tenant, queue=queue, by=by, reason=reason) as act:
        row = _operation(operation_id)
        if row.phase in states.ENDED:
            try:
                with transaction.atomic():
                    states.operation.move(
                        row, Phase.QUEUED, by=act.name, why=act.reason, ended_at=None, error_code=""
                    )
            except IntegrityError:
                raise Refused(
                    409, "already-submitted", "the pending order has been submitted again"
                ) from None
            mirror.put_temporary(row)
        elif row.phase not in (Phase.ERP_SAVE_DONE, Phase.DB_COMMITTED):
            raise _wrong_phase(row)
        jobs.retry(row.pk, by=by, reason=act.reason)


@verb("operation.resolve", on=OPERATION, permission=permissions.RESOLVE_DOUBT)
def resolve(
    operation_id: UUID,
    how: Annotated[
        Literal["saved", "not_saved", "accept", "recheck"],
        Field(
            description="of a doubt: the ERP has it, under this number, or does not; of a "
            "mismatch: accept the ERP's values, or compare again after a correction"
        ),
    ],
    *,
    by: By,
    reason: str,
    erp_id: Annotated[
        str, Field(description="the number in the ERP, if it has it", max_length=80)
    ] = "",
) -> None:
    """Decide about a doubtful write, or about values of the ERP that differ."""
    tenant, queue = _place(operation_id)
    with acting(resolve, operation_id, tenant=tenant, queue=queue, by=by, reason=reason) as act:
        row = _operation(operation_id)
        if how in ("saved", "not_saved"):
            if row.phase != Phase.IN_DOUBT and not (how == "saved" and row.has_wrong_number):
                raise _wrong_phase(row)
            if how == "not_saved":
                checking.not_saved(row, by, act.reason)
            elif erp_id.strip():
                checking.saved(row, erp_id.strip(), by, act.reason)
            else:
                raise Refused(422, "invalid", "needs the number in the ERP", [
                    ("/erp_id", "must not be empty")])  # fmt: skip
        else:
            if row.phase != Phase.ERP_SAVE_DONE or not row.mismatch:
                raise _wrong_phase(row)
            row.takes_erp_values, row.error_code = how == "accept", ""
            row.mismatch = row.mismatch if row.takes_erp_values else []
            row.save(update_fields=["takes_erp_values", "error_code", "mismatch"])
            jobs.retry(row.pk, by=by, reason=act.reason)
        act.note(how=how)


@verb("operation.stop_type", on=OPERATION, permission=permissions.CANCEL_JOB, new=True)
def stop_type(
    type: Annotated[str, Field(description="such as sync-customers")], *, by: By, reason: str
) -> int:
    """Cancel all operations of a type that can be cancelled, of all agents; return how many."""
    spec = accept.find_type(type)
    with acting(stop_type, None, tenant="", queue=spec.queue, by=by, reason=reason) as act:
        count = _cancel_all(Operation.objects.filter(type=type), by, act.reason)
        act.note(type=type, count=count)
        return count


def _cancel_all(rows: QuerySet[Operation], by: By, reason: str) -> int:
    count = 0
    open_ = rows.filter(phase__in=[Phase.QUEUED, Phase.IN_PROGRESS]).order_by("agent", "pk")
    for id in open_.values_list("pk", flat=True):
        try:
            cancel(id, by=by, reason=reason)
            count += 1
        except Refused as refused:
            if refused.status != 409:
                raise
    return count


# ---- agents


def _agent(key: str) -> Agent:
    found = Agent.objects.select_for_update(no_key=True).filter(pk=key).first()
    if found is None:
        raise Refused(404, "not-found", "there is no such agent")
    return found


def _tenant(key: str) -> str:
    return f"agent:{key}"


@verb("agent.create", on=AGENT, permission=CHANGE_AGENT, group="administrator", new=True)
def create_agent(
    key: Annotated[str, Field(pattern=r"^[a-z0-9-]+$", max_length=60, description="never changes")],
    erp_login: ErpLogin,
    password: Password,
    *,
    by: By,
    reason: str,
) -> Agent:
    """Create an agent; its login is tested by its first operation, or on request."""
    with acting(create_agent, None, tenant=_tenant(key), by=by, reason=reason) as act:
        made = Agent(key=key, tenant=_tenant(key), erp_login=erp_login, password=password)
        try:
            made.full_clean(exclude=["user", "tenant"])
        except ValidationError as error:
            raise Refused(422, "invalid", "the agent is invalid", [
                (f"/{name}", words[0]) for name, words in error.message_dict.items()
            ]) from None  # fmt: skip
        made.save(force_insert=True)
        act.concerns(key)
    return made


@verb("agent.change_login", on=AGENT, permission=CHANGE_AGENT, group="administrator")
def change_login(
    agent_key: str, erp_login: ErpLogin, password: Password, *, by: By, reason: str
) -> None:
    """Change an agent's login; what waited for it continues."""
    with acting(change_login, agent_key, tenant=_tenant(agent_key), by=by, reason=reason):
        agent = _agent(agent_key)
        was_refused = agent.login != Login.GOOD
        agent.erp_login, agent.password, agent.login = erp_login, password, Login.UNTESTED
        agent.save()
        if was_refused:
            flow.resume(
                running.key_scope(agent.pk), by="operations", reason="the login was changed"
            )


@verb("agent.link_user", on=AGENT, permission=CHANGE_AGENT, group="administrator")
def link_user(
    agent_key: str,
    username: Annotated[str, Field(description="who acts for the agent; nobody if empty")],
    *,
    by: By,
    reason: str,
) -> None:
    """Let a user act for an agent, and nobody else, or nobody at all."""
    with acting(link_user, agent_key, tenant=_tenant(agent_key), by=by, reason=reason) as act:
        agent, users = _agent(agent_key), get_user_model()
        try:
            user = users.objects.get_by_natural_key(username) if username else None
        except users.DoesNotExist:
            raise Refused(422, "unknown-user", "there is no such user", [
                ("/username", "is unknown")]) from None  # fmt: skip
        other = Agent.objects.exclude(pk=agent.pk).filter(user=user).first() if user else None
        if other is not None:
            raise Refused(409, "conflict", f"the user acts for {other.pk}")
        act.changed({"user": agent.user_id}, {"user": user and user.pk})
        Agent.objects.filter(pk=agent.pk).update(user=user)


@verb("agent.test_login", on=AGENT, permission=CHANGE_AGENT)
def test_login(agent_key: str, *, by: By, reason: str) -> None:
    """Test an agent's login, as the next job of the agent; no other tries the password before."""
    with acting(test_login, agent_key, tenant=_tenant(agent_key), by=by, reason=reason):
        agent = _agent(agent_key)
        if agent.login == Login.REFUSED:
            flow.resume(running.key_scope(agent.pk), by="operations", reason="the login is tested")
        Agent.objects.filter(pk=agent.pk).update(login=Login.TESTING)
        jobs.enqueue(
            payloads.LoginTask(agent=agent.pk), tenant=agent.tenant, priority=100,
            exclusive=f"agent:{agent.pk}", unique=jobs.Unique("login-test"),
        )  # fmt: skip


@verb("agent.pause", on=AGENT, permission=CHANGE_AGENT)
def pause(agent_key: str, *, by: By, reason: str) -> None:
    """Start no further operation of an agent."""
    with acting(pause, agent_key, tenant=_tenant(agent_key), by=by, reason=reason) as act:
        agent = _agent(agent_key)
        flow.pause(running.key_scope(agent.pk), by=act.name, reason=act.reason)


@verb("agent.resume", on=AGENT, permission=CHANGE_AGENT)
def resume(agent_key: str, *, by: By, reason: str) -> None:
    """Let an agent's operations start again; a refused login must be changed or tested first."""
    with acting(resume, agent_key, tenant=_tenant(agent_key), by=by, reason=reason) as act:
        agent = _agent(agent_key)
        if agent.login == Login.REFUSED:
            raise Refused(409, "login-refused", "the login is refused: change or test it")
        flow.resume(running.key_scope(agent.pk), by=act.name, reason=act.reason)


@verb("agent.activate", on=AGENT, permission=CHANGE_AGENT, group="administrator")
def activate(agent_key: str, active: bool, *, by: By, reason: str) -> None:
    """Accept new operations of an agent, or none any more."""
    with acting(activate, agent_key, tenant=_tenant(agent_key), by=by, reason=reason) as act:
        agent = _agent(agent_key)
        act.changed({"active": agent.is_active}, {"active": active})
        Agent.objects.filter(pk=agent.pk).update(is_active=active)


@verb("agent.stop", on=AGENT, permission=permissions.CANCEL_JOB)
def stop(
    agent_key: str,
    *,
    by: By,
    reason: str,
    type: Annotated[str, Field(description="of one type of operation; all without it")] = "",
) -> int:
    """Cancel all operations of an agent that can be cancelled; return how many."""
    if type:
        accept.find_type(type)
    with acting(stop, agent_key, tenant=_tenant(agent_key), by=by, reason=reason) as act:
        agent = _agent(agent_key)
        rows = Operation.objects.filter(agent=agent)
        count = _cancel_all(rows.filter(type=type) if type else rows, by, act.reason)
        act.note(count=count)
        return count


@verb("agent.sync_now", on=AGENT, permission=permissions.ENQUEUE_JOB)
def sync_now(
    agent_key: str,
    type: Annotated[str, Field(description="such as sync-customers")],
    *,
    by: By,
    reason: str = "asked for",
) -> UUID:
    """Sync a part of an agent's mirror now, or join the sync that is under way."""
    types = [one.type for one in SYNCS if one.is_shared == (agent_key == SERVICE_ACCOUNT)]
    if type not in types:
        raise Refused(422, "unknown-type", f"must be one of {', '.join(types)}", [
            ("/type", "is no sync of this agent")])  # fmt: skip
    with acting(
        sync_now, agent_key, tenant=_tenant(agent_key), queue="erp-sync", by=by, reason=reason
    ) as act:
        if not isinstance(by, str) and by.scope.is_everything and not by.may(ACT_FOR_AGENTS):
            raise Refused(403, "forbidden", f"needs the permission {ACT_FOR_AGENTS}")
        made = syncs.sync_now(_agent(agent_key), type, act.name)
        return made.id


# ---- sync runs


def _held(id: UUID) -> SyncRun:
    found = SyncRun.objects.select_for_update().filter(pk=id).first()
    if found is None:
        raise Refused(404, "not-found", "there is no such sync run")
    if found.outcome != Outcome.HELD:
        raise Refused(409, "conflict", f"it is {found.outcome}")
    return found


def _tenant_of(id: UUID) -> str:
    tenant = SyncRun.objects.filter(pk=id).values_list("tenant", flat=True).first()
    if tenant is None:
        raise Refused(404, "not-found", "there is no such sync run")
    return tenant


@verb("syncrun.allow", on=RUN, permission=DECIDE_DELETIONS)
def allow(run_id: UUID, *, by: By, reason: str) -> int:
    """Delete exactly the rows whose deletion was held; return how many."""
    with acting(
        allow, run_id, tenant=_tenant_of(run_id), queue="erp-sync", by=by, reason=reason
    ) as act:
        run = _held(run_id)
        model = MIRROR[run.type]
        rows = model.objects.filter(
            agent_id=run.agent_id, key__in=run.held, changed_at__lte=run.ended_at
        )
        count = mirror.remove(model, run.agent_id, list(rows.values_list("key", flat=True)))
        run.outcome, run.deleted = Outcome.ALLOWED, run.deleted + count
        run.save(update_fields=["outcome", "deleted"])
        act.note(count=count)
        return count


@verb("syncrun.reject", on=RUN, permission=DECIDE_DELETIONS)
def reject(run_id: UUID, *, by: By, reason: str) -> None:
    """Keep the rows whose deletion was held."""
    with acting(reject, run_id, tenant=_tenant_of(run_id), queue="erp-sync", by=by, reason=reason):
        run = _held(run_id)
        run.outcome = Outcome.REJECTED
        run.save(update_fields=["outcome"])
