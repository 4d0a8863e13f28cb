"""The one way out: every call that this project makes to another host goes through here.

::

    with jobs.http.client(total=5) as client:
        answer = client.post(url, json=body)
    answer = jobs.http.get("https://api.example.com/rates", redirects=2)

A call reaches public addresses only: the name is resolved once, every address is judged, and the
connection goes to an address that was. Redirects are followed only when asked for, each one judged
again. The whole call has an end, and its answer a size, also when it is packed. No cookies are
kept, and nothing is taken from the environment. Whatever goes wrong is an ``HttpError``.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from typing import Any

from httpx import URL, Auth, Headers, HTTPStatusError, Request, Response, Timeout

from jobs.errors import InvalidOption
from jobs.http.clients import REDIRECTS, AsyncClient, Client
from jobs.http.errors import Blocked, HttpError, TooLarge, TooSlow, Unreachable
from jobs.http.network import Resolver, lookup, resolve_in_time
from jobs.http.tokens import refresh_once
from jobs.http.transport import AsyncTransport, Transport
from jobs.http.urls import check
from jobs.http.waits import retry_after

__all__ = [
    "URL",
    "AsyncClient",
    "Auth",
    "Blocked",
    "Client",
    "HTTPStatusError",
    "Headers",
    "HttpError",
    "Request",
    "Response",
    "Timeout",
    "TooLarge",
    "TooSlow",
    "Unreachable",
    "async_client",
    "check",
    "client",
    "get",
    "post",
    "refresh_once",
    "request",
    "resolve",
    "retry_after",
]

TOTAL = 30.0
"""Seconds for a whole call, redirects and body included."""
CONNECT, STEP = 5.0, 10.0
"""Seconds for a connection, and for one read or write."""
MOST = 10 * 1024 * 1024
"""Bytes of an answer, as it comes and as it is unpacked."""

_HEADERS = {"Accept-Encoding": "gzip, deflate", "User-Agent": "django-jobdesk"}

# httpx logs every URL with its query, which may be a secret; who wants that, sets the level.
if logging.getLogger("httpx").level == logging.NOTSET:
    logging.getLogger("httpx").setLevel(logging.WARNING)


def client(
    *,
    base_url: str = "",
    headers: Mapping[str, str] | None = None,
    auth: Any = None,
    total: float = TOTAL,
    connect: float = CONNECT,
    step: float = STEP,
    max_bytes: int = MOST,
    redirects: int = 0,
    context: ssl.SSLContext | None = None,
    resolver: Resolver | None = None,
) -> Client:
    """A client for many calls, which share connections; close it, or use it in a ``with``.

    ``total`` seconds bound a whole call, ``connect`` its connection, ``step`` each read and write.
    ``context`` may add authorities or a client certificate. ``resolver`` replaces the system's, for
    tests; its answers are judged alike.
    """
    _verify(total, connect, step, max_bytes, redirects, context)
    return Client(
        Transport(context=context, total=total, most=max_bytes, resolver=resolver),
        total,
        redirects,
        base_url=_base(base_url),
        headers=_with_ours(headers),
        auth=auth,
        timeout=Timeout(step, connect=connect),
    )


def async_client(
    *,
    base_url: str = "",
    headers: Mapping[str, str] | None = None,
    auth: Any = None,
    total: float = TOTAL,
    connect: float = CONNECT,
    step: float = STEP,
    max_bytes: int = MOST,
    redirects: int = 0,
    context: ssl.SSLContext | None = None,
    resolver: Resolver | None = None,
) -> AsyncClient:
    """As ``client``, for coroutines."""
    _verify(total, connect, step, max_bytes, redirects, context)
    return AsyncClient(
        AsyncTransport(context=context, total=total, most=max_bytes, resolver=resolver),
        total,
        redirects,
        base_url=_base(base_url),
        headers=_with_ours(headers),
        auth=auth,
        timeout=Timeout(step, connect=connect),
    )


def request(
    method: str,
    url: str,
    *,
    params: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    content: bytes | str | None = None,
    data: Mapping[str, Any] | None = None,
    json: Any = None,
    **options: Any,
) -> Response:
    """The answer to one call, read to its end; ``options`` are those of ``client``."""
    with client(**options) as one:
        return one.request(
            method, url, params=params, headers=headers, content=content, data=data, json=json
        )


def get(url: str, **options: Any) -> Response:
    """The answer to a GET; see ``request``."""
    return request("GET", url, **options)


def post(url: str, **options: Any) -> Response:
    """The answer to a POST; see ``request``."""
    return request("POST", url, **options)


def resolve(url: str, resolver: Resolver | None = None) -> list[str]:
    """The addresses at which a URL may be called, for a program that makes the call by itself.

    As for every call, ``Blocked`` is raised unless all of them are permitted.
    """
    found = check(url)
    return [str(one) for one in resolve_in_time(found.host, resolver or lookup, CONNECT)]


def _with_ours(headers: Mapping[str, str] | None) -> Headers:
    merged = Headers(_HEADERS)
    merged.update(headers or {})
    return merged


def _base(url: str) -> URL:
    return check(url) if url else URL("")


def _verify(
    total: float,
    connect: float,
    step: float,
    max_bytes: int,
    redirects: int,
    context: ssl.SSLContext | None,
) -> None:
    for option, value in (("total", total), ("connect", connect), ("step", step)):
        if not _is_number(value) or not 0 < value <= 3600:
            raise InvalidOption(option, "must lie above 0 and at most 3600 seconds")
    if not _is_number(max_bytes) or not 0 < max_bytes <= 2**31:
        raise InvalidOption("max_bytes", "must lie between 1 byte and 2 GiB")
    if type(redirects) is not int or not 0 <= redirects <= REDIRECTS:
        raise InvalidOption("redirects", f"must be a whole number from 0 to {REDIRECTS}")
    if context is not None and (
        context.verify_mode != ssl.CERT_REQUIRED or not context.check_hostname
    ):
        raise InvalidOption("context", "must verify certificates and host names")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
