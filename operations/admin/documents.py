"""Admin of the documents that were downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.admin import Column, moment
from operations.admin.base import OfAgents
from operations.api.documents import document_response
from operations.models import Document


@admin.register(Document)
class DocumentAdmin(OfAgents):
    """Downloaded documents."""

    order = ("-created_at", "operation_id")
    search = "number"
    search_words = gettext_lazy("A whole number")
    nothing = (
        gettext_lazy("There is no document"),
        gettext_lazy("Agents download delivery notes and invoices."),
    )

    def columns(self, request: HttpRequest) -> Sequence[Column]:
        return (
            Column(_("Number"), lambda row: row.number),
            Column(_("Agent"), lambda row: row.agent_id),
            Column(_("Bytes"), lambda row: row.size),
            Column(_("Created"), moment("created_at"), "jd-quiet"),
        )

    def facts(self, request: HttpRequest, row: Any) -> Sequence[Any]:
        url = reverse(f"{self.admin_site.name}:operations_document_download", args=[row.pk])
        link = format_html('<a href="{}">{}</a>', url, _("Download"))
        return [
            *super().facts(request, row), (_("Document"), link),
            (_("Operation"), self.operation_link(row.pk), True),
        ]  # fmt: skip

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.download)
        name = self.view_name("download")
        return [path("<path:object_id>/download/", view, name=name), *super().get_urls()]

    def download(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Serve the PDF as an attachment."""
        answer: Any = document_response(self.found(request, object_id))
        return answer  # type: ignore[no-any-return]
