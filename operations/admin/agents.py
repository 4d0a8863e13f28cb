"""Admin of the agents: what runs, who waits, and what is in the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import Column, Tab, moment
from operations import waits
from operations.admin.agentacts import ACTS, NEW
from operations.admin.base import OfAgents
from operations.admin.board import Board, ranked
from operations.admin.operationacts import STOP_TYPE
from operations.models import Agent, Login, Operation, Phase
from operations.services.syncs import standings
from operations.verbs import VIEW_AGENT

SHOWN = 20
"""Operations on the page of an agent."""


@admin.register(Agent)
class AgentAdmin(OfAgents):
    """Agents as a live board, those in trouble first; each page has work and syncs."""

    view_permission = VIEW_AGENT
    order = ("-trouble", "key")
    listed = ("pause", "resume", "sync-now", "stop")
    search = "key"
    search_words = gettext_lazy("A whole key")
    tabs = (
        Tab("refused", gettext_lazy("login refused"), {"login": Login.REFUSED}),
        Tab("inactive", gettext_lazy("inactive"), {"is_active": False}),
    )
    nothing = (
        gettext_lazy("There is no agent"), gettext_lazy("Create one with the button above."),
    )  # fmt: skip
    long = ("password",)
    nouns = ("agent",)
    acts = ACTS
    list_acts = (NEW, STOP_TYPE)
    audit_kind = "agent"
    is_live = True

    def rows(self, request: HttpRequest) -> Any:
        return ranked(super().rows(request))

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        board = self._board(request)
        return (
            Column(_("Agent"), lambda row: row.pk),
            Column(_("In the way"), lambda row: board().in_the_way(row)),
            Column(_("Runs"), lambda row: board().runs(row)),
            Column(_("Waiting"), lambda row: board().waits(row)),
            Column(_("Stalest"), lambda row: board().staleness(row)),
            Column(_("Login"), lambda row: row.get_login_display()),
        )

    def _board(self, request: HttpRequest) -> Callable[[], Board]:
        """Return the board of all agents that the reader sees, looked up with its first use."""
        return cache(
            lambda: Board(request, super(AgentAdmin, self).rows(request), self.admin_site.name)
        )

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Any]:
        tested = moment("login_tested_at")(row) if row.login_tested_at else "—"
        return [
            *super().facts(request, row),
            (_("User"), row.user or "—"),
            (_("Login of the ERP"), row.erp_login),
            (_("Client"), row.get_client_display()),
            (_("Tested"), tested),
            (_("Last seen"), moment("last_seen_at")(row) if row.last_seen_at else "—"),
        ]

    def parts(self, request: HttpRequest, row: Any) -> Sequence[tuple[Any, str]]:
        return [(_("Running and waiting"), _work(row)), (_("Syncs"), _syncs(row))]


def _work(row: Agent) -> str:
    """Return what runs and waits, in the order in which it comes, and why it waits."""
    rows = Operation.objects.filter(agent=row, phase__in=[Phase.IN_PROGRESS, Phase.QUEUED])
    found = sorted(
        rows.defer("data").order_by("created_at")[:500],
        key=lambda one: (one.phase == Phase.QUEUED, -one.spec.priority),
    )
    lines = []
    for one in found[:SHOWN]:
        why = f"  {waits.why(one).splitlines()[0]}" if one.phase == Phase.QUEUED else ""
        lines.append(f"{one.get_phase_display()}  {one.type} {one.entity_name}".rstrip() + why)
    if len(found) > SHOWN:
        lines.append(_("and %(count)s more") % {"count": len(found) - SHOWN})
    return "\n".join(lines) or "—"


def _syncs(row: Agent) -> str:
    """Return how each sync of the agent stands."""
    lines = []
    for one in standings([row]):
        done = one.state.succeeded_at if one.state else None
        when = f"{timezone.localtime(done):%Y-%m-%d %H:%M}" if done else _("never")
        how = "—" if one.staleness is None else f"{one.staleness:.1f}"
        line = f"{one.type:<18}  {when:<16}  {_('staleness')} {how}"
        if one.state and one.state.failures:
            line += "  " + _("failures: %(count)s") % {"count": one.state.failures}
        if one.is_paused and one.state and one.state.paused_until:
            until = f"{timezone.localtime(one.state.paused_until):%H:%M}"
            line += "  " + _("paused until %(time)s") % {"time": until}
        lines.append(line)
    return "\n".join(lines)
