"""Bulk operations: looked at first, confirmed with a reason, followed, aborted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import reverse
from django.utils.formats import localize
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from jobs.admin import charts
from jobs.admin.access import missing, principal
from jobs.admin.actions import Act, Reason, confirm, site_of
from jobs.admin.base import PlatformAdmin, as_uuid
from jobs.admin.charts import Part
from jobs.admin.components import duration
from jobs.admin.copying import api, cli
from jobs.admin.fields import Words, field_of
from jobs.admin.jobacts import CancelForm, EditForm
from jobs.admin.jobforms import JobRetryForm
from jobs.admin.refusals import in_words
from jobs.errors import JobsError, UnknownTarget
from jobs.models import Bulk
from jobs.operate import bulk
from jobs.operate.bulk import ACTIONS, Care
from jobs.operate.permissions import RUN_BULK

SURE = 500
"""Above this many jobs their number has to be typed."""
LABELS = {
    "retry": gettext_lazy("Retry jobs"),
    "replay": gettext_lazy("Replay jobs as new"),
    "run_now": gettext_lazy("Run jobs now"),
    "cancel": gettext_lazy("Cancel jobs"),
    "edit": gettext_lazy("Change queue or priority of jobs"),
    "retry_letter": gettext_lazy("Retry dead letters"),
    "replay_letter": gettext_lazy("Replay dead letters"),
    "discard_letter": gettext_lazy("Discard dead letters"),
}


OPTIONS = {
    **EditForm.words,
    **CancelForm.words,
    **JobRetryForm.words,
    "attempts": Words(gettext_lazy("Attempts"), gettext_lazy("Empty means one more.")),
}
"""Words for the options of the actions, which are parameters of their verbs."""


class StartForm(Reason):
    """What to do, how fast, and why."""

    words = {
        "per_minute": Words(
            gettext_lazy("Most jobs per minute"), gettext_lazy("Empty means as fast as possible.")
        )
    }
    sure = forms.IntegerField(label=gettext_lazy("Type the number of jobs to confirm"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.preview = kwargs["request"].jobs_preview
        action = ACTIONS[kwargs["request"].GET["action"]]
        made = {one.name: field_of(one, OPTIONS[one.name], self) for one in action.parameters}
        self.fields = {n: one for n, one in made.items() if one is not None} | self.fields
        if self.preview is None or self.preview.eligible <= SURE:
            del self.fields["sure"]

    def clean_sure(self) -> int:
        number = int(self.cleaned_data["sure"])
        if self.preview is not None and number != self.preview.eligible:
            raise forms.ValidationError(_("The number of jobs has changed; please confirm again."))
        return number


def _options(request: HttpRequest, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the action that were given, but for those that hold anyway."""
    usual = {one.name: one.default for one in ACTIONS[request.GET["action"]].parameters}
    found = {name: given.get(name) for name in usual}
    if found.get("reset"):
        del found["attempts"]  # the whole budget stands for it
    return {name: value for name, value in found.items() if value not in (None, usual[name])}


def _asked(request: HttpRequest) -> dict[str, Any]:
    """The jobs that the page was asked for: by their ids, or by a query."""
    if request.GET.get("all"):
        return {"query": request.GET.get("query", "")}
    on_letters = ACTIONS[request.GET["action"]].on_letters
    given = request.GET.getlist("_selected")[: bulk.IDS_LIMIT]
    if on_letters:
        return {"ids": [int(text) for text in given if text.isascii() and text.isdigit()]}
    return {"ids": [one for text in given if (one := as_uuid(text)) is not None]}


def _why_not(request: HttpRequest, row: Any) -> str:
    seen = getattr(request, "jobs_preview", None)
    if seen is None:
        return str(getattr(request, "jobs_problem", ""))
    return "" if seen.eligible or seen.is_cut else _("None of these jobs can be changed so.")


def _start(request: HttpRequest, row: Any, given: dict[str, Any]) -> tuple[str, str]:
    options = _options(request, given)
    token = request.POST.get("token") or None
    asked = _asked(request)
    made = bulk.start(
        request.GET.get("action", ""),
        **asked,
        by=principal(request),
        reason=given["reason"],
        token=token if not options else bulk.preview(
            request.GET["action"], **asked, by=principal(request), **options).token,
        care=Care(given["per_minute"]),
        **options,
    )  # fmt: skip
    return begun(request, made)


def begun(request: HttpRequest, bulk: Bulk) -> tuple[str, str]:
    """What to say of an operation that was started, and its page."""
    url = reverse(f"{site_of(request)}:jobs_bulk_change", args=[bulk.pk])
    return _("The operation has begun."), url


def _over(request: HttpRequest, row: Bulk) -> str:
    return _("It is over.") if row.is_over else ""


