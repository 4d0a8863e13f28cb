"""Companies: letting them send, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from emailgw.errors import Refused
from emailgw.models import Company
from emailgw.people import acting

if TYPE_CHECKING:
    from jobs.acts import By


def suspend(company: UUID, suspended: bool, *, by: By, reason: str) -> None:
    """The company's mail is refused, also what waits already, until this is taken back."""
    with acting(
        "company.suspend" if suspended else "company.admit", kind="company", id=company,
        company=company, permission="change_company", by=by, reason=reason,
    ) as act:  # fmt: skip
        row = Company.objects.select_for_update(no_key=True).filter(pk=company).first()
        if row is None:
            raise Refused("NOT_FOUND", "there is no such company")
        act.changed({"suspended": row.is_suspended}, {"suspended": suspended})
        row.is_suspended = suspended
        row.save(update_fields=["is_suspended"])
