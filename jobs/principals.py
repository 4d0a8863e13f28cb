"""Who acts: a name for the records, what it may do, and how much of the platform it may see.

::

    jobs.cancel(job_id, by="nightly cleanup", reason="superseded")      # code: may everything
    jobs.cancel(job_id, by=principal, reason="superseded")              # a person or an API key

A plain name stands for code of the project itself, which is trusted. A ``Principal`` is somebody
outside: the faces (admin, API, command line) make one for whoever is behind a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

PERMISSIONS: Mapping[str, _StrPromise] = MappingProxyType(
    {
        "enqueue_job": _("Can enqueue jobs"),
        "edit_job": _("Can edit waiting jobs"),
        "retry_job": _("Can retry jobs and run them now"),
        "replay_job": _("Can replay jobs"),
        "cancel_job": _("Can cancel jobs"),
        "view_payload": _("Can see payloads and results"),
        "reveal_payload": _("Can see protected fields of payloads in clear"),
        "run_bulk": _("Can act on many jobs at once"),
        "resolve_deadletter": _("Can decide about dead letters"),
        "resolve_doubt": _("Can decide about effects in doubt"),
        "publish_outbox": _("Can park, publish and discard events"),
        "pause_queue": _("Can pause and resume"),
        "edit_queue": _("Can change limits of queues, kinds and keys"),
        "view_worker": _("Can see workers"),
        "manage_worker": _("Can drain and stop workers"),
        "manage_schedule": _("Can manage schedules"),
        "manage_blackout": _("Can manage blackout windows"),
        "manage_webhook": _("Can manage webhook endpoints"),
        "manage_apikey": _("Can create and revoke API keys"),
        "save_view": _("Can save views of the list of jobs"),
        "share_view": _("Can share saved views"),
    }
)
"""Permissions beside Django's own ``view_…`` of each model, by codename; all of app ``jobs``."""

VIEWS = (
    "view_job",
    "view_batch",
    "view_deadletter",
    "view_outbox",
    "view_queue",
    "view_schedule",
    "view_blackout",
    "view_effect",
    "view_breaker",
    "view_bulk",
    "view_webhook",
    "view_apikey",
    "view_audit",
)
"""Permissions to see, which Django makes for the models of these names."""

ALL = frozenset(PERMISSIONS) | frozenset(VIEWS)
"""Those of the platform itself."""

_OF_APPS: dict[str, Any] = {}


def add_permissions(app: str, permissions: Mapping[str, Any]) -> None:
    """An app's own permissions are known: what each allows, by its codename in Django."""
    _OF_APPS.update({f"{app}.{codename}": words for codename, words in permissions.items()})


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

    def may(self, permission: str) -> bool:
        """Whether it has the permission: the platform's by codename, an app's in full."""
        return permission in self.permissions


By = str | Principal
"""How callers name who acts."""


def principal(by: By, via: str = "code") -> Principal:
    """The name as somebody who may everything; a principal as it is."""
    return by if isinstance(by, Principal) else Principal(by, via)
