"""Verbs on agents."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from pydantic import Field

import jobs
from jobs import flow
from jobs.verbs import By, permissions, verb
from operations import payloads, running
from operations.acting import acting
from operations.errors import Refused
from operations.models import Agent, Login, Operation
from operations.services import accept, syncs
from operations.table import SERVICE_ACCOUNT, SYNCS
from operations.verbs.declared import ACT_FOR_AGENTS, AGENT, CHANGE_AGENT
from operations.verbs.operations import cancel_all

Password = Annotated[str, Field(description="the password of the ERP", max_length=200)]
Client = Annotated[
    Literal["http", "browser"],
    Field(description="how the ERP is reached: JSON over HTTP, or its pages in a browser"),
]
ErpLogin = Annotated[str, Field(description="the login of the ERP", min_length=1, max_length=100)]


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
    client: Client = "http",
) -> Agent:
    """Create an agent; its login is tested by its first operation, or on request."""
    with acting(create_agent, None, tenant=_tenant(key), by=by, reason=reason) as act:
        made = Agent(
            key=key, tenant=_tenant(key), erp_login=erp_login, password=password, client=client
        )  # fmt: skip
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


@verb("agent.choose_client", on=AGENT, permission=CHANGE_AGENT, group="administrator")
def choose_client(agent_key: str, client: Client, *, by: By, reason: str) -> None:
    """Reach the ERP in another way for an agent, from its next attempt on."""
    with acting(choose_client, agent_key, tenant=_tenant(agent_key), by=by, reason=reason) as act:
        agent = _agent(agent_key)
        act.changed({"client": agent.client}, {"client": client})
        Agent.objects.filter(pk=agent.pk).update(client=client)


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
        count = cancel_all(rows.filter(type=type) if type else rows, by, act.reason)
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
