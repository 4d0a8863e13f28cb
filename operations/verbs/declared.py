"""What the verbs act on, and the permissions of the app."""

from __future__ import annotations

from uuid import UUID

from django.utils.translation import gettext_lazy as _

from jobs.verbs import Target
from operations.models import Agent, Operation, SyncRun

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
