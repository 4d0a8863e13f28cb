"""Shared parts of the gateway's admin pages: permissions, scope, badges and tiles."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.formats import localize
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from emailgw import queries, states
from emailgw.models import OutboxEmail, Status
from emailgw.permissions import companies_of
from jobs.admin import PlatformAdmin, components, principal

BADGES = {
    "ENQUEUED": "pending", "RECEIVED": "running", "VALIDATED": "running",
    "SENT_ATTEMPT": "running", "SENT": "succeeded", "RETRY_SCHEDULED": "retrying",
    "FAILED": "failed", "EXPIRED": "expired",
}  # fmt: skip


CAP = 10_000
"""How many of the newest emails are counted."""


class GatewayAdmin(PlatformAdmin):
    """Base of the gateway's admin pages: requires the app's own view permission."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return principal(request).may(f"emailgw.view_{self.opts.model_name}")


def within(request: HttpRequest, rows: QuerySet[Any], column: str = "company_id") -> QuerySet[Any]:
    """Restrict rows to the companies in the user's scope."""
    companies = companies_of(principal(request))
    return rows if companies is None else rows.filter(**{f"{column}__in": companies})


def status_badge(row: Any) -> SafeString:
    """Render the status of an email as a badge."""
    if row.in_doubt:
        return components.badge("in_doubt")
    return components.badge(BADGES[row.status], capfirst(row.get_status_display()))


def tiles(rows: QuerySet[Any], url: str) -> SafeString:
    """Render counts of the newest emails by status, each linked to its list."""
    ids = rows.order_by(*queries.NEWEST).values("pk")[:CAP]
    counted = OutboxEmail.objects.filter(pk__in=ids).aggregate(
        waiting=Count("pk", filter=Q(status__in=states.OPEN, in_doubt=False)),
        sent=Count("pk", filter=Q(status=Status.SENT)),
        failed=Count("pk", filter=Q(status=Status.FAILED)),
        expired=Count("pk", filter=Q(status=Status.EXPIRED)),
        doubt=Count("pk", filter=Q(in_doubt=True)),
        all=Count("pk"),
    )
    more = f"{url}{'&' if '?' in url else '?'}status="
    newest = _("of the newest %(n)s") % {"n": localize(CAP)} if counted["all"] == CAP else ""

    def tile(name: str, label: str, status: str, tone: str) -> SafeString:
        shown = tone if counted[name] else ""
        link = f"{more}{status}" if status else ""
        return components.tile(
            localize(counted[name]), label, url=link, tone=shown, note=newest
        )  # fmt: skip

    return components.tiles([
        tile("waiting", _("in progress"), "", ""),
        tile("sent", _("sent"), Status.SENT, ""),
        tile("failed", _("failed"), Status.FAILED, "bad"),
        tile("expired", _("expired"), Status.EXPIRED, "warn"),
        tile("doubt", _("in doubt"), "IN_DOUBT", "warn"),
    ])  # fmt: skip
