"""From a host's name to a connected socket: resolve once, judge every answer, connect to one.

The connection pools call ``Backend`` with the name that the URL has. It connects to an address that
it has just judged, so there is no second lookup that could answer otherwise; TLS and the Host
header, which are made above, go on using the name.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.to_thread
import httpcore

from jobs import addresses, conf
from jobs.addresses import Address
from jobs.http.errors import Blocked, HttpError, TooSlow, Unreachable, out_of_reach
from jobs.traffic import Traffic, watched

Resolver = Callable[[str], list[str]]
TRIED = 4
"""Addresses of one name that are tried."""


@dataclass(slots=True)
class Call:
    """One call, with all its redirects."""

    end: float
    """The monotonic moment at which it must be over."""
    sent: bool = False
    """Whether a byte of one of its requests may have left."""
    traffic: Traffic | None = field(default_factory=watched)

    def sends(self) -> None:
        """Note that from now on bytes may leave."""
        self.sent = True
        if self.traffic is not None:
            self.traffic.sent = True


class Until(float):
    """Seconds that one step may take; knows the call that it is a step of."""

    call: Call

    def __new__(cls, step: float, call: Call) -> Until:
        self = super().__new__(cls, step)
        self.call = call
        return self


def left(timeout: float | None) -> float:
    """Seconds that the next step may take; raises TooSlow when none are."""
    if not isinstance(timeout, Until):
        raise TypeError("every step of a call has an end")
    seconds = min(float(timeout), timeout.call.end - time.monotonic())
    if seconds <= 0:
        raise TooSlow("the call took too long")
    return seconds


def left_to_send(timeout: float | None) -> float:
    """As ``left``, for a step by which bytes of a request leave."""
    seconds = left(timeout)
    assert isinstance(timeout, Until)  # noqa: S101 - or ``left`` had raised
    timeout.call.sends()
    return seconds


def lookup(host: str) -> list[str]:
    """Every address that the system's resolver knows for the host."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def judge(host: str, answers: Iterable[str]) -> list[Address]:
    """The addresses; raises Blocked unless the call may connect to each of them."""
    allowed = addresses.allowed(conf.settings().HTTP_ALLOW)
    found: list[Address] = []
    for answer in answers:
        address = addresses.literal(answer)
        if address is None or not allowed.permits(address, host):
            raise Blocked(out_of_reach(host), f"{host} resolves to {answer}, which is not public")
        found.append(address)
    if not found:
        raise Unreachable(out_of_reach(host), f"{host} has no address")
    return found


def resolve(host: str, resolver: Resolver) -> list[Address]:
    """The judged addresses of the host, a name or a literal; asks the resolver at most once."""
    if addresses.literal(host) is not None:
        return judge(host, [host])
    try:
        answers = resolver(host)
    except (OSError, UnicodeError) as error:
        raise Unreachable(out_of_reach(host), f"{host} does not resolve: {error}") from None
    return judge(host, answers)