def _abort_means(request: HttpRequest, row: Bulk) -> Sequence[Any]:
    return [_("Nothing more is done."), _("What is done already stays.")]


START = Act("start", gettext_lazy("Bulk operation"), _start, _why_not, form=StartForm,
            tone="primary", template="jobs/admin/bulk_confirm.html", verb="bulk.start")  # fmt: skip


@admin.register(Bulk)
class BulkAdmin(PlatformAdmin):
    """What was done to many jobs at once."""

    list_template = "jobs/admin/bulks.html"
    follows_row = True
    page_template = "jobs/admin/bulk.html"
    nouns = ("bulk",)
    acts = (
        Act("abort", gettext_lazy("Abort…"), None, _over, _abort_means,
            tone="danger", verb="bulk.abort",
            done=gettext_lazy("The operation is aborted.")),
        Act("proceed", gettext_lazy("Carry on…"), None, _over,
            lambda r, b: [_("It continues where it stopped; nothing is done twice.")],
            verb="bulk.proceed", done=gettext_lazy("The operation continues.")),
    )  # fmt: skip
    list_acts = (START,)

    def make_view(self, request: HttpRequest, name: str) -> HttpResponseBase:
        if name != START.name:
            raise Http404
        if missing(request, RUN_BULK):
            return confirm(self, request, START, None, {})
        action = request.GET.get("action", "")
        if action not in ACTIONS:
            raise Http404
        if missing(request, ACTIONS[action].permission):
            raise PermissionDenied
        given: Any = request
        given.jobs_preview, given.jobs_problem = self._preview(request, action)
        seen = given.jobs_preview
        data = {
            "title": str(LABELS[action]),
            "seen": seen,
            "asked": _asked(request),
            "token": request.POST.get("token") or (seen.token if seen else ""),
            "skipped": sum(seen.skipped.values()) if seen else 0,
            "jd_crumbs": self.crumbs(),
            "danger": action in ("cancel", "discard_letter"),
        }
        return confirm(self, request, START, None, data)

    def _preview(self, request: HttpRequest, action: str) -> tuple[Any, str]:
        asked = _asked(request)
        if not asked.get("ids") and "query" not in asked:
            return None, _("No job is selected.")
        options: dict[str, Any] = {"priority": 0} if action == "edit" else {}
        try:
            return bulk.preview(action, **asked, by=principal(request), **options), ""
        except JobsError as error:
            return None, in_words(error)

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        found = bulk.every(by=principal(request), limit=50)
        rows = [{"bulk": b, "url": self.page_url(b.pk), "label": LABELS.get(b.action, b.action),
                 **_bar(b)} for b in found]  # fmt: skip
        return {"title": _("Bulk operations"), "rows": rows, "api": api("bulk_list"),
                "cli": cli("bulk", "list"),
                "jd_regions": {"jd-bulks": "jobs/admin/parts/bulks.html"}}  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        bulk_id = as_uuid(key)
        try:
            return bulk.find(bulk_id, by=principal(request)) if bulk_id else None
        except UnknownTarget:
            return None

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        now = bulk.progress(row, by=principal(request))
        site = self.admin_site.name
        items = [
            {"item": i, "url": reverse(f"{site}:jobs_job_change", args=[i.job_id]),
             "new": reverse(f"{site}:jobs_job_change", args=[i.result]) if i.result else ""}
            for i in bulk.first_items(row, 20)
        ]  # fmt: skip
        return {
            "title": f"{LABELS.get(row.action, row.action)}",
            "bulk": row,
            "final": row.is_over,
            "percent": 100 if row.state == "done" else int(100 * row.decided / row.total) if row.total else 0,  # noqa: E501
            "rate": localize(round(now.rate * 60)),
            "eta": duration(now.eta) if now.eta is not None else "",
            "waiting": now.waiting,
            "held": now.held_told,
            **_bar(row),
            "legend": charts.legend(_parts(row)),
            "items": items,
            "buttons": self.buttons(request, row, row.pk),
            "jd_regions": {"jd-bulk": "jobs/admin/parts/bulk.html"},
        }  # fmt: skip


def _parts(row: Bulk) -> list[Part]:
    return [
        Part(pgettext("count", "done"), row.done, "green"),
        Part(pgettext("count", "skipped"), row.skipped, "grey"),
        Part(pgettext("count", "failed"), row.failed, "red"),
    ]


def _bar(row: Bulk) -> dict[str, Any]:
    states = {"gathering": "filling", "canary": "running", "stopped": "failed"}
    return {"svg": charts.stacked(_parts(row), max(row.total, 1)),
            "state": states.get(row.state, row.state), "label_of_state": row.get_state_display()}  # fmt: skip  # noqa: E501
