"""Who acts: the project's own code by a plain name, a person or an API key as a principal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils.translation import gettext_lazy as _

import jobs
from emailgw.errors import Refused
from jobs import acts

if TYPE_CHECKING:
    from jobs.acts import By
    from jobs.principals import Principal

PERMISSIONS = {
    "view_outboxemail": _("Can see emails"),
    "view_company": _("Can see companies"),
    "change_company": _("Can suspend companies"),
    "view_suppression": _("Can see the suppression list"),
    "change_suppression": _("Can change the suppression list"),
    "reveal_recipient": _("Can see recipients in clear"),
}
"""The gateway's own, beside the platform's."""


def companies_of(who: Principal) -> list[UUID] | None:
    """The ids of the companies that somebody may see; None: all. Other tenants are none."""
    if who.scope.tenants is None:
        return None
    found = (as_uuid(tenant) for tenant in sorted(who.scope.tenants))
    return [company for company in found if company is not None]


def as_uuid(text: str) -> UUID | None:
    """The id, or None where it is none."""
    try:
        return UUID(text)
    except ValueError:
        return None


def name_of(by: By) -> str:
    """The name for the records; raises Refused where there is none."""
    name = by if isinstance(by, str) else by.name
    if not name.strip():
        raise Refused("FORBIDDEN", "somebody must answer for this", "by")
    return name


@contextmanager
def acting(
    action: str, *, kind: str, id: object, company: UUID | None, permission: str, by: By,
    reason: str,
) -> Iterator[acts.Act]:  # fmt: skip
    """An act that the audit tells of, done or denied; raises Refused where it may not be.

    Without a company it concerns all of them. What lies outside of somebody's scope does not exist.
    """
    name_of(by)
    if not reason.strip():
        raise Refused("VALIDATION_ERROR", "must not be empty", "reason")
    place = acts.Place("" if company is None else str(company))
    try:
        with acts.on(
            action, kind=kind, id=id, permission=f"emailgw.{permission}", by=by, reason=reason,
            needs_reason=True, place=place,
        ) as act:  # fmt: skip
            yield act
    except jobs.Denied as error:
        raise _told(error, "FORBIDDEN", f"needs the permission emailgw.{permission}") from None
    except jobs.UnknownTarget as error:
        raise _told(error, "NOT_FOUND", "there is no such thing") from None


def _told(error: jobs.JobsError, code: str, message: str) -> Refused:
    """The refusal, which remembers what the audit says of it."""
    refused = Refused(code, message)
    refused.audit = error.audit
    return refused


def require(by: By, permission: str, company: UUID | None, reason: str) -> str:
    """The name of somebody who may do this to that company's mail, and says why.

    For what a verb of the platform writes into the audit itself. What lies outside of somebody's
    scope does not exist for them.
    """
    name = name_of(by)
    if not isinstance(by, str):
        if not by.may(permission):
            raise Refused("FORBIDDEN", f"needs the permission {permission}")
        is_hidden = by.scope.tenants is not None if company is None else not by.scope.covers(
            tenant=str(company)
        )  # fmt: skip
        if is_hidden:
            raise Refused("NOT_FOUND", "there is no such thing")
    if not reason.strip():
        raise Refused("VALIDATION_ERROR", "must not be empty", "reason")
    return name
