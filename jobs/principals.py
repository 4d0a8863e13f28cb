"""Who acts: a name for the records, what it may do, and how much of the platform it may see.

::

    jobs.cancel(job_id, by="nightly cleanup", reason="superseded")      # code: has every permission
    jobs.cancel(job_id, by=principal, reason="superseded")              # a person or an API key

A plain name stands for code of the project itself, which is trusted. A ``Principal`` is somebody
outside: the faces (admin, API, command line) make one for the person or program behind a request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.operate.permissions import ALL as ALL
from jobs.operate.permissions import PERMISSIONS as PERMISSIONS
from jobs.operate.permissions import VIEWS as VIEWS

_OF_APPS: dict[str, Any] = {}
_GROUPS: dict[str, frozenset[str]] = {}


def add_permissions(app: str, permissions: Mapping[str, Any]) -> None:
    """Make an app's own permissions known: what each allows, by its codename in Django.

    Without ``app`` by their full names, like ``shop.post_parcel``.
    """
    before = f"{app}." if app else ""
    _OF_APPS.update({f"{before}{codename}": words for codename, words in permissions.items()})


def add_group(name: str, permissions: Iterable[str]) -> None:
    """Let ``manage.py jobs groups`` create an app's own group of users with these permissions."""
    _GROUPS[name] = frozenset(permissions)


def groups_of_apps() -> Mapping[str, frozenset[str]]:
    """Return the permissions of each group that an app has added."""
    return _GROUPS


def every_permission() -> frozenset[str]:
    """All permissions there are: the platform's by codename, an app's as ``app.codename``."""
    return ALL | frozenset(_OF_APPS)


def words_of(permission: str) -> Any:
    """What the permission allows, in words; its name where nobody has told."""
    return PERMISSIONS.get(permission) or _OF_APPS.get(permission, permission)


def full_name(permission: str) -> str:
    """The permission as Django calls it."""
    return permission if "." in permission else f"jobs.{permission}"


VIAS = ("code", "admin", "api", "cli", "system")


@dataclass(frozen=True, slots=True)
class Scope:
    """What of the platform may be seen and touched; None is everything of its sort.

    A job without a tenant is seen only by those who see all tenants.
    """

    tenants: frozenset[str] | None = None
    queues: frozenset[str] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing at all is hidden."""
        return self.tenants is None and self.queues is None

    def covers(self, tenant: str | None = None, queue: str | None = None) -> bool:
        """Whether something of this tenant and queue lies within; None: it has no such thing."""
        return (tenant is None or self.tenants is None or tenant in self.tenants) and (
            queue is None or self.queues is None or queue in self.queues
        )


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who acts, as the records name them."""

    name: str
    via: str = "code"
    permissions: frozenset[str] = field(default_factory=every_permission, repr=False)
    scope: Scope = EVERYTHING
    is_staff: bool = True
    """Whether events meant for administrators are theirs to see."""
    request_id: str = ""
    user_id: str = field(default="", repr=False)
    """Primary key of the project's user behind it, where there is one."""
    key: str = field(default="", repr=False)
    """Public part of the API key behind it, where there is one."""

    def __str__(self) -> str:
        return self.name

    @property
    def identity(self) -> str:
        """Return what distinguishes it from all others: an account, a key, or name and scope."""
        if self.user_id or self.key:
            return f"user:{self.user_id}" if self.user_id else f"key:{self.key}"
        tenants, queues = (
            None if names is None else sorted(names)
            for names in (self.scope.tenants, self.scope.queues)
        )
        rest = hashlib.sha256(f"{self.name!r} {self.via} {tenants} {queues}".encode()).hexdigest()
        return f"name:{self.name[:100]} {rest[:32]}"

    def may(self, permission: str) -> bool:
        """Whether it has the permission: the platform's by codename, an app's in full."""
        return permission in self.permissions


By = str | Principal
"""How callers name who acts."""


def principal(by: By, via: str = "code") -> Principal:
    """The name as somebody who has every permission; a principal as it is."""
    return by if isinstance(by, Principal) else Principal(by, via)
