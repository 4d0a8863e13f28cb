"""Admin of the agents: what runs, who waits, and what is in the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, Subquery, Value
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs import flow
from jobs.admin import Column, Tab, components, moment
from jobs.models import Breaker
from operations import waits
from operations.admin.agentacts import ACTS, NEW
from operations.admin.base import OfAgents
from operations.models import Agent, Login, Operation, Phase
from operations.services.syncs import standings
from operations.verbs import VIEW_AGENT

SHOWN = 20
"""Operations on the page of an agent."""


def _of(phase: Phase) -> Any:
    return Operation.objects.filter(agent=OuterRef("pk"), phase=phase).order_by()


@admin.register(Agent)
class AgentAdmin(OfAgents):
    """Agents, with what runs, who waits and what is in the way."""

    view_permission = VIEW_AGENT
    order = ("key",)
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
    list_acts = (NEW,)
    audit_kind = "agent"

    def rows(self, request: HttpRequest) -> Any:
        waiting = _of(Phase.QUEUED).values("agent").annotate(n=Count("pk")).values("n")
        return super().rows(request).annotate(
            waits=Coalesce(Subquery(waiting), 0),
            runs=Coalesce(Subquery(_of(Phase.IN_PROGRESS).values("type")[:1]), Value("")),
        )  # fmt: skip

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        pauses = {pause.scope: pause.reason for pause in flow.paused()}
        circuits = dict(
            Breaker.objects.filter(name__startswith="erp:").exclude(state="closed")
            .values_list("name", "state")
        )  # fmt: skip
        return (
            Column(_("Agent"), lambda row: row.pk),
            Column(_("Login"), lambda row: row.get_login_display()),
            Column(_("Runs"), lambda row: row.runs or "—"),
            Column(_("Waiting"), lambda row: row.waits, "jd-num"),
            Column(_("In the way"), lambda row: _in_the_way(row, pauses, circuits)),
            Column(_("Last seen"), moment("last_seen_at"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Any]:
        tested = moment("login_tested_at")(row) if row.login_tested_at else "—"
        return [
            *super().facts(request, row),
            (_("User"), row.user or "—"),
            (_("Login of the ERP"), row.erp_login),
            (_("Client"), row.get_client_display()),
            (_("Tested"), tested),
        ]

    def parts(self, request: HttpRequest, row: Any) -> Sequence[tuple[Any, str]]:
        return [(_("Running and waiting"), _work(row)), (_("Syncs"), _syncs(row))]


def _in_the_way(row: Agent, pauses: dict[str, str], circuits: dict[str, str]) -> Any:
    row._pauses = pauses  # type: ignore[attr-defined]
    found = [] if row.is_active else [(_("inactive"), "")]
    if row.login == Login.REFUSED:
        found.append((_("login refused"), ""))
    elif (reason := pauses.get(f"key:agent:{row.pk}")) is not None:
        found.append((_("paused"), reason))
    if f"erp:{row.pk}" in circuits:
        found.append((_("the ERP does not answer"), ""))
    drawn = ((components.badge("in_doubt", label), words) for label, words in found)
    return format_html_join(" ", "{} {}", drawn) or "—"


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
