"""Panels on the pages of jobs."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from jobs.admin import charts, components, principal, register_panel
from trading.admin.base import badge, sentence
from trading.models import ImportRun, ScoreRun
from trading.permissions import VIEW, users_of


def _run(request: HttpRequest, model: Any, job: Any) -> Any:
    users = users_of(principal(request))
    rows = model.objects.filter(pk=job.pk)
    return (rows if users is None else rows.filter(user_id__in=users)).first()


def _panel(request: HttpRequest, facts: list[tuple[Any, Any]]) -> SafeString:
    return render_to_string("trading/admin/facts.html", {"facts": facts}, request)


@register_panel("import.trades", title=gettext_lazy("Import"), permission=VIEW["importrun"])
def import_panel(request: HttpRequest, job: Any) -> SafeString | None:
    """Render how far the job's import is."""
    row = _run(request, ImportRun, job)
    if row is None:
        return None
    return _panel(request, [
        (_("State"), badge(row.state, row.get_state_display())),
        (_("Progress"), charts.meter(row.percent, 100)),
        (_("Fetched"), components.number(row.fetched)), (_("New"), components.number(row.stored)),
        (_("Conflicts"), components.number(row.conflicts)),
        *([(_("Error"), sentence(row.error))] if row.error else []),
    ])  # fmt: skip


@register_panel("score.bias", title=gettext_lazy("Labels"), permission=VIEW["trade"])
def score_panel(request: HttpRequest, job: Any) -> SafeString | None:
    """Render how far the job's scoring is."""
    row = _run(request, ScoreRun, job)
    if row is None:
        return None
    return _panel(request, [
        (_("State"), badge(row.state, row.get_state_display())),
        (_("Labelled"), components.number(row.scored)),
        (pgettext("count", "Changed"), components.number(row.changed)),
        *([(_("Error"), sentence(row.error))] if row.error else []),
    ])  # fmt: skip
