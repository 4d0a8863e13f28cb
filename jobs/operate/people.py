"""People: what a user of the project may do with jobs, and how much of them he sees.

Permissions are Django's own, of the app ``jobs``. The scope comes from ``JOBS["SCOPE"]``, the
dotted path of a function that takes a user and answers a ``jobs.principals.Scope``, or a list of
such rules, one for each app. Without one, superusers and staff see everything, and every other user
the tenant ``user:<primary key>``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.utils.module_loading import import_string

from jobs import conf
from jobs.errors import ConfigError
from jobs.names import label_problem
from jobs.principals import EVERYTHING, Principal, Scope, every_permission, full_name

_KEPT = "_jobs_principals"
NOTHING = Scope(frozenset(), frozenset())


def of_user(user: Any, *, via: str, request_id: str = "") -> Principal:
    """The user as somebody who acts; asked once per user object, which lives for a request."""
    kept: dict[tuple[str, str], Principal]
    kept = user.__dict__.setdefault(_KEPT, {}) if hasattr(user, "__dict__") else {}
    key = (via, request_id)
    if key not in kept:
        kept[key] = _principal(user, via, request_id)
    return kept[key]


def _principal(user: Any, via: str, request_id: str) -> Principal:
    if not user.is_authenticated or not user.is_active:
        return Principal("anonymous", via, frozenset(), NOTHING, False, request_id)
    return Principal(
        name=_name(user),
        via=via,
        permissions=permissions_of(user),
        scope=scope_of(user),
        is_staff=bool(getattr(user, "is_staff", False)),
        request_id=request_id,
        user_id=str(user.pk),
    )


def permissions_of(user: Any) -> frozenset[str]:
    """The codenames of what the user may do with jobs."""
    if getattr(user, "is_superuser", False):
        return every_permission()
    held = user.get_all_permissions()
    return frozenset(name for name in every_permission() if full_name(name) in held)


def scope_of(user: Any) -> Scope:
    """How much of the platform the user sees."""
    rules = conf.settings().SCOPE
    if isinstance(rules, str):
        return _said(rules, hook(rules)(user)) if rules else _usual(user)
    said = [(path, hook(path)(user)) for path in rules]
    scopes = [_said(path, scope) for path, scope in said if scope is not None]
    return _composed(scopes, _own(user)) if scopes else _usual(user)


def _usual(user: Any) -> Scope:
    if getattr(user, "is_superuser", False) or getattr(user, "is_staff", False):
        return EVERYTHING
    return Scope(tenants=frozenset({_own(user)}))


def _own(user: Any) -> str:
    return f"user:{user.pk}"


def _composed(scopes: Sequence[Scope], own: str) -> Scope:
    """Return what several rules say together.

    Tenants are united: an app knows only its own. Queues are intersected: a rule that names queues
    restricts the user, and no other app may lift that.
    """
    tenants: frozenset[str] | None = frozenset({own})
    queues: frozenset[str] | None = None
    for scope in scopes:
        tenants = None if tenants is None or scope.tenants is None else tenants | scope.tenants
        if scope.queues is not None:
            queues = scope.queues if queues is None else queues & scope.queues
    return Scope(tenants, queues)


def _said(path: str, scope: object) -> Scope:
    if not isinstance(scope, Scope):
        raise ConfigError(f"JOBS['SCOPE']: {path} must answer a Scope, got {scope!r}")
    return scope


def hook(path: str) -> Callable[[Any], Any]:
    """The project's function; raises ConfigError where there is none."""
    try:
        found: Callable[[Any], Any] = import_string(path)
    except ImportError as error:
        raise ConfigError(f"JOBS['SCOPE']: {error}") from error
    if not callable(found):
        raise ConfigError(f"JOBS['SCOPE']: {path} is no function")
    return found


def _name(user: Any) -> str:
    name = str(user.get_username())
    return name if name.strip() and not label_problem(name) else f"user:{user.pk}"