def resolve_in_time(host: str, resolver: Resolver, seconds: float) -> list[Address]:
    """As ``resolve``, given up after this many seconds; a resolver that hangs is left behind."""
    if addresses.literal(host) is not None:
        return judge(host, [host])
    outcome: list[list[Address] | BaseException] = []

    def run() -> None:
        try:
            outcome.append(resolve(host, resolver))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name=f"resolve {host}", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TooSlow(out_of_reach(host), f"the resolver took more than {seconds:.1f} s")
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def dial(address: Address, port: int, seconds: float) -> socket.socket:
    """A socket that is connected to the address."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    line = socket.socket(family, socket.SOCK_STREAM)
    try:
        line.settimeout(seconds)
        line.connect((str(address), port))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        line.close()
        raise
    return line


class Lines:
    """The connections of a client, which another thread can cut."""

    def __init__(self) -> None:
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.is_cut = False

    def add(self, line: socket.socket) -> None:
        """Note a connection; raises Unreachable, and closes it, once all have been cut."""
        with self._lock:
            if not self.is_cut:
                self._open.add(line)
                return
        line.close()
        self.check()

    def drop(self, line: socket.socket) -> None:
        """Forget a connection that is closed."""
        with self._lock:
            self._open.discard(line)

    def check(self) -> None:
        """Raise Unreachable once all have been cut."""
        if self.is_cut:
            raise Unreachable("the call was aborted")

    def cut(self) -> None:
        """End all connections, now and later; callers that wait for one stop waiting."""
        with self._lock:
            self.is_cut = True
            for line in self._open:
                with suppress(OSError):
                    # Not SSLSocket's own, which would take the line's encryption from its reader.
                    socket.socket.shutdown(line, socket.SHUT_RDWR)


class Backend(httpcore.NetworkBackend):
    """Connects to judged addresses only."""

    def __init__(self, resolver: Resolver | None = None) -> None:
        self._resolver, self.lines = resolver, Lines()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        self.lines.check()
        try:
            found = resolve_in_time(host, self._resolver or lookup, left(timeout))
            return Stream(self._first(host, found, port, timeout), host, self.lines)
        except TooSlow as error:
            raise TooSlow(out_of_reach(host), error.detail or "no time was left") from None

    def _first(
        self, host: str, found: list[Address], port: int, timeout: float | None
    ) -> socket.socket:
        failure: HttpError | None = None
        for address in found[:TRIED]:
            try:
                return dial(address, port, left(timeout))
            except TimeoutError:
                failure = TooSlow(out_of_reach(host), f"{address} port {port} is silent")
            except OSError as error:
                failure = Unreachable(out_of_reach(host), f"{address} port {port}: {error}")
        assert failure is not None  # noqa: S101 - there is at least one address
        raise failure from None

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Any = None
    ) -> httpcore.NetworkStream:
        raise Blocked("a unix socket may not be called")


class Stream(httpcore.NetworkStream):
    """A connected socket whose every step ends in time."""

    def __init__(self, line: socket.socket, host: str, lines: Lines) -> None:
        self._line, self._host, self._lines = line, host, lines
        lines.add(line)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._line.settimeout(left(timeout))
        try:
            data = self._line.recv(max_bytes)
        except TimeoutError:
            raise TooSlow(f"{self._host} took too long to answer") from None
        except OSError as error:
            self._lines.check()
            raise httpcore.ReadError(str(error)) from None
        if not data:
            self._lines.check()  # or an answer that was cut would look whole
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        while rest:
            self._line.settimeout(left_to_send(timeout))
            try:
                rest = rest[self._line.send(rest) :]
            except TimeoutError:
                raise TooSlow(f"{self._host} took too long to listen") from None
            except OSError as error:
                raise httpcore.WriteError(str(error)) from None

    def close(self) -> None:
        self._lines.drop(self._line)
        self._line.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        stream = None
        try:
            self._line.settimeout(left(timeout))
            line = ssl_context.wrap_socket(
                self._line, server_hostname=server_hostname, do_handshake_on_connect=False
            )
            self._lines.drop(self._line)
            stream = Stream(line, self._host, self._lines)
            line.do_handshake()
        except BaseException as error:
            (stream or self).close()
            raise _tls_failure(self._host, error) from None
        return stream

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object":
            return self._line if isinstance(self._line, ssl.SSLSocket) else None
        if info == "is_readable":
            poll = select.poll()
            poll.register(self._line, select.POLLIN)
            return self._line.fileno() < 0 or bool(poll.poll(0))
        if info == "server_addr":
            return self._line.getpeername()
        return None


def _tls_failure(host: str, error: BaseException) -> BaseException:
    if isinstance(error, TimeoutError | TooSlow | httpcore.TimeoutException):
        return TooSlow(out_of_reach(host), "TLS took too long")
    if isinstance(error, OSError | httpcore.NetworkError | ValueError):
        return Unreachable(out_of_reach(host), f"TLS: {error}")
    return error


class AsyncBackend(httpcore.AsyncNetworkBackend):
    """Connects to judged addresses only."""

    def __init__(self, resolver: Resolver | None = None) -> None:
        self._resolver = resolver
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            found = await self._resolved(host, left(timeout))
            return AsyncStream(await self._first(host, found, port, timeout), host)
        except TooSlow as error:
            raise TooSlow(out_of_reach(host), error.detail or "no time was left") from None

    async def _resolved(self, host: str, seconds: float) -> list[Address]:
        try:
            with anyio.fail_after(seconds):
                # A limiter of its own: resolvers that hang do not keep the others waiting.
                return await anyio.to_thread.run_sync(
                    resolve,
                    host,
                    self._resolver or lookup,
                    abandon_on_cancel=True,
                    limiter=anyio.CapacityLimiter(1),
                )
        except TimeoutError:
            detail = f"the resolver took more than {seconds:.1f} s"
            raise TooSlow(out_of_reach(host), detail) from None

    async def _first(
        self, host: str, found: list[Address], port: int, timeout: float | None
    ) -> httpcore.AsyncNetworkStream:
        failure: HttpError | None = None
        for address in found[:TRIED]:
            try:
                return await self.dial(address, port, left(timeout))
            except httpcore.TimeoutException:
                failure = TooSlow(out_of_reach(host), f"{address} port {port} is silent")
            except (httpcore.NetworkError, OSError) as error:
                failure = Unreachable(out_of_reach(host), f"{address} port {port}: {error}")
        assert failure is not None  # noqa: S101 - there is at least one address
        raise failure from None

    async def dial(
        self, address: Address, port: int, seconds: float
    ) -> httpcore.AsyncNetworkStream:
        """A stream that is connected to the address."""
        return await self._inner.connect_tcp(str(address), port, timeout=seconds)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Any = None
    ) -> httpcore.AsyncNetworkStream:
        raise Blocked("a unix socket may not be called")


class AsyncStream(httpcore.AsyncNetworkStream):
    """A connected stream whose every step ends in time."""

    def __init__(self, inner: httpcore.AsyncNetworkStream, host: str) -> None:
        self._inner, self._host = inner, host

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return await self._inner.read(max_bytes, left(timeout))
        except httpcore.ReadTimeout:
            raise TooSlow(f"{self._host} took too long to answer") from None

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            await self._inner.write(buffer, left_to_send(timeout))
        except httpcore.WriteTimeout:
            raise TooSlow(f"{self._host} took too long to listen") from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            stream = await self._inner.start_tls(ssl_context, server_hostname, left(timeout))
        except BaseException as error:
            await self._inner.aclose()
            raise _tls_failure(self._host, error) from None
        return AsyncStream(stream, self._host)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
