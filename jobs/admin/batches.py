"""Batches: how far they are, what failed in them, and what can still be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from jobs.admin import bulks, charts, tables
from jobs.admin.access import missing, principal, visible
from jobs.admin.actions import Act, NoteForm
from jobs.admin.base import PlatformAdmin, as_uuid
from jobs.admin.charts import Part
from jobs.admin.components import duration, number
from jobs.admin.copying import api, cli
from jobs.admin.recent import recent_acts
from jobs.admin.words import look
from jobs.engine import sql
from jobs.models import Batch, Bulk, Job
from jobs.operate import batchacts, batches
from jobs.operate.permissions import VIEW_PAYLOAD
from jobs.operate.shown import public_data

FAILED_SHOWN = 10


def bar(batch: Batch, *, is_counted: bool = True) -> dict[str, Any]:
    """Return the stacked bar of a batch, from its own counters, and its numbers in words.

    While it is filled nobody knows how many there will be, and no bar can show a share of them.
    Users who may see only some of its jobs get no numbers.
    """
    if not is_counted:
        words = _("not counted: some of its jobs may be in queues that you cannot see")
        return {"svg": "", "words": words, "done": 0, "parts": [], "failed": None}
    parts = [
        Part(pgettext("count", "succeeded"), batch.succeeded, "green"),
        Part(pgettext("count", "failed"), batch.failed, "red"),
        Part(pgettext("count", "cancelled"), batch.cancelled, "grey"),
        Part(pgettext("count", "expired"), batch.expired, "amber"),
    ]
    done = sum(int(part.value) for part in parts)
    if batch.total is None:
        words = _("%(n)s ended so far, still being filled") % {"n": number(done)}
        svg = charts.indefinite(words)
    else:
        words = _("%(n)s of %(m)s") % {"n": number(done), "m": number(batch.total)}
        svg = charts.stacked(parts, max(batch.total, 1), words)
    return {
        "svg": svg,
        "words": words,
        "done": done,
        "parts": parts,
        "failed": batch.failed,
    }


def _no_failed(request: HttpRequest, batch: Batch) -> str:
    return "" if batch.failed else _("None of its jobs has failed.")


def _nothing_left(request: HttpRequest, batch: Batch) -> str:
    return _("All of its jobs have ended.") if batch.state == "done" else ""


def _retried(request: HttpRequest, batch: Batch, found: int | Bulk) -> Any:
    if not isinstance(found, int):
        return bulks.begun(request, found)
    return _("%(n)s jobs wait for another attempt.") % {"n": number(found)}


def _cancelled(request: HttpRequest, batch: Batch, found: int | Bulk) -> Any:
    if not isinstance(found, int):
        return bulks.begun(request, found)
    return _("%(n)s jobs were cancelled or asked to stop.") % {"n": number(found)}


def _retry_means(request: HttpRequest, batch: Batch) -> Sequence[Any]:
    found = [_("%(n)s failed jobs get another attempt.") % {"n": number(batch.failed)},
             _("Those that run on already, by a replay or under the same key, are left alone.")]  # fmt: skip  # noqa: E501
    if batch.state == "done":
        found.append(_("The batch is under way again, and its callbacks come once more."))
    return [*found, *_in_bulk(batch.failed)]


def _cancel_means(request: HttpRequest, batch: Batch) -> Sequence[Any]:
    ended = batch.succeeded + batch.failed + batch.cancelled + batch.expired
    return [_("Its waiting jobs will never run."), _("Its running jobs are asked to stop."),
            *_in_bulk((batch.total or 0) - ended)]  # fmt: skip


def _in_bulk(count: int) -> Sequence[Any]:
    is_large = count > batchacts.FEW
    return [_("A bulk operation does it, which can be followed and aborted.")] if is_large else []


@admin.register(Batch)
class BatchAdmin(PlatformAdmin):
    """Jobs that belong together."""

    list_template = "jobs/admin/batches.html"
    follows_row = True
    page_template = "jobs/admin/batch.html"
    nouns = ("batch",)
    acts = (
        Act("retry", gettext_lazy("Retry failed…"), None, _no_failed, _retry_means,
            show=_retried, tone="primary", verb="batch.retry_failed"),
        Act("cancel", gettext_lazy("Cancel the rest…"), None, _nothing_left,
            _cancel_means, show=_cancelled, tone="danger", verb="batch.cancel_rest"),
        Act("note", gettext_lazy("Note…"),
            form=NoteForm, done=gettext_lazy("The note is shown next to it."),
            submit=gettext_lazy("Save"), verb="batch.note"),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        rows = Batch.objects.using(sql.alias()).defer("callbacks", "called")
        found = tables.page(request, visible(request, rows, queue=None), "-created_at", "-id")
        counted = principal(request).scope.queues is None
        listed = [
            {"batch": b, "url": self.page_url(b.pk), "state": _state(b),
             **bar(b, is_counted=counted)}
            for b in found["rows"]
        ]  # fmt: skip
        return {
            **found,
            "rows": listed,
            "api": api("batch_list"),
            "cli": cli("batches", "list"),
            "jd_regions": {"jd-batches": "jobs/admin/parts/batches.html"},
        }

    def find(self, request: HttpRequest, key: str) -> Any:
        rows = visible(request, Batch.objects.using(sql.alias()).all(), queue=None)
        return rows.filter(pk=as_uuid(key)).first()

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        site = self.admin_site.name
        return {
            **page_data(request, site, row),
            "buttons": self.buttons(request, row, row.pk),
            "jd_regions": {"jd-batch": "jobs/admin/parts/batch.html"},
            "acts": recent_acts(request, site, target_kind="batch", target_id=str(row.pk)),
        }


def _state(batch: Batch) -> str:
    return "filling" if batch.state == "open" else str(batch.state)


def page_data(request: HttpRequest, site: str, batch: Batch) -> dict[str, Any]:
    """How far the batch is; what failed, by cause and one by one."""
    counted = batches.lies_within(batch.pk, principal(request).scope)
    now = batches.progress(batch.pk) if counted else None
    shown = bar(batch, is_counted=counted)
    percent = int(100 * shown["done"] / batch.total) if batch.total else 0
    failed = visible(
        request,
        Job.objects.using(sql.alias()).filter(batch_id=batch.pk, state="failed")
        .only("id", "kind", "error", "reason", "finished_at"),
    )  # fmt: skip
    jobs = f"{reverse(f'{site}:jobs_job_changelist')}?q=batch%3A{batch.pk}"
    callbacks = {
        name: {"kind": data.get("kind", ""), "called": (batch.called or {}).get(name)}
        for name, data in (public_data(batch.callbacks) or {}).items()
        if isinstance(data, dict)
    }
    return {
        "title": str(batch),
        "batch": batch,
        "state": _state(batch),
        "final": batch.state == "done",
        "percent": 100 if batch.state == "done" else percent,
        "say": f"{percent // 10 * 10}%" if counted else "",
        "bar": shown,
        "counted": counted,
        "legend": charts.legend(_legend(shown, batch.total or now.total)) if now else "",
        "so_far": now.total if now and batch.total is None else None,
        "rate": _rough(now.rate * 60) if now else 0,
        "eta": duration(_rough(now.eta)) if now and now.eta is not None else "",
        "took": duration((batch.finished_at - batch.created_at).total_seconds())
        if batch.finished_at else "",
        "causes": list(now.causes.items()) if now else [],
        "failed": [
            {"job": j, "url": reverse(f"{site}:jobs_job_change", args=[j.pk])}
            for j in failed.order_by("-finished_at")[:FAILED_SHOWN]
        ],
        "jobs_url": jobs,
        "callbacks": callbacks,
        "no_payload": missing(request, VIEW_PAYLOAD),
        "look": look(_state(batch)),
        "api": api("batch_get", batch.pk),
        "cli": cli("batches", "show", batch.pk),
    }  # fmt: skip


def _legend(shown: dict[str, Any], total: int) -> list[Part]:
    """What there is, and always how much went well and how much did not."""
    found = [part for part in shown["parts"] if part.value or part.tone in ("green", "red")]
    left = total - shown["done"]
    return [*found, Part(_("not ended"), left, "track")] if left > 0 else found


def _rough(number: float) -> int:
    """Two digits of it: more would change with every look."""
    digits = max(len(str(int(number))) - 2, 0)
    size = int(10**digits)
    return round(number / size) * size
