"""Who asks the upload API: users for themselves, programs for their tenants."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpRequest
from ninja.security.base import AuthBase

from fileproc.errors import Refused
from fileproc.permissions import covers, owner_of_user
from fileproc.verbs import OWN
from jobs.acts import Principal, Scope
from jobs.api import auth


class OwnSession(auth.Session):
    """A session acts for its user, who needs no permission for documents of his own."""

    def authenticate(self, request: HttpRequest, key: str | None) -> Principal | None:
        found = super().authenticate(request, key)
        if found is None:
            return None
        scope = Scope(tenants=frozenset({owner_of_user(found.user_id)}))
        return replace(found, permissions=found.permissions | OWN, scope=scope)


def logins() -> list[AuthBase]:
    """Return the ways to be known: an API key or a session."""
    return [auth.ApiKey(), auth.ApiKeyHeader(), OwnSession()]


def owner_of(request: HttpRequest, named: str = "") -> str:
    """Return for whom the request acts; a key of several tenants names one."""
    who = auth.who(request)
    tenants = who.scope.tenants
    if not named and tenants is not None and len(tenants) == 1:
        named = next(iter(tenants))
    if not named:
        raise Refused("INVALID_REQUEST", "must name the tenant to act for", "owner")
    if "\x00" in named or len(named) > 200 or not covers(who, named):
        raise Refused("FILE_NOT_FOUND", "there is no such owner")
    return named
