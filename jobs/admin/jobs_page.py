"""Jobs in the admin: their list and the page of one."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from jobs.admin import joblist, jobpage
from jobs.admin.access import missing, principal
from jobs.admin.base import PlatformAdmin, as_uuid
from jobs.admin.exports import EXPORT
from jobs.admin.jobacts import ACTS
from jobs.models import Job
from jobs.operate import search
from jobs.operate.permissions import SAVE_VIEW


@admin.register(Job)
class JobAdmin(PlatformAdmin):
    """Every job; a host may subclass it and add ``extra_panels``."""

    list_template = "jobs/admin/jobs.html"
    page_template = "jobs/admin/job.html"
    follows_row = True
    nouns = ("job",)
    acts = ACTS
    list_acts = (EXPORT,)

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        def buttons(job: Any) -> Any:
            return self.buttons(request, job, job.pk)

        data = joblist.build(request, self.page_url, buttons)
        export = self.act_url(EXPORT) + "?" + urlencode({"query": data["query"]})
        site = self.admin_site.name
        return {
            **data,
            "export_url": export,
            "save_url": reverse(f"{site}:jobs_savedview_make", args=["save"])
            + "?"
            + urlencode({"query": data["asked"], "tab": data["tab"]}),
            "no_save": missing(request, SAVE_VIEW),
            "views_url": reverse(f"{site}:jobs_savedview_changelist"),
            "bulk_url": reverse(f"{self.admin_site.name}:jobs_bulk_make", args=["start"]),
        }

    def find(self, request: HttpRequest, key: str) -> Any:
        job_id = as_uuid(key)
        return None if job_id is None else search.one(job_id, by=principal(request))

    def page_data(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {
            **jobpage.build(request, self.admin_site.name, row),
            "title": row.kind,
            "buttons": self.buttons(request, row, row.pk),
            "jd_regions": {"jd-job": "jobs/admin/parts/job.html"},
        }
