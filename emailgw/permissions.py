"""Permission and scope checks for code (by name), users and API keys (as principals)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import jobs
from emailgw.config import EMAIL_JOB_CONFIG
from emailgw.errors import Forbidden, Refused
from jobs import acts, verbs

if TYPE_CHECKING:
    from jobs.acts import By, Principal

QUEUE: str = EMAIL_JOB_CONFIG.QUEUE_NAME


def companies_of(who: Principal) -> list[UUID] | None:
    """Return the ids of the companies in the principal's scope; None means all companies.

    Tenants that are not companies are left out. A principal without the gateway's queue has none.
    """
    if not who.scope.covers(queue=QUEUE):
        return []
    if who.scope.tenants is None:
        return None
    ids = (as_uuid(tenant) for tenant in sorted(who.scope.tenants))
    return [company for company in ids if company is not None]


def as_uuid(text: str) -> UUID | None:
    """Return the text as a UUID, or None if it is not one."""
    try:
        return UUID(text)
    except ValueError:
        return None


def name_of(by: By) -> str:
    """Return the name for the audit; raise Refused if it is empty."""
    name = by if isinstance(by, str) else by.name
    if not name.strip():
        raise Refused("FORBIDDEN", "must not be empty", "by")
    return name


@contextmanager
def acting(
    function: Callable[..., Any], id: object, *, company: UUID | None, by: By, reason: str
) -> Iterator[acts.Act]:
    """Run a verb of the gateway: check permission and scope, write the audit, or raise Refused.

    ``company=None`` means all companies. Objects out of scope are reported as not found.
    """
    name_of(by)
    if not reason.strip():
        raise Refused("VALIDATION_ERROR", "must not be empty", "reason")
    place = acts.Place("" if company is None else str(company), QUEUE)
    try:
        with verbs.acting(function, id, by=by, reason=reason, place=place) as act:
            yield act
    except jobs.errors.Denied as error:
        raise _audited(Forbidden(error.permission), error) from None
    except jobs.errors.UnknownTarget as error:
        raise _audited(Refused("NOT_FOUND", "not found"), error) from None


def _audited(refused: Refused, error: jobs.JobsError) -> Refused:
    """Return the refusal with the audit record of the original error."""
    refused.audit = error.audit
    return refused


def require(by: By, permission: str, company: UUID | None, reason: str) -> str:
    """Check permission, scope and reason; return the name for the audit.

    For operations that a verb of the platform audits itself. Objects out of scope are reported as
    not found.
    """
    name = name_of(by)
    if not isinstance(by, str):
        if not by.may(permission):
            raise Forbidden(permission)
        if not by.scope.covers("" if company is None else str(company), QUEUE):
            raise Refused("NOT_FOUND", "not found")
    if not reason.strip():
        raise Refused("VALIDATION_ERROR", "must not be empty", "reason")
    return name
