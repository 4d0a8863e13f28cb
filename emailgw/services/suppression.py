"""The suppression list, for people; every change is an act in the audit."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import QuerySet

from emailgw import addresses, suppressions
from emailgw.errors import Refused
from emailgw.models import Suppression
from emailgw.people import acting, name_of
from jobs.fields import mask_email

if TYPE_CHECKING:
    from jobs.acts import By

PERMISSION = "change_suppression"


def list_suppressions(company: UUID | None) -> QuerySet[Suppression]:
    """The company's entries, newest first; without one, those that hold for everybody."""
    return suppressions.of(company).order_by("-created_at", "id")


def add_suppression(
    company: UUID | None, address: str, *, by: By, reason: str, until: datetime | None = None
) -> Suppression:
    """Nothing is sent to the address any more; raises Refused."""
    with acting(
        "suppression.add", kind="suppression", id=None, company=company, permission=PERMISSION,
        by=by, reason=reason,
    ) as act:  # fmt: skip
        if problem := addresses.address_problem(address):
            raise Refused("VALIDATION_ERROR", problem, "email")
        made = suppressions.suppress(
            company, address, Suppression.Reason.MANUAL, by=name_of(by), note=reason[:300],
            until=until,
        )  # fmt: skip
        act.concerns(made.pk)
        act.note(address=mask_email(address))
    return made


def lift_suppression(company: UUID | None, address: str, *, by: By, reason: str) -> None:
    """The address is written to again; raises Refused where it was not on the list."""
    with acting(
        "suppression.lift", kind="suppression", id=None, company=company, permission=PERMISSION,
        by=by, reason=reason,
    ) as act:  # fmt: skip
        act.note(address=mask_email(address))
        if not suppressions.lift(company, address):
            raise Refused("NOT_FOUND", "the address is not on the list")
