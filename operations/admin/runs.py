"""Admin of the sync runs: what each has changed, and deletions that wait for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from jobs.admin import Act, Column, components, moment, principal
from operations import verbs
from operations.admin.base import OfAgents, tabs
from operations.models import Outcome, SyncRun
from operations.verbs import VIEW_RUN

RUN_LOOKS = {
    "running": "running", "done": "succeeded", "held": "in_doubt", "allowed": "succeeded",
    "rejected": "cancelled", "replaced": "cancelled", "failed": "failed",
}  # fmt: skip
HELD_SHOWN, HELD_NAMED = 1000, 10
"""Rows that the page of a run shows, and those that the page which asks names."""


def badge(row: SyncRun) -> Any:
    """Return the outcome as a badge."""
    return components.badge(RUN_LOOKS[row.outcome], row.get_outcome_display())


def _not_held(request: HttpRequest, row: SyncRun) -> str:
    if row.outcome == Outcome.HELD:
        return ""
    return _("It is %(phase)s.") % {"phase": row.get_outcome_display()}


def _allow(request: HttpRequest, row: SyncRun, given: dict[str, Any]) -> str:
    count = verbs.allow(row.pk, by=principal(request), **given)
    return _("Rows that were deleted: %(count)s") % {"count": count}


def shown(lines: Sequence[str], total: int, most: int, between: str = "\n") -> str:
    """Return the first of the lines, and how many more there are."""
    more = total - len(lines[:most])
    said = [_("and %(count)s more") % {"count": more}] if more > 0 else []
    return between.join([*lines[:most], *said])


ACTS = (
    Act("allow", gettext_lazy("Delete these rows…"), _allow, _not_held, tone="danger",
        verb="syncrun.allow", consequences=lambda r, run: [
            _("Rows of the mirror that are deleted: %(count)s") % {"count": len(run.held)},
            shown(run.held, len(run.held), HELD_NAMED, ", "),
            _("Rows that have changed since are kept."),
        ]),
    Act("reject", gettext_lazy("Keep these rows…"), forbidden=_not_held, tone="primary",
        verb="syncrun.reject", consequences=lambda r, run: [
            _("The rows stay until a complete run deletes them, or asks again."),
        ]),
)  # fmt: skip


@admin.register(SyncRun)
class SyncRunAdmin(OfAgents):
    """Runs of syncs; those with held deletions wait for a decision."""

    view_permission = VIEW_RUN
    order = ("-started_at", "operation_id")
    tabs = tabs(Outcome, "outcome", [Outcome.HELD, Outcome.FAILED, Outcome.RUNNING, Outcome.DONE])
    nothing = (
        gettext_lazy("There is no sync run"),
        gettext_lazy("Syncs run while agents are active."),
    )
    nouns = ("syncrun",)
    acts = ACTS
    audit_kind = "syncrun"
    is_live = True

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Sync"), lambda row: row.type),
            Column(_("Outcome"), badge),
            Column(_("Agent"), lambda row: row.agent_id),
            Column(_("Rows"), lambda row: row.processed, "jd-num"),
            Column(_("New"), lambda row: row.new, "jd-num"),
            Column(_("Updated"), lambda row: row.updated, "jd-num"),
            Column(pgettext("count", "Deleted"), lambda row: row.deleted, "jd-num"),
            Column(_("Rejected"), lambda row: row.rejected_count, "jd-num"),
            Column(_("Error"), lambda row: row.error_code or "—"),
            Column(_("Started"), moment("started_at"), "jd-quiet"),
        )

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {**super().page_data(request, row), "title": str(row)}

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Any]:
        return [
            *(fact for fact in super().facts(request, row) if fact[0] != _("Agent")),
            (_("Agent"), self.agent_link(row.agent_id)),
            (_("Operation"), self.operation_link(row.pk), True),
        ]

    def parts(self, request: HttpRequest, row: Any) -> Sequence[tuple[Any, str]]:
        rejected = shown(
            [f"{number}: {', '.join(names)}" for number, names in row.rejected],
            row.rejected_count, len(row.rejected),
        )  # fmt: skip
        held = shown(row.held, len(row.held), HELD_SHOWN)
        return [
            (_("Rejected rows, and their invalid columns"), rejected),
            (_("Deletions that are held"), held),
        ]

    def told(self, row: Any) -> Any:
        if row.outcome != Outcome.HELD:
            return ""
        if not row.processed:
            return _(
                "The export had no rows, and it would delete all %(count)s: delete them, keep them,"
                " or wait for a newer complete run, which replaces this question."
            ) % {"count": len(row.held)}
        return _(
            "The export had %(rows)s rows, and it would delete %(count)s: delete them, keep them,"
            " or wait for a newer complete run, which replaces this question."
        ) % {"count": len(row.held), "rows": row.processed}
