"""Admin of the operations: what each has gone through, and the decisions about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

import jobs
from jobs.admin import Column, components, moment
from operations import waits
from operations.admin.base import OfAgents, tabs
from operations.admin.operationacts import ACTS, STOP_TYPE, is_mismatch
from operations.models import Document, Operation, Phase

LOOKS = {
    "queued": "pending", "in_progress": "running", "erp_save_done": "running",
    "db_committed": "running", "completed": "succeeded", "in_doubt": "in_doubt",
    "failed": "failed", "cancelled": "cancelled",
}  # fmt: skip


def badge(row: Operation) -> Any:
    """Return the phase as a badge; an operation that waits for a person looks like a doubt."""
    look = "in_doubt" if is_mismatch(row) else LOOKS[row.phase]
    return components.badge(look, row.get_phase_display())


@admin.register(Operation)
class OperationAdmin(OfAgents):
    """Operations, newest first, with the phase of each."""

    order = ("-created_at", "id")
    search = "pk"
    search_words = gettext_lazy("A whole id")
    tabs = tabs(Phase, "phase", [
        Phase.IN_DOUBT, Phase.FAILED, Phase.ERP_SAVE_DONE, Phase.IN_PROGRESS, Phase.QUEUED,
        Phase.COMPLETED, Phase.CANCELLED,
    ])  # fmt: skip
    nothing = (
        gettext_lazy("There is no operation"),
        gettext_lazy("Agents enqueue operations with their front end: POST /operations/enqueue."),
    )
    long = ("data", "mismatch", "error_words")
    nouns = ("operation",)
    acts = ACTS
    list_acts = (STOP_TYPE,)
    audit_kind = "operation"
    is_live = True

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Operation"), lambda row: f"{row.type} {row.entity_name}".strip()),
            Column(_("Phase"), badge),
            Column(_("Agent"), lambda row: row.agent_id),
            Column(_("ERP number"), lambda row: row.erp_id or "—"),
            Column(_("Error"), lambda row: row.error_code or "—"),
            Column(_("Created"), moment("created_at"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Any]:
        site = self.admin_site.name
        job = jobs.Job.objects.filter(pk=row.pk).first()
        link: Any = row.pk
        if job:
            url = reverse(f"{site}:jobs_job_change", args=[row.pk])
            link = format_html('<a class="jd-mono" href="{}">{}</a>', url, row.pk)
        found = [
            *(fact for fact in super().facts(request, row) if fact[0] != _("Agent")),
            (_("Agent"), self.agent_link(row.agent_id)),
            (_("Asked by"), row.asked_by),
            (_("Job, and reference in the ERP"), link, True),
        ]
        if job and row.phase == Phase.QUEUED:
            found.append((_("Why it waits"), waits.why(row), True))
        if job and row.phase == Phase.IN_PROGRESS and (progress := job.progress or {}):
            done = f"{progress.get('done')} / {progress.get('total')} {progress.get('note') or ''}"
            found.append((_("Progress"), done.strip()))
        if Document.objects.filter(pk=row.pk).exists():
            url = reverse(f"{site}:operations_document_download", args=[row.pk])
            found.append((_("Document"), format_html('<a href="{}">{}</a>', url, _("Download"))))
        return found

    def parts(self, request: HttpRequest, row: Any) -> Sequence[tuple[Any, str]]:
        differences = "\n".join(
            f"{one['field']}: {one['sent']} → {one['erp']}" for one in row.mismatch
        )
        found = [(_("Sent, and what the ERP has"), differences)] if differences else []
        found.append((_("Steps"), steps(row)))
        if row.error_words:
            found.append((_("Words of the ERP"), row.error_words))
        return found

    def told(self, row: Any) -> Any:
        if row.phase == Phase.IN_DOUBT:
            return _("The ERP may have it: it is asked, or a person decides.")
        if is_mismatch(row):
            return _("The ERP has other values: a person decides.")
        if row.phase == Phase.ERP_SAVE_DONE and row.error_code:
            return _("The ERP has it; a retry finishes it here.")
        return ""


def steps(row: Operation) -> str:
    """Return what the operation has gone through, line by line."""
    lines = list(row.steps.order_by("id"))
    width = max((len(str(step.get_phase_display())) for step in lines), default=0)
    return "\n".join(
        f"{timezone.localtime(step.at):%Y-%m-%d %H:%M:%S}  "
        f"{step.get_phase_display():<{width}}  {step.by}  {step.why}".rstrip()
        for step in lines
    )
