"""Who may act on whose data: users for themselves, staff and API keys by permission."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

from jobs.acts import Principal, Scope
from trading.payloads import tenant_of

if TYPE_CHECKING:
    from collections.abc import Iterable

APP = "trading"
USE = f"{APP}.use_trading"
VIEW = {
    name: f"{APP}.view_{name}"
    for name in ("brokerconnection", "importrun", "trade", "rule", "digest")
}
PERMISSIONS = {
    USE: _("Can link accounts, import, score and simulate"),
    VIEW["brokerconnection"]: _("Can see linked accounts"),
    VIEW["importrun"]: _("Can see imports"),
    VIEW["trade"]: _("Can see trades"),
    VIEW["rule"]: _("Can see rules"),
    VIEW["digest"]: _("Can see digests"),
}
"""Permissions of the app, in addition to the platform's."""
TRADERS = "Traders"
"""Members of the staff in this group see only their own rows."""


def users_of(who: Principal) -> list[int] | None:
    """Return the users within the principal's scope; None means all of them."""
    if who.scope.tenants is None:
        return None
    return sorted(_users(who.scope.tenants))


def _users(tenants: Iterable[str]) -> set[int]:
    found = (tenant.removeprefix("user:") for tenant in tenants if tenant.startswith("user:"))
    return {int(text) for text in found if text.isascii() and text.isdigit() and len(text) < 19}


def acting_user(who: Principal) -> int | None:
    """Return the user for whom the principal acts: itself, or the only one of an API key."""
    if who.user_id:
        return int(who.user_id) if who.user_id.isdigit() else None
    found = users_of(who) if who.may(USE) else None
    return found[0] if found and len(found) == 1 else None


def as_oneself(who: Principal, user: int) -> Principal:
    """Return the principal with what users may do with their own data, and nothing else."""
    return replace(
        who,
        permissions=frozenset(PERMISSIONS),
        scope=Scope(tenants=frozenset({tenant_of(user)}), queues=who.scope.queues),
    )


def scope(user: object) -> Scope | None:
    """Limit members of the group *Traders* to their own rows; for ``JOBS["SCOPE"]``."""
    groups = getattr(user, "groups", None)
    if getattr(user, "is_superuser", False) or groups is None:
        return None
    return Scope(tenants=frozenset()) if groups.filter(name=TRADERS).exists() else None
