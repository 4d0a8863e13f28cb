"""Who looks and acts: the principal behind a request, and what lies within its sight."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _

from jobs.operate import people
from jobs.principals import Principal, full_name, words_of

_KEPT = "_jobs_principal"


def principal(request: HttpRequest) -> Principal:
    """Whoever is logged in, as the records will name them; made once per request."""
    found: Principal | None = getattr(request, _KEPT, None)
    if found is None:
        number = str(request.headers.get("X-Request-ID", ""))[:100]
        found = people.of_user(request.user, via="admin", request_id=number)
        setattr(request, _KEPT, found)
    return found


def visible(
    request: HttpRequest, rows: QuerySet[Any], *, queue: str | None = "queue"
) -> QuerySet[Any]:
    """The rows of the tenants, and where they have one of the queues, that may be seen."""
    scope = principal(request).scope
    if scope.tenants is not None:
        rows = rows.filter(tenant__in=sorted(scope.tenants))
    if scope.queues is not None and queue is not None:
        rows = rows.filter(**{f"{queue}__in": sorted(scope.queues)})
    return rows


def missing(request: HttpRequest, permission: str) -> str:
    """Why the permission is not there, in words; nothing where it is."""
    if principal(request).may(permission):
        return ""
    return _("You lack the permission “%(words)s” (%(name)s).") % {
        "words": words_of(permission),
        "name": full_name(permission),
    }
