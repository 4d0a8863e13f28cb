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

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest
from django.utils.http import is_same_domain

from jobs.api import auth, requests
from jobs.operate import people
from jobs.principals import Principal
from jobs.realtime import tickets

NEEDED = "view_job"
"""What an API key has to be allowed for live events; people see their own tenant's in any case."""
Authenticator = Callable[[HttpRequest], Principal | None]


class Refused(Exception):
    """The request shows something that must not be taken; the text says what."""


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
    """Whoever shows an API key, as to the API. It has to have ``view_job``."""
    found = auth.ApiKey()(request) or auth.ApiKeyHeader()(request)
    if found is not None and not found.may(NEEDED):
        raise Refused(f"the key lacks the permission {NEEDED!r}")
    return found


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


def principal_of(request: HttpRequest) -> Principal | None:
    """Who is asking, or None where nobody knows; raises Refused."""
    for authenticator in AUTHENTICATORS:
        if (found := authenticator(request)) is not None:
            return found
    return None


find_principal = database_sync_to_async(principal_of)
"""The same for coroutines."""


def request_of(scope: Mapping[str, Any], *, is_again: bool = False) -> HttpRequest:
    """The handshake of a socket as a request, so that authenticators need to know no other.

    ``is_again``: the socket is open, and it is asked whether it may stay so.
    """
    request = ASGIRequest({**scope, "method": "GET"}, BytesIO())
    request.META["jobs.socket"], request.META["jobs.again"] = True, is_again
    return request


def request_again(request: ASGIRequest) -> HttpRequest:
    """The request of a stream as it came, to be asked again whether it may go on."""
    again = ASGIRequest(request.scope, BytesIO())
    again.META = {**request.META, "jobs.again": True}
    return again


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
