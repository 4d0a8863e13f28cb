"""What the page of a job shows of its operation."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from jobs.admin import principal, register_panel
from operations.admin.operations import badge
from operations.models import Operation
from operations.permissions import within
from operations.table import OPERATIONS
from operations.verbs import VIEW_OPERATION


def operation_panel(request: HttpRequest, job: Any) -> SafeString | str:
    """Show the operation on the page of its job."""
    rows = within(principal(request), Operation.objects.filter(pk=job.pk).defer("data"))
    row = rows.first()
    if row is None:
        return ""
    site = request.resolver_match.namespace if request.resolver_match else "admin"
    url = reverse(f"{site}:operations_operation_change", args=[row.pk])
    return format_html(
        '{} <a href="{}">{} {}</a> {} {}', badge(row), url, row.type, row.entity_name, row.erp_id,
        row.error_code,
    )  # fmt: skip


for _spec in OPERATIONS.values():
    register_panel(_spec.kind, title=gettext_lazy("Operation"), permission=VIEW_OPERATION)(
        operation_panel
    )
