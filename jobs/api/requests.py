"""Requests: their ids, their senders' addresses, and bodies that can be stored.

What PostgreSQL or a reader could not take is refused here, before anything is parsed further.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any
from uuid import uuid4

from django.http import HttpRequest
from django.http.request import RawPostDataException

from jobs import conf, jsontext

DEPTH_LIMIT = 32
VALUES_LIMIT = 100_000
"""Values and keys of a body."""
CONTAINERS_LIMIT = 30_000
"""Lists and objects of a body: an empty one takes two bytes there, and a hundred in memory."""
_ID = re.compile(r"[A-Za-z0-9._:\-]{1,128}\Z")
_BAD = re.compile(r"[\x00\ud800-\udfff]")
_LARGEST = 2**63


class Unusable(Exception):
    """The request cannot be used: the status, a code, where and why."""

    def __init__(self, status: int, code: str, pointer: str, message: str) -> None:
        self.status, self.code, self.pointer, self.message = status, code, pointer, message
        super().__init__(message)


def request_id(request: HttpRequest) -> str:
    """The id that the caller gave, where it is a decent one, or a new one."""
    known: str | None = getattr(request, "jobs_request_id", None)
    if known is None:
        given = request.headers.get("X-Request-ID", "")
        known = given if _ID.match(given) else uuid4().hex
        request.jobs_request_id = known  # type: ignore[attr-defined]
    return known


def address(request: HttpRequest) -> str:
    """Who is at the other end: the peer, or what the outermost trusted proxy says of its own.

    What a client writes into X-Forwarded-For stands before what the proxies add, and is not read.
    """
    peer = str(request.META.get("REMOTE_ADDR", ""))
    if proxies := conf.settings().API_PROXIES:
        hops = [hop.strip() for hop in request.headers.get("X-Forwarded-For", "").split(",")]
        if len(hops) >= proxies:
            peer = hops[-proxies]
    try:
        found = ip_address(peer)
    except ValueError:
        return "unknown"
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def network(request: HttpRequest) -> str:
    """The address as limits see it: of IPv6 the first 64 bits, which one host may vary at will."""
    text = address(request)
    return ":".join(ip_address(text).exploded.split(":")[:4]) if ":" in text else text


def check_text(request: HttpRequest, path: dict[str, Any]) -> None:
    """Neither path nor query hold what cannot be stored."""
    for name, value in path.items():
        if isinstance(value, str) and _BAD.search(value):
            raise Unusable(404, "not-found", "", "there is no such thing")
        if isinstance(value, int) and abs(value) >= _LARGEST:
            raise Unusable(404, "not-found", "", f"there is no such {name}")
    for name, values in request.GET.lists():
        if _BAD.search(name) or any(_BAD.search(value) for value in values):
            shown = _BAD.sub("", name)[:50]
            raise Unusable(422, "invalid-text", f"?{shown}", "holds a NUL or a lone surrogate")
        if any(len(value) > 2000 for value in values):
            raise Unusable(422, "too-long", f"?{name[:50]}", "is longer than 2000 characters")


def check_body(request: HttpRequest, at_least: int = 0, *, is_form: bool = False) -> None:
    """The body is of a size, and JSON that can be stored, or there is none.

    Whatever it calls itself: only an operation that takes forms or files gets anything else.
    """
    limit = max(conf.settings().API_BODY_LIMIT, at_least)
    try:
        declared = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise Unusable(400, "bad-request", "", "Content-Length is no number") from None
    if declared > limit:
        raise Unusable(413, "too-large", "", f"the body is larger than {limit} bytes")
    try:
        body = request.body
    except RawPostDataException:
        return
    if len(body) > limit:
        raise Unusable(413, "too-large", "", f"the body is larger than {limit} bytes")
    if body and not is_form:
        _check_json(body)


def _check_json(body: bytes) -> None:
    if b"\0" in body:  # as in UTF-16, whose punctuation would have to be counted in another way
        raise Unusable(400, "invalid-json", "", "the body is not JSON in UTF-8")
    if jsontext.is_crowded(body, VALUES_LIMIT, CONTAINERS_LIMIT):
        raise Unusable(413, "too-large", "", "the body has too many values")
    try:
        data = json.loads(body, parse_constant=_constant, object_pairs_hook=_object)
    except _Constant as found:
        raise Unusable(422, "invalid-number", "/", f"{found} is no JSON") from None
    except _Repeated as found:
        raise Unusable(
            422, "repeated-key", "/", f"the key {str(found)[:50]!r} stands twice"
        ) from None
    except (ValueError, RecursionError):
        raise Unusable(400, "invalid-json", "", "the body is not JSON") from None
    for count, (pointer, depth, value) in enumerate(_walk(data)):
        if depth > DEPTH_LIMIT:
            raise Unusable(400, "too-deep", pointer, f"is deeper than {DEPTH_LIMIT} levels")
        if count > VALUES_LIMIT:
            raise Unusable(413, "too-large", "", "the body has too many values")
        if isinstance(value, str) and _BAD.search(value):
            raise Unusable(422, "invalid-text", pointer, "holds a NUL or a lone surrogate")
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            raise Unusable(422, "invalid-number", pointer, "is too large")


class _Constant(Exception):
    pass


class _Repeated(Exception):
    pass


def _constant(name: str) -> Any:
    raise _Constant(name)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Repeated(name)
            seen.add(name)
    return found


def _walk(data: Any) -> Iterator[tuple[str, int, Any]]:
    """Every value and key, with its pointer and depth, without recursion."""
    yield "", 0, data
    stack = [("", _items(data))]
    while stack:
        pointer, items = stack[-1]
        found = next(items, None)
        if found is None:
            stack.pop()
            continue
        name, value = found
        depth = len(stack)
        if isinstance(name, str):
            yield pointer, depth - 1, name
            name = _BAD.sub("", name)[:50].replace("~", "~0").replace("/", "~1")
        place = f"{pointer}/{name}"
        yield place, depth, value
        if depth <= DEPTH_LIMIT and isinstance(value, dict | list):
            stack.append((place, _items(value)))


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    """The values inside, with their names or numbers, one by one."""
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value)) if isinstance(value, list) else iter(())
