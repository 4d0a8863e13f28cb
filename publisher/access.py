"""Who may do what with a brand: the roles of its members, and the rule for ``JOBS["SCOPE"]``."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model

import jobs
from jobs.acts import Scope
from jobs.verbs import By, Principal

ROLES = ("viewer", "editor", "approver", "manager")
"""Each may do what those before it may."""


class RoleMissing(jobs.errors.Denied):
    """Whoever acts is no member of the brand, or has a lesser role."""

    def __init__(self, role: str) -> None:
        super().__init__(role)
        self.args = (f"only members of the brand with the role {role!r} may do this",)


def role_of(by: By, brand_id: Any) -> str:
    """Return the role of whoever acts; an empty text for a user without one.

    Code and API keys are no users: their permissions and scope decide alone. A superuser is a
    manager, unless the brand gives him another role.
    """
    if not isinstance(by, Principal) or not by.user_id:
        return "manager"
    members: Any = apps.get_model("publisher", "Member")
    rows = members.objects.filter(brand=brand_id, user_id=by.user_id)
    role = rows.values_list("role", flat=True).first()
    if role is None and _is_superuser(by.user_id):
        return "manager"
    return str(role or "")


def _is_superuser(user_id: str) -> bool:
    return get_user_model()._default_manager.filter(pk=user_id, is_superuser=True).exists()


def has_role(by: By, brand_id: Any, role: str) -> bool:
    """Return whether the caller has at least this role in the brand."""
    found = role_of(by, brand_id)
    return bool(found) and ROLES.index(found) >= ROLES.index(role)


def require(by: By, brand_id: Any, role: str) -> None:
    """Raise RoleMissing unless the caller has at least this role in the brand."""
    if not has_role(by, brand_id, role):
        raise RoleMissing(role)


def scope(user: Any) -> Scope | None:
    """Return the tenants of the user's brands; None for superusers and those without a brand."""
    if user.is_superuser or not apps.is_installed("publisher"):
        return None
    rows = apps.get_model("publisher", "Member").objects.filter(user_id=user.pk)
    tenants = frozenset(rows.values_list("tenant", flat=True))
    return Scope(tenants=tenants) if tenants else None
