"""What the gateway's pages have in common: its permissions, its tenants, its states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from emailgw.errors import Refused
from emailgw.people import companies_of
from jobs.admin import PlatformAdmin, components, principal

LOOKS = {
    "ENQUEUED": "pending", "RECEIVED": "running", "VALIDATED": "running",
    "SENT_ATTEMPT": "running", "SENT": "succeeded", "RETRY_SCHEDULED": "retrying",
    "FAILED": "failed", "EXPIRED": "expired",
}  # fmt: skip


class GatewayAdmin(PlatformAdmin):
    """A page of the gateway: seen with the app's own permission, within one's tenants."""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return principal(request).may(f"emailgw.view_{self.opts.model_name}")


def within(request: HttpRequest, rows: QuerySet[Any], column: str = "company_id") -> QuerySet[Any]:
    """The rows of the companies that may be seen."""
    companies = companies_of(principal(request))
    return rows if companies is None else rows.filter(**{f"{column}__in": companies})


def status_badge(row: Any) -> SafeString:
    """How far an email is: a word, an icon and a colour."""
    if row.in_doubt:
        return components.badge("in_doubt")
    return components.badge(LOOKS[row.status], row.get_status_display())


Run = Callable[[HttpRequest, Any, dict[str, Any]], Any]


def denying(run: Run) -> Run:
    """A refusal for want of a permission is a 403 of the admin."""

    def wrapped(request: HttpRequest, row: Any, given: dict[str, Any]) -> Any:
        try:
            return run(request, row, given)
        except Refused as error:
            if error.code == "FORBIDDEN":
                raise PermissionDenied from error
            raise

    return wrapped
