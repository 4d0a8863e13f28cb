"""The live board: per agent what runs, who waits and why, and what is in the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Concat
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

import jobs
from jobs import flow
from jobs.admin import charts, components, principal
from jobs.models import Breaker
from jobs.verbs import permissions
from operations.clock import now
from operations.models import Agent, Login, Operation, Outcome, Phase, SyncRun
from operations.services.syncs import standings
from operations.verify import MISMATCH

MOST = 1000
"""Operations that are looked at."""
OPEN = (Phase.QUEUED, Phase.IN_PROGRESS)
TROUBLE, PAUSED, BUSY, IDLE = 3, 2, 1, 0
UNDECIDED = Q(phase=Phase.IN_DOUBT) | Q(phase=Phase.ERP_SAVE_DONE, error_code=MISMATCH)


def ranked(agents: QuerySet[Agent]) -> QuerySet[Any]:
    """Return the agents with their ``trouble``, and with what a person has to decide."""
    undecided = Operation.objects.filter(UNDECIDED, agent=OuterRef("pk")).order_by("created_at")
    held = SyncRun.objects.filter(agent=OuterRef("pk"), outcome=Outcome.HELD).order_by("pk")
    circuits = Breaker.objects.exclude(state="closed").filter(
        name=Concat(Value("erp:"), OuterRef("pk"))
    )
    open_ = Operation.objects.filter(agent=OuterRef("pk"), phase__in=OPEN)
    paused = [pause.scope.removeprefix("key:agent:") for pause in flow.paused()]
    return agents.annotate(
        undecided=Subquery(undecided.values("pk")[:1]),
        held=Subquery(held.values("pk")[:1]),
    ).annotate(
        trouble=Case(
            When(is_active=False, then=Value(IDLE)),
            When(
                Q(login=Login.REFUSED) | Q(undecided__isnull=False) | Q(held__isnull=False)
                | Exists(circuits), then=Value(TROUBLE),
            ),
            When(pk__in=paused, then=Value(PAUSED)),
            When(Exists(open_), then=Value(BUSY)),
            default=Value(IDLE),
        )
    )  # fmt: skip


@dataclass(slots=True)
class Work:
    """What an agent does, and what waits, most urgent first."""

    running: Operation | None = None
    waiting: list[Operation] = field(default_factory=list)


class Board:
    """What the board shows, looked up for all agents together."""

    def __init__(self, request: HttpRequest, agents: Iterable[Agent], site: str) -> None:
        self._site, self._moment = site, now()
        self._may_stop = principal(request).may(permissions.CANCEL_JOB)
        self.pauses = {pause.scope: pause.reason for pause in flow.paused()}
        found = list(agents)
        self._circuits = dict(
            Breaker.objects.filter(name__in=[f"erp:{one.pk}" for one in found])
            .exclude(state="closed").values_list("name", "retry_at")
        )  # fmt: skip
        self._work: dict[str, Work] = {one.pk: Work() for one in found}
        rows = Operation.objects.filter(agent__in=found, phase__in=OPEN).defer("data")
        # What runs comes first, so that it is among those however much waits.
        rows = rows.order_by("phase", "created_at")[:MOST]
        for row in sorted(rows, key=lambda one: -one.spec.priority):
            work = self._work[row.agent_id]
            if row.phase == Phase.IN_PROGRESS:
                work.running = row
            else:
                work.waiting.append(row)
        shown = [one for work in self._work.values() for one in (work.running, *work.waiting[:1])]
        self._jobs: dict[UUID, tuple[Any, datetime]] = {
            id: (progress, run_at)
            for id, progress, run_at in jobs.Job.objects.filter(
                pk__in=[one.pk for one in shown if one is not None]
            ).values_list("pk", "progress", "run_at")
        }
        self._stale: dict[str, tuple[float, str]] = {}
        for one in standings(found):
            if one.staleness is not None:
                known = self._stale.get(one.agent.pk, (0.0, ""))
                self._stale[one.agent.pk] = max(known, (one.staleness, one.type))

    def runs(self, agent: Agent) -> Any:
        """Draw what runs, how far it is, and a way to stop it."""
        row = self._work[agent.pk].running
        if row is None:
            return "—"
        progress: dict[str, Any] = self._jobs[row.pk][0] if row.pk in self._jobs else {}
        drawn = stop = ""
        if progress and progress.get("done"):
            drawn = charts.meter(progress["done"], progress.get("total"))
        if self._may_stop:
            url = reverse(f"{self._site}:operations_operation_act", args=[row.pk, "cancel"])
            stop = format_html(
                '<a class="jd-btn jd-btn-small" href="{}" aria-label="{}">{}</a>', url,
                _("Stop %(operation)s") % {"operation": name(row)}, _("Stop…"),
            )  # fmt: skip
        return format_html("{} {} {}", self._link(row), drawn, stop)

    def waits(self, agent: Agent) -> Any:
        """Draw who waits, and why."""
        waiting = self._work[agent.pk].waiting
        if not waiting:
            return "—"
        more = ""
        if len(waiting) > 1:
            more = _("and %(count)s more") % {"count": len(waiting) - 1}
        first = waiting[0]
        return format_html(
            '{}<span class="jd-quiet"> {} {}</span>',
            self._link(first),
            self._why(agent, first),
            more,
        )

    def _why(self, agent: Agent, row: Operation) -> str:
        running = self._work[agent.pk].running
        run_at = self._jobs[row.pk][1] if row.pk in self._jobs else self._moment
        if agent.login in (Login.REFUSED, Login.TESTING):
            return _("the login is %(login)s") % {"login": agent.get_login_display()}
        if f"key:agent:{agent.pk}" in self.pauses:
            return _("the agent is paused")
        if (retry_at := self._circuits.get(f"erp:{agent.pk}")) is not None:
            return _("the ERP does not answer; it is tried at %(time)s") % {"time": clock(retry_at)}
        if running is not None:
            return _("the agent is busy")
        if run_at > self._moment:
            return _("it begins at %(time)s") % {"time": clock(run_at)}
        return _("its turn has come")

    def in_the_way(self, agent: Any) -> Any:
        """Draw what keeps the agent from working, and what a person has to decide."""
        found: list[tuple[str, str]] = []
        agent._pauses = self.pauses
        if not agent.is_active:
            found.append((_("inactive"), ""))
        if agent.login == Login.REFUSED:
            found.append((_("login refused"), ""))
        elif (reason := self.pauses.get(f"key:agent:{agent.pk}")) is not None:
            found.append((_("paused"), reason))
        if f"erp:{agent.pk}" in self._circuits:
            found.append((_("the ERP does not answer"), ""))
        drawn = [(components.badge("in_doubt", label), words) for label, words in found]
        for page, key, label in (
            ("operation", agent.undecided, _("a write")),
            ("syncrun", agent.held, _("deletions")),
        ):
            if key is not None:
                url = reverse(f"{self._site}:operations_{page}_change", args=[key])
                link = format_html('<a href="{}">{}</a>', url, label)
                drawn.append((components.badge("in_doubt", _("decide")), link))
        return format_html_join(" ", "{} {}", drawn) or "—"

    def staleness(self, agent: Agent) -> str:
        """Return the stalest sync: its age through its target."""
        ratio, type = self._stale.get(agent.pk, (0.0, ""))
        return f"{type} {ratio:.1f}" if type else "—"

    def _link(self, row: Operation) -> Any:
        url = reverse(f"{self._site}:operations_operation_change", args=[row.pk])
        return format_html('<a href="{}">{}</a>', url, name(row))


def name(row: Operation) -> str:
    """Return what an operation is called on the board."""
    return f"{row.type} {row.entity_name}".strip()


def clock(moment: datetime) -> str:
    """Return the time of the day."""
    return f"{timezone.localtime(moment):%H:%M:%S}"
