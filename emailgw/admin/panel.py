"""The panel with the email on the page of its job."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from emailgw.admin.base import status_badge, within
from emailgw.config import EMAIL_JOB_CONFIG
from emailgw.models import OutboxEmail
from emailgw.verbs import VIEW_EMAIL
from jobs.admin import register_panel
from jobs.fields import mask_email


@register_panel(EMAIL_JOB_CONFIG.QUEUE_NAME, title=_("Email"), permission=VIEW_EMAIL)
def email_panel(request: HttpRequest, job: Any) -> SafeString | None:
    """Render status and masked recipient of the job's email, if there is one."""
    rows = OutboxEmail.objects.select_related("company").filter(pk=job.pk)
    row = within(request, rows).first()
    if row is None:
        return None
    site = request.resolver_match.namespace if request.resolver_match else "admin"
    url = reverse(f"{site}:emailgw_outboxemail_change", args=[row.pk])
    shown = {"e": row, "badge": status_badge(row), "to": mask_email(row.to), "url": url}
    return render_to_string("emailgw/admin/panel.html", shown, request)
