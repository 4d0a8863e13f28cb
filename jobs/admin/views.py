"""Saved views: kept, changed and taken away; opening one opens the list of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Reason, site_of
from jobs.admin.base import PlatformAdmin
from jobs.admin.copying import api, cli
from jobs.admin.fields import Words
from jobs.errors import UnknownTarget
from jobs.models import SavedView
from jobs.operate import views
from jobs.operate.permissions import SHARE_VIEW, VIEW_JOB
from jobs.principals import Principal

TAB_LABELS = {
    "all": gettext_lazy("All"),
    "scheduled": gettext_lazy("Scheduled"),
    "waiting": gettext_lazy("Waiting"),
    "running": gettext_lazy("Running"),
    "retrying": gettext_lazy("Retrying"),
    "succeeded": gettext_lazy("Succeeded"),
    "dead": gettext_lazy("Failed"),
    "cancelled": gettext_lazy("Cancelled"),
}


def _asked(name: str, default: str = "") -> Any:
    """Return what begins a field of a new view: what the list of jobs shows."""

    def initial(form: Reason) -> str:
        if form.row is not None:
            return str(getattr(form.row, name))
        return str(form.request.GET.get(name, default))

    return initial


def _tenants(form: Reason) -> dict[str, str] | None:
    own = principal(form.request).scope.tenants
    return None if own is None else {name: name for name in ("", *sorted(own))}


class ViewForm(Reason):
    """The words of a view, and who sees it."""

    reason = None  # type: ignore[assignment]
    words = {
        "name": Words(gettext_lazy("Name"), initial=lambda form: getattr(form.row, "name", None)),
        "query": Words(
            gettext_lazy("Query"), gettext_lazy("Empty finds every job of the tab."),
            initial=_asked("query"), empty="",
        ),
        "tab": Words(gettext_lazy("Tab"), initial=_asked("tab", "all"), choices=TAB_LABELS),
        "shared": Words(
            gettext_lazy("Share with others"),
            initial=lambda form: getattr(form.row, "is_shared", False),
            why_not=lambda form: missing(form.request, SHARE_VIEW),
        ),
        "tenant": Words(
            gettext_lazy("Tenant"),
            gettext_lazy(
                "A shared view is shown to those who see this tenant; empty: to those who see all."
            ),
            choices=_tenants,
        ),
    }  # fmt: skip


def _saved(request: HttpRequest, row: None, made: SavedView) -> tuple[str, str]:
    return _("The view is saved."), address(site_of(request), made)


def _not_yours(request: HttpRequest, row: SavedView) -> str:
    return missing(request, SHARE_VIEW) if row.is_shared else ""


def _gone_for(request: HttpRequest, row: SavedView) -> Sequence[Any]:
    if row.is_shared:
        return [_("It is removed for everybody it is shared with."), _("No job is touched.")]
    return [_("No job is touched.")]


def address(site: str, view: SavedView) -> str:
    """The list of jobs as the view has it."""
    words = {"tab": view.tab} if view.tab != "all" else {}
    if view.query:
        words["q"] = view.query
    return f"{reverse(f'{site}:jobs_job_changelist')}?{urlencode(words)}"


def offered(site: str, who: Principal, query: str, tab: str) -> list[dict[str, Any]]:
    """The views that somebody has beside the query box."""
    return [
        {"view": view, "url": address(site, view), "on": (view.query, view.tab) == (query, tab),
         "shared": view.is_shared}
        for view in views.every(by=who)
    ]  # fmt: skip


@admin.register(SavedView)
class SavedViewAdmin(PlatformAdmin):
    """One's own views, and those that are shared."""

    view_permission = VIEW_JOB
    list_template = "jobs/admin/views.html"
    nouns = ("view",)
    list_acts = (
        Act("save", gettext_lazy("Save view…"), form=ViewForm, show=_saved,
            tone="primary", verb="view.save"),
    )  # fmt: skip
    acts = (
        Act("edit", gettext_lazy("Change…"), None, _not_yours, form=ViewForm,
            submit=gettext_lazy("Save"), verb="view.edit",
            done=gettext_lazy("The view is changed.")),
        Act("remove", gettext_lazy("Remove…"), None, _not_yours, _gone_for,
            tone="danger", verb="view.remove",
            done=gettext_lazy("The view is removed.")),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        who = principal(request)
        return {
            "rows": [
                {"v": v, "url": self.page_url(v.pk), "tab": TAB_LABELS[v.tab],
                 "own": views.is_own(v, who), "buttons": self.buttons(request, v, v.pk)}
                for v in views.every(by=who)
            ],
            "list_buttons": self.list_buttons(request),
            "api": api("view_list"),
            "cli": cli("views", "list"),
        }  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        if not key.isascii() or not key.isdigit() or len(key) > 18:
            return None
        try:
            return views.find(int(key), by=principal(request))
        except UnknownTarget:
            return None

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The list of jobs, as the view has it."""
        return HttpResponseRedirect(address(self.admin_site.name, self.found(request, object_id)))
