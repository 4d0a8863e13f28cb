"""Saved views: kept, changed and taken away; opening one opens the list of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Reason, offer, site_of
from jobs.admin.base import PlatformAdmin
from jobs.admin.copying import api, cli
from jobs.errors import UnknownTarget
from jobs.models import SavedView
from jobs.operate import views
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


class ViewForm(Reason):
    """The words of a view, and who sees it."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=views.NAME_LIMIT)
    query = forms.CharField(
        label=gettext_lazy("Query"), required=False, max_length=views.QUERY_LIMIT,
        help_text=gettext_lazy("Empty finds every job of the tab."),
    )  # fmt: skip
    tab = forms.ChoiceField(label=gettext_lazy("Tab"), choices=list(TAB_LABELS.items()))
    shared = forms.BooleanField(label=gettext_lazy("Share with others"), required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["reason"]
        told = self.request.GET
        self.initial = {"query": told.get("query", ""), "tab": told.get("tab", "all")}
        if self.row is not None:
            self.initial = {"name": self.row.name, "query": self.row.query, "tab": self.row.tab,
                            "shared": self.row.is_shared}  # fmt: skip
        if why_not := missing(self.request, "share_view"):
            self.fields["shared"].disabled = True
            self.fields["shared"].help_text = why_not


class NewViewForm(ViewForm):
    """Where it is shared, with the people of which tenant."""

    tenant = forms.CharField(label=gettext_lazy("Tenant"), required=False, max_length=120)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = principal(self.request).scope.tenants
        words = _(
            "A shared view is shown to those who see this tenant; empty: to those who see all."
        )
        self.fields["tenant"].help_text = words
        if own is not None:
            label = self.fields["tenant"].label
            self.fields["tenant"] = forms.ChoiceField(label=label, required=False)
            offer(self, "tenant").choices = [(name, name) for name in ("", *sorted(own))]


def _save(request: HttpRequest, row: Any, given: dict[str, Any]) -> tuple[str, str]:
    made = views.save(
        given["name"], given["query"], by=principal(request), tab=given["tab"],
        shared=given["shared"], tenant=given["tenant"],
    )  # fmt: skip
    return _("The view is saved."), address(site_of(request), made)


def _edit(request: HttpRequest, row: SavedView, given: dict[str, Any]) -> str:
    views.edit(
        row.pk, by=principal(request), name=given["name"], query=given["query"],
        tab=given["tab"], shared=given["shared"],
    )  # fmt: skip
    return _("The view is changed.")


def _remove(request: HttpRequest, row: SavedView, given: dict[str, Any]) -> str:
    views.remove(row.pk, by=principal(request), reason=given["reason"])
    return _("The view is removed.")


def _not_yours(request: HttpRequest, row: SavedView) -> str:
    return missing(request, "share_view") if row.is_shared else ""


def _gone_for(request: HttpRequest, row: SavedView) -> Sequence[Any]:
    if row.is_shared:
        return [_("Whoever it is shared with loses it, too."), _("No job is touched.")]
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

    view_permission = "view_job"
    list_template = "jobs/admin/views.html"
    list_acts = (
        Act("save", gettext_lazy("Save view…"), "save_view", _save, form=NewViewForm,
            tone="primary", verb="view.save"),
    )  # fmt: skip
    acts = (
        Act("edit", gettext_lazy("Change…"), "save_view", _edit, _not_yours, form=ViewForm,
            submit=gettext_lazy("Save"), verb="view.edit"),
        Act("remove", gettext_lazy("Remove…"), "save_view", _remove, _not_yours, _gone_for,
            tone="danger", verb="view.remove"),
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
