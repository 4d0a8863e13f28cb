"""Who acts: the project's own code by a plain name, a person or an API key as a principal."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from emailgw.errors import Refused

if TYPE_CHECKING:
    from jobs.principals import By


def name_of(by: By) -> str:
    """The name for the records; raises Refused where there is none."""
    name = by if isinstance(by, str) else by.name
    if not name.strip():
        raise Refused("FORBIDDEN", "somebody must answer for this", "by")
    return name


def require(by: By, permission: str, company: UUID | None, reason: str) -> str:
    """The name of somebody who may do this to that company's mail, and says why.

    What lies outside of somebody's scope does not exist for them.
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
