"""The clients: httpx's own, with one end for the whole call, our redirects, and our errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from jobs.http import urls
from jobs.http.errors import Blocked, HttpError, TooSlow, Unreachable
from jobs.http.network import Call
from jobs.http.transport import CALL, AsyncTransport, Transport

REDIRECTS = 3
"""Redirects of one call that may be followed."""


def forgetful_jar() -> CookieJar:
    """A jar that takes no cookie."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


@contextmanager
def _one_family(call: Call | None = None) -> Iterator[None]:
    """Errors that httpx finds by itself leave as ours; all say whether anything was sent."""
    try:
        with _ours():
            yield
    except HttpError as error:
        error.sent = call is not None and call.sent
        raise


@contextmanager
def _ours() -> Iterator[None]:
    try:
        yield
    except httpx.InvalidURL:
        raise Blocked("a malformed URL may not be called") from None
    except httpx.TimeoutException as error:
        raise TooSlow("the call took too long", type(error).__name__) from None
    except httpx.HTTPError as error:
        detail = f"{type(error).__name__}: {error}"
        raise Unreachable("there was no proper answer", detail) from None


def _url(client: httpx.Client | httpx.AsyncClient, url: httpx.URL | str) -> httpx.URL | str:
    is_relative = bool(client.base_url.host) and not urls.is_absolute(url)
    return url if is_relative or not isinstance(url, str) else urls.check(url)


def _limit(follow: Any, default: int) -> int:
    if follow is httpx.USE_CLIENT_DEFAULT:
        return default
    return REDIRECTS if follow else 0


class _Hops:
    """The redirects of one call."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.history: list[httpx.Response] = []

    def next(self, response: httpx.Response) -> httpx.Request | None:
        """The request to make next; None when this is the answer. Raises Blocked."""
        after = response.next_request
        if after is None or not self._limit:
            response.history = self.history
            return None
        if len(self.history) >= self._limit:
            raise Blocked(f"more than {self._limit} redirects are not followed")
        self.history = [*self.history, response]
        return urls.onward(response.request, after)


class Client(httpx.Client):
    """A client whose every call is checked, bounded, and fails with an HttpError."""

    def __init__(self, transport: Transport, total: float, redirects: int, **kwargs: Any) -> None:
        super().__init__(transport=transport, trust_env=False, cookies=forgetful_jar(), **kwargs)
        self._total, self._redirects = total, redirects
        self._way_out = transport

    def abort(self) -> None:
        """End the calls under way, from another thread; they and all later ones raise Unreachable.

        A connection that is being made ends within its own ``connect`` seconds.
        """
        self._way_out.abort()

    def build_request(self, method: str, url: httpx.URL | str, **kwargs: Any) -> httpx.Request:
        with _one_family():
            return super().build_request(method, _url(self, url), **kwargs)

    def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: Any = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: Any = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        hops = _Hops(_limit(follow_redirects, self._redirects))
        urls.check_request(request)
        call = Call(time.monotonic() + self._total)
        request.extensions = {**request.extensions, CALL: call}
        with _one_family(call):
            while True:
                response = super().send(request, stream=True, auth=auth, follow_redirects=False)
                try:
                    after = hops.next(response)
                    if after is None and not stream:
                        response.read()
                except BaseException:
                    response.close()
                    raise
                if after is None:
                    return response
                response.close()
                request, auth = after, None


class AsyncClient(httpx.AsyncClient):
    """A client whose every call is checked, bounded, and fails with an HttpError."""

    def __init__(
        self, transport: AsyncTransport, total: float, redirects: int, **kwargs: Any
    ) -> None:
        super().__init__(transport=transport, trust_env=False, cookies=forgetful_jar(), **kwargs)
        self._total, self._redirects = total, redirects

    def build_request(self, method: str, url: httpx.URL | str, **kwargs: Any) -> httpx.Request:
        with _one_family():
            return super().build_request(method, _url(self, url), **kwargs)

    async def send(
        self,
        request: httpx.Request,
        *,
        stream: bool = False,
        auth: Any = httpx.USE_CLIENT_DEFAULT,
        follow_redirects: Any = httpx.USE_CLIENT_DEFAULT,
    ) -> httpx.Response:
        hops = _Hops(_limit(follow_redirects, self._redirects))
        urls.check_request(request)
        call = Call(time.monotonic() + self._total)
        request.extensions = {**request.extensions, CALL: call}
        with _one_family(call):
            while True:
                response = await super().send(
                    request, stream=True, auth=auth, follow_redirects=False
                )
                try:
                    after = hops.next(response)
                    if after is None and not stream:
                        await response.aread()
                except BaseException:
                    await response.aclose()
                    raise
                if after is None:
                    return response
                await response.aclose()
                request, auth = after, None
