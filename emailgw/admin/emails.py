"""Admin of emails: recipients are masked, and unmasked only with a permission and a reason."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.clickjacking import xframe_options_sameorigin

import jobs
from emailgw import queries, services
from emailgw.admin import filters, timeline
from emailgw.admin.base import GatewayAdmin, status_badge, tiles, within
from emailgw.models import EmailLog, OutboxEmail, Status
from emailgw.permissions import as_uuid
from emailgw.verbs import VIEW_EMAIL
from jobs.admin import Act, Reason, Words, components, principal, tables
from jobs.fields import mask_email
from jobs.verbs import permissions


class ResendForm(Reason):
    """Form to resend an email."""

    words = {
        "even_if_sent": Words(
            gettext_lazy("Send it even if it may already have been sent"),
            shown=lambda form: form.row is None or form.row.in_doubt,
        )
    }


def has_job(row: OutboxEmail) -> bool:
    """Return whether the job of the email has not been deleted yet."""
    return jobs.Job.objects.filter(pk=row.pk).exists()


def _why_no_resend(request: HttpRequest, row: OutboxEmail) -> str:
    if not row.in_doubt and row.status not in (Status.FAILED, Status.EXPIRED):
        return _("It is %(status)s.") % {"status": row.get_status_display()}
    return "" if has_job(row) else _("Its job was deleted; submit the email again.")


def _what_follows(request: HttpRequest, row: OutboxEmail) -> list[str]:
    again = _("The same email and job are retried.")
    return (
        [again, _("For an email in doubt, the provider's events are checked first.")]
        if row.in_doubt
        else [again]
    )


def _revealed(request: HttpRequest, row: OutboxEmail, found: services.Revealed) -> HttpResponse:
    page = admin.site._registry[OutboxEmail]
    data = {**page.admin_site.each_context(request), "opts": page.opts, "media": page.media,
            "jd_site": page.admin_site.name, "is_fullwidth": True, "title": _("Recipient"),
            "found": found, "subject": row.pk,
            "back": reverse("admin:emailgw_outboxemail_change", args=[row.pk])}  # fmt: skip
    answer = TemplateResponse(request, "emailgw/admin/revealed.html", data)
    answer["Cache-Control"] = "no-store"
    return answer


@admin.register(OutboxEmail)
class EmailAdmin(GatewayAdmin):
    """Admin of the emails."""

    list_template = "emailgw/admin/emails.html"
    page_template = "emailgw/admin/email.html"
    nouns = ("email",)
    acts = (
        Act("resend", gettext_lazy("Send again…"), None, _why_no_resend,
            _what_follows, form=ResendForm, tone="primary", verb="email.resend",
            many=True, done=gettext_lazy("The email is retried.")),
        Act("reveal", gettext_lazy("Show recipient…"), show=_revealed, verb="email.reveal",
            consequences=lambda r, e: [_("The recipient is shown once, unmasked.")]),
    )  # fmt: skip

    list_acts = (
        Act("find", gettext_lazy("Find by address…"), filters.find, needs=VIEW_EMAIL,
            consequences=lambda r, e: [
                _("The address does not appear in the page's URL or in logs.")],
            form=filters.FindForm, tone="primary"),
    )  # fmt: skip

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        asked = filters.given(request)
        seen = within(request, OutboxEmail.objects.all())
        rows = filters.narrowed(seen, asked).select_related("company").defer("html")
        found = tables.page(request, rows, *queries.NEWEST)
        listed = [{"e": e, "to": mask_email(e.to), "badge": status_badge(e),
                   "url": self.page_url(e.pk)} for e in found["rows"]]  # fmt: skip
        others = {n: v for n, v in asked.items() if v and n not in ("to", "company")}
        return {**found, "rows": listed, "given": asked, "statuses": Status.choices,
                "companies": filters.companies(request), "is_narrowed": any(asked.values()),
                "without_to": f"?{urlencode(others)}",
                "tiles": tiles(seen, self.list_url()),
                "list_buttons": self.list_buttons(request)}  # fmt: skip

    def find(self, request: HttpRequest, key: str) -> Any:
        wanted = as_uuid(key)
        rows = OutboxEmail.objects.select_related("company", "recipient")
        return within(request, rows).filter(pk=wanted).first() if wanted else None

    def page_data(self, request: HttpRequest, row: OutboxEmail) -> dict[str, Any]:
        site = self.admin_site.name
        log = EmailLog.objects.filter(outbox=row).first()
        hashed = row.recipient.cpf_cnpj_hash
        return {
            "title": _("Email to %(to)s") % {"to": mask_email(row.to)}, "e": row,
            "badge": status_badge(row),
            "copies": [mask_email(a) for a in (*row.cc, *row.bcc)],
            "document": f"{hashed[:8]}…" if hashed else "",
            "log": log,
            "took": components.duration(log.duration_ms / 1000) if log else "",
            "history": timeline.entries(row), "failed": timeline.has_failed(row),
            "company_url": reverse(f"{site}:emailgw_company_change", args=[row.company_id]),
            "job": reverse(f"{site}:jobs_job_change", args=[row.pk]) if has_job(row) else "",
            "preview": reverse(f"{site}:emailgw_outboxemail_preview", args=[row.pk])
            if principal(request).may(permissions.VIEW_PAYLOAD) else "",
            "list_buttons": self.buttons(request, row, row.pk),
        }  # fmt: skip

    def get_urls(self) -> list[Any]:
        shown = xframe_options_sameorigin(self.preview_view)
        view = self.admin_site.admin_view(shown)
        name = self.view_name("preview")
        return [path("<path:object_id>/preview/", view, name=name), *super().get_urls()]

    def preview_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Serve the content as a document that cannot load, run or submit anything."""
        row = self.found(request, object_id)
        if not principal(request).may(permissions.VIEW_PAYLOAD):
            raise PermissionDenied
        made = services.preview(row.html.body)
        answer = HttpResponse(made.document)
        answer["Content-Security-Policy"] = f"{made.policy}; frame-ancestors 'self'"
        answer["Referrer-Policy"] = "no-referrer"
        answer["X-Content-Type-Options"] = "nosniff"
        answer["Cache-Control"] = "no-store"
        return answer
