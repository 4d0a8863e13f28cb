"""Who is asking: the first authenticator that knows the request says so.

Others are added where they are made::

    access.AUTHENTICATORS.append(of_device)      # HttpRequest -> Principal | None
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.utils.http import is_same_domain

from jobs.api import auth, requests
from jobs.operate import people
from jobs.principals import Principal
from jobs.realtime import tickets
from jobs.realtime.questions import NEEDED, may_listen
from jobs.realtime.refusals import Refused

Authenticator = Callable[[HttpRequest], Principal | None]


def by_session(request: HttpRequest) -> Principal | None:
    """Whoever is logged in. A socket must come from a page of this site."""
    name = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    if not name:
        return None
    if not hasattr(request, "session"):
        request.session = import_module(settings.SESSION_ENGINE).SessionStore(name)
    if SESSION_KEY not in request.session:
        return None
    if _is_socket(request) and not _is_own_page(request):
        raise Refused("the page of another site may not open this socket")
    user: Any = get_user(request)
    if not user.is_authenticated or not user.is_active:
        return None
    return people.of_user(user, via="api", request_id=requests.request_id(request))


def by_key(request: HttpRequest) -> Principal | None:
    """Whoever shows an API key, as to the API."""
    return auth.ApiKey()(request) or auth.ApiKeyHeader()(request)


def by_ticket(request: HttpRequest) -> Principal | None:
    """Whoever shows a ticket for the first time, or holds open what he has opened with it."""
    text = request.GET.get("ticket", "")
    if not text:
        return None
    is_shown_again = bool(request.META.get("jobs.again"))
    number = requests.request_id(request)
    return tickets.holder(text, is_shown_again=is_shown_again, request_id=number)


AUTHENTICATORS: list[Authenticator] = [by_key, by_ticket, by_session]
"""Asked in this order; the first answer counts."""


def principal_of(request: HttpRequest, needs: str = NEEDED) -> Principal | None:
    """Return who is asking, or None where nobody knows.

    Raises Refused, also for callers who need the permission ``needs`` and lack it.
    """
    for authenticator in AUTHENTICATORS:
        if (found := authenticator(request)) is not None:
            if not may_listen(found, needs):
                raise Refused(f"the permission {needs!r} is missing")
            return found
    return None


def request_of(scope: Mapping[str, Any], *, is_again: bool = False) -> HttpRequest:
    """The handshake of a socket as a request, so that authenticators need to know no other.

    ``is_again``: the socket is open, and it is asked whether it may stay so.
    """
    request = ASGIRequest({**scope, "method": "GET"}, BytesIO())
    request.META["jobs.socket"], request.META["jobs.again"] = True, is_again
    return request


def request_again(request: ASGIRequest) -> HttpRequest:
    """The request of a stream as if it came now, to be asked again whether it may go on."""
    again = ASGIRequest(request.scope, BytesIO())
    again.META = {**request.META, "jobs.again": True}
    session = getattr(request, "session", None)
    if session is not None:
        again.session = type(session)(session.session_key)
    user: Any = getattr(request, "user", None)
    if session is not None and SESSION_KEY in session:
        again.user = get_user(again)
    elif user is not None and user.is_authenticated:  # who was found by no session
        again.user = _anew(user)
    return again


def _anew(user: Any) -> Any:
    found = type(user)._default_manager.filter(pk=user.pk).first()
    return AnonymousUser() if found is None else found


def _is_socket(request: HttpRequest) -> bool:
    return bool(request.META.get("jobs.socket"))


def _is_own_page(request: HttpRequest) -> bool:
    """Browsers say which site's page opens a socket, and send their cookies whichever it is."""
    origin = request.headers.get("Origin", "")
    try:
        host = request.get_host()
    except DisallowedHost:
        return False
    page = urlsplit(origin)
    if page.scheme not in ("http", "https") or not page.netloc:
        return False
    if page.netloc.lower() == host.lower() and not (request.is_secure() and page.scheme == "http"):
        return True
    for trusted in settings.CSRF_TRUSTED_ORIGINS:
        known = urlsplit(trusted)
        if known.scheme == page.scheme and is_same_domain(
            page.netloc, known.netloc.replace("*", "", 1)
        ):
            return True
    return False
