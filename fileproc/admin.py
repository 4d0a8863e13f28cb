"""The admin: uploads, documents with their stages, dead letters among them, and quotas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

import jobs
from fileproc import numbers, verbs
from fileproc.errors import message
from fileproc.models import Batch, BatchStatus, File, FileStatus, Quota, StageRun
from fileproc.permissions import QUEUES
from fileproc.services import quotas
from fileproc.states import PROCESSING
from fileproc.verbs import VIEW_BATCH, VIEW_FILE
from jobs.admin import (
    Act,
    Column,
    PlainAdmin,
    Tab,
    charts,
    components,
    moment,
    principal,
    register_panel,
)

LOOKS = {
    FileStatus.REGISTERED: "blocked", FileStatus.UPLOADED: "pending", FileStatus.QUEUED: "pending",
    FileStatus.EXTRACTING: "running", FileStatus.CHUNKING: "running",
    FileStatus.EMBEDDING: "running", FileStatus.READY: "succeeded", FileStatus.FAILED: "failed",
}  # fmt: skip
BATCH_LOOKS = {
    BatchStatus.PENDING_UPLOAD: "pending", BatchStatus.ACTIVE: "running",
    BatchStatus.COMPLETED: "succeeded", BatchStatus.CANCELLED: "cancelled",
    BatchStatus.EXPIRED: "expired",
}  # fmt: skip


class OwnedAdmin(PlainAdmin):
    """A page that shows the rows of the owners whom the user may see."""

    is_of_platform = False
    needs = VIEW_FILE

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        who = principal(request)
        return who.may(self.needs) and all(who.scope.covers(queue=queue) for queue in QUEUES)

    def rows(self, request: HttpRequest) -> Any:
        rows, scope = super().rows(request), principal(request).scope
        return rows if scope.tenants is None else rows.filter(owner__in=scope.tenants)


@admin.register(Batch)
class BatchAdmin(OwnedAdmin):
    """Uploads, with how far they are."""

    needs = VIEW_BATCH
    list_template = "fileproc/uploads.html"
    order = ("-created_at", "-id")
    search = "owner"
    search_words = gettext_lazy("A whole owner, such as user:1")
    tabs = tuple(Tab(one.value, one.label, {"status": one}) for one in BatchStatus)
    nothing = (
        gettext_lazy("There is no upload yet"),
        gettext_lazy("Uploads appear here as soon as somebody begins one."),
    )
    nouns = ("upload",)
    audit_kind = "upload"

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        # The template calls it; the fragment that a live page asks for every few seconds does not.
        return {
            **super().list_data(request),
            "numbers": lambda: _numbers(principal(request).scope.tenants),
        }

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Upload"), lambda b: str(b.pk)[:8]),
            Column(_("Owner"), lambda b: b.owner),
            Column(_("Documents"), _progress),
            Column(_("Created"), moment("created_at"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Batch) -> Sequence[tuple[Any, Any]]:
        documents = f"{reverse('admin:fileproc_file_changelist')}?q={row.pk}"
        counts = [(one.label, getattr(row, one.value)) for one in FileStatus]
        return [
            (_("Owner"), row.owner), (_("Documents"), _progress(row)),
            *((label, n) for label, n in counts if n), (_("Revision"), row.revision),
            (_("Text of pictures"), _("recognised") if row.with_ocr else _("not recognised")),
            (_("Created"), components.time_tag(row.created_at)),
            (_("Expires"), components.time_tag(row.expires_at)),
            (_("All of them"), format_html('<a href="{}">{}</a>', documents, _("Documents"))),
        ]  # fmt: skip

    def look(self, row: Batch) -> str:
        return BATCH_LOOKS[BatchStatus(row.status)]


def _progress(row: Batch) -> SafeString:
    """Draw how many documents are ready, failed and under way."""
    words = _("%(ready)s ready, %(failed)s failed of %(all)s") % {
        "ready": row.ready, "failed": row.failed, "all": row.file_count,
    }  # fmt: skip
    parts = [
        charts.Part(pgettext("count", "ready"), row.ready, "green"),
        charts.Part(pgettext("count", "failed"), row.failed, "red"),
        charts.Part(_("processing"), sum(getattr(row, one.value) for one in PROCESSING), "blue"),
    ]  # fmt: skip
    bar = charts.stacked(parts, max(row.file_count, 1), words)
    return format_html("{} <span>{}</span>", bar, words)


def _numbers(owners: Collection[str] | None) -> SafeString:
    """Draw the numbers of the last day."""
    day = numbers.of_day(owners)
    share = f"{100 * day.mended / day.retried:.0f} %" if day.retried else "—"
    failed = ngettext("%(n)s failed", "%(n)s failed", day.failed) % {"n": day.failed}
    return components.tiles([
        components.tile(components.number(day.ready), _("Ready in 24 hours"), note=failed),
        components.tile(components.duration(day.p95) if day.p95 is not None else "—",
                        _("95 % of them were ready in")),
        components.tile(components.number(day.stalls), _("Attempts whose worker was lost")),
        components.tile(share, _("Stages that the first retry finished")),
    ])  # fmt: skip


CHUNKS = 50
"""Up to this many chunks are shown below the text."""


def _shown(request: HttpRequest, row: File, given: dict[str, Any]) -> HttpResponse:
    text = verbs.show(row.pk, by=principal(request), reason=given["reason"])
    page = admin.site._registry[File]
    data = {
        **page.admin_site.each_context(request), "opts": page.opts, "media": page.media,
        "jd_site": page.admin_site.name, "is_fullwidth": True, "title": row.name, "text": text,
        "chunks": row.content.chunks.order_by("number")[:CHUNKS] if row.content else (),
        "back": reverse("admin:fileproc_file_change", args=[row.pk]),
    }  # fmt: skip
    answer = TemplateResponse(request, "fileproc/text.html", data)
    answer["Cache-Control"] = "no-store"
    return answer


@admin.register(File)
class FileAdmin(OwnedAdmin):
    """Documents, with their stages and why they failed."""

    order = ("-created_at", "-id")
    search = "batch_id"
    search_words = gettext_lazy("The id of an upload")
    tabs = tuple(Tab(one.value, one.label, {"status": one}) for one in FileStatus)
    nothing = (
        gettext_lazy("There is no document"),
        gettext_lazy("Documents appear here as soon as somebody uploads them."),
    )
    nouns = ("document",)
    acts = (
        Act("retry", gettext_lazy("Retry…"),
            lambda r, f, g: _do(verbs.retry, r, f, g, _("The document is retried.")),
            lambda r, f: "" if f.status == FileStatus.FAILED else _("It has not failed."),
            tone="primary", verb="document.retry"),
        Act("reprocess", gettext_lazy("Reprocess…"),
            lambda r, f, g: _do(verbs.reprocess, r, f, g, _("The document is processed again.")),
            lambda r, f: "" if f.status == FileStatus.READY else _("It is not ready."),
            lambda r, f: [_("Searches find its present text until the new one is there.")],
            verb="document.reprocess"),
        Act("show", gettext_lazy("Show text…"), _shown,
            lambda r, f: "" if f.content_id else _("It has no text yet."),
            lambda r, f: [_("The beginning of the text and its chunks are shown once.")],
            verb="document.show"),
        Act("delete", gettext_lazy("Delete…"),
            lambda r, f, g: (
                _do(verbs.delete, r, f, g, _("The document is deleted.")),
                reverse("admin:fileproc_file_changelist"),
            ),
            consequences=lambda r, f: [_("Its content, text and vectors are removed.")],
            tone="danger", verb="document.delete"),
    )  # fmt: skip
    audit_kind = "document"

    def rows(self, request: HttpRequest) -> Any:
        return super().rows(request).filter(deleted_at__isnull=True, is_draft=False)

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Document"), lambda f: f.name),
            Column(_("Owner"), lambda f: f.owner),
            Column(_("Error"), lambda f: f.error_code, "jd-mono"),
            Column(_("Size"), lambda f: filesizeformat(f.size), "jd-num"),
            Column(_("Created"), moment("created_at"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: File) -> Sequence[tuple[Any, Any]]:
        upload = reverse("admin:fileproc_batch_change", args=[row.batch_id])
        error = f"{row.error_code}: {message(row.error_code)}" if row.error_code else "—"
        draft = row.draft()
        return [
            (_("Owner"), row.owner), (_("Folder"), row.path or "—"),
            (_("Size"), filesizeformat(row.size)), (_("Type"), row.type or "—"),
            (_("Chunks"), row.chunk_count), (_("Error"), error),
            (_("Generation"), row.generation),
            *([(_("Next generation"), _next_generation(draft))] if draft is not None else []),
            (_("Isolation"), row.isolation or "—"),
            (_("Warnings"), "; ".join(row.warnings) or "—"),
            (_("Upload"), format_html('<a href="{}">{}</a>', upload, row.batch_id)),
            (_("Created"), components.time_tag(row.created_at)), (_("Stages"), _stages(row)),
        ]  # fmt: skip

    def look(self, row: File) -> str:
        return LOOKS[FileStatus(row.status)]


def _do(function: Any, request: HttpRequest, row: File, given: dict[str, Any], done: str) -> str:
    function(row.pk, by=principal(request), reason=given["reason"])
    return done


def _stages(row: File) -> SafeString:
    return format_html_join(
        SafeString("<br>"), '<a href="{}">{}</a> {} {} ({})',
        ((reverse("admin:jobs_job_change", args=[run.job_id]), run.stage, run.outcome or "…",
          run.error_code, run.attempts) for run in row.all_runs()),
    )  # fmt: skip


def _next_generation(draft: File) -> str:
    return f"{FileStatus(draft.status).label} {draft.error_code}".rstrip()


@admin.register(Quota)
class QuotaAdmin(OwnedAdmin):
    """How much each owner stores, and may store."""

    needs = VIEW_FILE
    order = ("owner",)
    search = "owner"
    search_words = gettext_lazy("A whole owner, such as user:1")
    nothing = (
        gettext_lazy("There is no quota yet"),
        gettext_lazy("An owner has one as soon as he uploads something."),
    )
    nouns = ("quota",)
    audit_kind = "quota"

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Owner"), lambda q: q.owner),
            Column(_("Used"), lambda q: filesizeformat(q.used), "jd-num"),
            Column(_("Bytes"), lambda q: _limit(q.bytes_limit), "jd-num"),
            Column(_("Open uploads"), lambda q: _limit(q.batches_limit), "jd-num"),
        )

    def rows(self, request: HttpRequest) -> Any:
        return quotas.with_used(super().rows(request))

    def facts(self, request: HttpRequest, row: Quota) -> Sequence[tuple[Any, Any]]:
        used = quotas.usage(row.owner)
        return [
            (_("Bytes"), _limit(row.bytes_limit)),
            (_("Used"), filesizeformat(used.bytes_used)),
            (_("Open uploads"), _limit(row.batches_limit)),
            (_("Open now"), used.open_batches),
        ]

    def look(self, row: Quota) -> str:
        return "active"


def _limit(value: int | None) -> Any:
    return _("default") if value is None else value


@register_panel("fileproc.*", title=gettext_lazy("Document"), permission=VIEW_FILE)
def document(request: HttpRequest, job: jobs.Job) -> str:
    """Show the document on the page of its job."""
    run = StageRun.objects.select_related("file").filter(job_id=job.pk).first()
    who = principal(request)
    if run is None or run.file.deleted_at or not who.scope.covers(run.file.owner):
        return ""
    url = reverse("admin:fileproc_file_change", args=[run.file.shown_id])
    label = FileStatus(run.file.status).label
    return format_html('<a href="{}">{}</a> {}', url, run.file.name, label)
