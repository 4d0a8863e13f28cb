"""Who asks: an API key, a logged-in user, or whom the host's own login has found.

::

    @router.get("/mine", auth=auth.default())
    def mine(request): ... auth.who(request).scope ...

Nobody else is let in: whatever a host's login answers has to become a principal.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest
from ninja.errors import AuthenticationError
from ninja.security import APIKeyCookie
from ninja.security.base import AuthBase
from ninja.utils import check_csrf

from jobs.api import requests
from jobs.errors import Denied
from jobs.operate import apikeys, people
from jobs.principals import Principal


class ApiKey(AuthBase):
    """``Authorization: Bearer jd_live_…``."""

    openapi_type: str = "http"
    openapi_scheme: str = "bearer"

    def __call__(self, request: HttpRequest) -> Principal | None:
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        return _by_key(request, shown) if scheme.lower() == "bearer" else None


class ApiKeyHeader(AuthBase):
    """``X-API-Key: jd_live_…``."""

    openapi_type: str = "apiKey"
    openapi_in: str = "header"
    openapi_name: str = "X-API-Key"

    def __call__(self, request: HttpRequest) -> Principal | None:
        shown = request.headers.get("X-API-Key", "")
        return _by_key(request, shown) if shown else None


class Session(APIKeyCookie):
    """The session of a logged-in user; whatever writes needs the CSRF token, too."""

    def __init__(self) -> None:
        from django.conf import settings

        self.param_name = settings.SESSION_COOKIE_NAME
        super().__init__(csrf=False)

    def authenticate(self, request: HttpRequest, key: str | None) -> Principal | None:
        user = getattr(request, "user", None)
        if user is None or not user.is_authenticated or not user.is_active:
            return None
        if check_csrf(request) is not None:
            from jobs.api.problem import Problem

            raise Problem(403, "csrf", "the CSRF token is missing or wrong")
        return people.of_user(user, via="api", request_id=requests.request_id(request))


def default() -> list[AuthBase]:
    """An API key or a session."""
    return [ApiKey(), ApiKeyHeader(), Session()]


def who(request: HttpRequest) -> Principal:
    """Whoever asks, as far as the mount lets him see; raises AuthenticationError."""
    known: Principal | None = getattr(request, "jobs_principal", None)
    if known is None:
        known = _found(request)
        narrow = getattr(request, "jobs_scope", None)
        if narrow is not None:
            known = _narrowed(request, known, narrow)
        request.jobs_principal = known  # type: ignore[attr-defined]
    return known


def again(request: HttpRequest, anew: HttpRequest) -> Principal | None:
    """Return the principal of a request that comes again; None if it would be refused now."""
    anew.jobs_scope = getattr(request, "jobs_scope", None)  # type: ignore[attr-defined]
    for login in request.jobs_logins:  # type: ignore[attr-defined]
        found = login(anew)
        if inspect.isawaitable(found):
            found = async_to_sync(_awaited)(found)
        if found:
            anew.auth = found  # type: ignore[attr-defined]
            try:
                return who(anew)
            except AuthenticationError:
                return None
    return None


async def _awaited(found: Awaitable[Any]) -> Any:
    return await found


def need(request: HttpRequest, permission: str) -> Principal:
    """Whoever asks, who has the permission; raises Denied."""
    found = who(request)
    if permission and not found.may(permission):
        raise Denied(permission)
    return found


def _by_key(request: HttpRequest, shown: str) -> Principal | None:
    return apikeys.principal(
        shown, address=requests.address(request), request_id=requests.request_id(request)
    )


def _found(request: HttpRequest) -> Principal:
    shown: Any = getattr(request, "auth", None)
    if isinstance(shown, Principal):
        return shown
    user = shown if hasattr(shown, "is_authenticated") else getattr(request, "user", None)
    if shown is None or user is None or not user.is_authenticated or not user.is_active:
        raise AuthenticationError
    return people.of_user(user, via="api", request_id=requests.request_id(request))


def _narrowed(request: HttpRequest, found: Principal, narrow: Any) -> Principal:
    from dataclasses import replace

    from jobs.principals import Scope

    limit: Scope = narrow(request) if callable(narrow) else narrow
    scope = Scope(
        _both(found.scope.tenants, limit.tenants), _both(found.scope.queues, limit.queues)
    )
    return replace(found, scope=scope)


def _both(a: frozenset[str] | None, b: frozenset[str] | None) -> frozenset[str] | None:
    if a is None or b is None:
        return b if a is None else a
    return a & b
