"""The transports: connection pools that go through ``network``, with an end and a size for all."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import httpcore
import httpx

from jobs.http import bodies, urls
from jobs.http.errors import Blocked, TooSlow, Unreachable
from jobs.http.network import AsyncBackend, Backend, Call, Resolver, Until

CALL = "jobs.call"
"""Extension of a request: the call that it is a part of."""
_STEPS = ("connect", "read", "write", "pool")
_POOL: dict[str, Any] = {
    "max_connections": 100,
    "max_keepalive_connections": 20,
    "keepalive_expiry": 5.0,
    "http1": True,
    "http2": False,
    "retries": 0,
}


@lru_cache(maxsize=1)
def default_context() -> ssl.SSLContext:
    """Verifies certificates and names against the usual authorities, whatever the environment."""
    return httpx.create_ssl_context(verify=True, trust_env=False)


def _request(request: httpx.Request, total: float) -> httpcore.Request:
    urls.check_request(request)
    call = request.extensions.get(CALL) or Call(time.monotonic() + total)
    rest = max(0.001, call.end - time.monotonic())
    steps = request.extensions.get("timeout") or {}
    until = {step: Until(min(steps.get(step) or rest, rest), call) for step in _STEPS}
    return httpcore.Request(
        method=request.method,
        url=httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        ),
        headers=request.headers.raw,
        content=request.stream,
        extensions={"timeout": until},
    )


@contextmanager
def _one_family(host: str) -> Iterator[None]:
    """Errors of the pools leave as ours."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise TooSlow(f"{host} took too long", type(error).__name__) from None
    except httpcore.UnsupportedProtocol as error:
        raise Blocked("only http and https URLs may be called", str(error)) from None
    except httpcore.LocalProtocolError as error:
        raise Blocked("a malformed request may not be sent", str(error)) from None
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        detail = f"{type(error).__name__}: {error}"
        raise Unreachable(f"{host} gave no proper answer", detail) from None


def _response(
    answer: httpcore.Response, headers: list[tuple[bytes, bytes]], stream: Any
) -> httpx.Response:
    # The raw connection, which is among the extensions, stays here.
    told = {k: v for k, v in answer.extensions.items() if k in ("http_version", "reason_phrase")}
    return httpx.Response(answer.status, headers=headers, stream=stream, extensions=told)


class Transport(httpx.BaseTransport):
    """Every request is checked, every connection judged, every answer bounded."""

    def __init__(
        self,
        *,
        context: ssl.SSLContext | None = None,
        total: float,
        most: int,
        resolver: Resolver | None = None,
    ) -> None:
        self._total, self._most = total, most
        self._backend = Backend(resolver)
        self._pool = httpcore.ConnectionPool(
            ssl_context=context or default_context(), network_backend=self._backend, **_POOL
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        outgoing, host = _request(request, self._total), request.url.host
        with _one_family(host):
            answer = self._pool.handle_request(outgoing)
        try:
            body, headers = bodies.opened(host, outgoing.method, answer.headers, self._most)
        except BaseException:
            answer.close()
            raise
        assert isinstance(answer.stream, Iterable)  # noqa: S101 - what a pool of this kind gives
        stream = bodies.Stream(answer.stream, body, partial(_one_family, host))
        return _response(answer, headers, stream)

    def abort(self) -> None:
        """End every connection, from whichever thread."""
        self._backend.lines.cut()

    def close(self) -> None:
        self._pool.close()


class AsyncTransport(httpx.AsyncBaseTransport):
    """Every request is checked, every connection judged, every answer bounded."""

    def __init__(
        self,
        *,
        context: ssl.SSLContext | None = None,
        total: float,
        most: int,
        resolver: Resolver | None = None,
    ) -> None:
        self._total, self._most = total, most
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context or default_context(),
            network_backend=AsyncBackend(resolver),
            **_POOL,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        outgoing, host = _request(request, self._total), request.url.host
        with _one_family(host):
            answer = await self._pool.handle_async_request(outgoing)
        try:
            body, headers = bodies.opened(host, outgoing.method, answer.headers, self._most)
        except BaseException:
            await answer.aclose()
            raise
        assert isinstance(answer.stream, AsyncIterable)  # noqa: S101 - what such a pool gives
        stream = bodies.AsyncStream(answer.stream, body, partial(_one_family, host))
        return _response(answer, headers, stream)

    async def aclose(self) -> None:
        await self._pool.aclose()
