"""What the operations of the publisher share: their section, their codes, the caller's brands."""

from __future__ import annotations

import re
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from jobs.api import Problem, Section, auth
from publisher import config, services
from publisher.errors import Refused
from publisher.models import Account

RATE = "60/m"
_STATUS = {services.INVALID_CHANNEL: 400, services.INVALID_JOB: 400}
"""The statuses of problems; others are 422."""


_PLANNING = re.compile("/(?:plans|slots|assets|preflight|templates)")


def with_codes(request: HttpRequest, found: Problem) -> Problem:
    """Give a body that cannot be read, and a fault of our own, the code of this API."""
    writes_job = request.path.endswith(("/jobs", "/jobs/test", "/jobs/bulk"))
    if found.status == 500:
        found.code = "fp_publisher_queue_error"
    elif writes_job and request.method == "POST" and found.code in ("invalid", "invalid-json"):
        found.status, found.code = 400, services.INVALID_JOB
    elif found.status == 422 and found.code == "invalid" and _PLANNING.search(request.path):
        found.code = services.INVALID_PLAN
    return found


def problem_of(error: Refused) -> Problem:
    """Convert a refusal to a problem with a pointer for each fault."""
    fields = [
        {"pointer": f"/{f.field}", "message": f.message, "code": f.code or error.code}
        for f in error.faults
        if f.field
    ]
    made = Problem(_STATUS.get(error.code, 422), error.code, str(error), fields=fields)
    made.audit = error.audit
    return made


def translated(error: Exception) -> Exception:
    """Convert a refusal; return any other error unchanged."""
    return problem_of(error) if isinstance(error, Refused) else error


section = Section(
    "publisher",
    {
        "publication": "/publications", "account": "/accounts",
        "brand": "/brands", "plan": "/plans", "slot": "/slots",
        "asset": "/assets", "template": "/templates", "consent": "/consents",
    },
    login=auth.default(),
    shape=with_codes,
    translate=translated,
    rate=RATE,
)  # fmt: skip


def within(request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
    """Restrict rows to the caller's brands; to none for a caller of other queues."""
    scope = auth.who(request).scope
    if not scope.covers(queue=config.QUEUE):
        return rows.none()
    return rows if scope.tenants is None else rows.filter(tenant__in=scope.tenants)


def accounts_of(request: HttpRequest) -> QuerySet[Account]:
    """Return the accounts of the caller's brands."""
    return within(request, Account.objects.all())
