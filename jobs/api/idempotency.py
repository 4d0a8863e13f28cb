"""Idempotency-Key: a POST that is sent twice has its effect once, and the same answer twice.

The answer is kept in the transaction of its effect, for a day. The key belongs to a principal, a
method and a path. Errors are not kept: a repeated request tries again. An operation with a step
before its transaction claims the key with a row of its own, which becomes the kept answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse

from jobs import conf, keyring
from jobs.api.problem import Problem
from jobs.engine import sql

HOURS = 24
UNDER_WAY = 0
"""The status of a claim: there is no answer yet."""
CLAIM = 300
"""Seconds after which the claim of a process that has died may be taken over."""
KEY = r"[!-~]{1,255}"
"""What a key is, unless its operation says more."""
_KEPT_HEADERS = ("Content-Type", "Location", "ETag")
LOCK = 0x6964656D
"""The seed of the advisory locks of keys in use."""
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, %s))"
_FIND = """
SELECT id, fingerprint, status, headers, body, created_at > jobs_clock() - make_interval(
  secs => CASE WHEN status = %s THEN %s ELSE %s END)
FROM jobs_api_answer WHERE principal = %s AND method = %s AND path = %s AND key = %s
"""
_KEEP = """
INSERT INTO jobs_api_answer
  (principal, method, path, key, fingerprint, status, headers, body, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s::jsonb, %s, jobs_clock()) RETURNING id
"""
_KEEP_CLAIMED = """
UPDATE jobs_api_answer SET status = %s, headers = %s::jsonb, body = %s, created_at = jobs_clock()
WHERE id = %s AND status = %s RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A key that is being used by this request."""

    place: tuple[str, str, str, str]
    fingerprint: str
    secrets: tuple[str, ...] = ()
    claim: int | None = None
    """The row that holds the key already."""

    def claimed(self) -> Ticket:
        """Return the ticket with a row that holds its key for a while."""
        [(number,)] = sql.rows(_KEEP, [*self.place, self.fingerprint, UNDER_WAY, "{}", ""])
        return replace(self, claim=number)

    def drop(self) -> None:
        """Free the key that was claimed."""
        sql.run(
            "DELETE FROM jobs_api_answer WHERE id = %s AND status = %s", [self.claim, UNDER_WAY]
        )

    def keep(self, response: HttpResponse) -> None:
        """Keep the answer for requests that repeat this one, without members that are secret."""
        body = response.content.decode()
        if self.secrets and body:
            data = json.loads(body)
            for name in self.secrets:
                _hide(data, name.split("."))
            body = json.dumps(data)
        headers = {name: response[name] for name in _KEPT_HEADERS if name in response}
        values = [response.status_code, json.dumps(headers), body]
        if self.claim is None:
            sql.rows(_KEEP, [*self.place, self.fingerprint, *values])
        elif not sql.rows(_KEEP_CLAIMED, [*values, self.claim, UNDER_WAY]):
            raise _in_use()  # it took longer than a claim, and another request has the key


def _hide(data: Any, path: Sequence[str]) -> None:
    """Empty a member, or those of the objects in a list."""
    if isinstance(data, list):
        for one in data:
            _hide(one, path)
    elif isinstance(data, dict) and path[0] in data:
        if len(path) == 1:
            data[path[0]] = None
        else:
            _hide(data[path[0]], path[1:])


def renewed(response: HttpResponse, renew: Callable[[Any], None]) -> HttpResponse:
    """Return the kept answer with what the function has changed in it."""
    data = json.loads(response.content)
    renew(data)
    response.content = json.dumps(data, default=str).encode()
    return response


def _in_use() -> Problem:
    return Problem(
        409, "idempotency-key-in-use", "a request with this key is under way",
        headers={"Retry-After": "1"},
    )  # fmt: skip


def key_of(request: HttpRequest, *, is_needed: bool = False, form: str = "") -> str | None:
    """Return the key of the request; raise a Problem if it is malformed, or needed and missing."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        is_needed = is_needed or conf.settings().API_NEEDS_IDEMPOTENCY_KEY
        if is_needed and request.method == "POST":
            raise Problem(428, "idempotency-key-missing", "Idempotency-Key is needed")
        return None
    if request.method != "POST":
        return None
    if not re.fullmatch(form or KEY, key):
        must = f"match {form}" if form else "have 1 to 255 printable ASCII characters"
        raise Problem(400, "idempotency-key-invalid", f"Idempotency-Key must {must}")
    return key


def claim(
    request: HttpRequest, principal: str, secrets: Iterable[str] = (), **rules: Any
) -> Ticket | HttpResponse | None:
    """Do what ``begin`` does, before the transaction of the effect: the key is taken from now on.

    The ticket must be kept or dropped.
    """
    with transaction.atomic(using=sql.alias()):
        found = begin(request, principal, secrets, **rules)
        return found.claimed() if isinstance(found, Ticket) else found


def begin(
    request: HttpRequest, principal: str, secrets: Iterable[str] = (), **rules: Any
) -> Ticket | HttpResponse | None:
    """Return a ticket to keep the answer with, or the kept answer; None if there is no key.

    To be called in the transaction of the effect. Raises a Problem if the same key came with
    another request, its request is under way, or a key is needed and missing.
    """
    key = key_of(request, **rules)
    if key is None:
        return None
    place = (principal, str(request.method), request.get_full_path()[:2000], key)
    whole = (request.content_type or "").encode() + b"\0" + request.body
    ticket = Ticket(place, _fingerprint(whole), tuple(secrets))
    if sql.rows(_LOCK, ["\n".join(place), LOCK]) != [(True,)]:
        raise _in_use()
    found = sql.rows(_FIND, [UNDER_WAY, CLAIM, HOURS * 3600, *place])
    if not found:
        return ticket
    [(number, fingerprint, status, headers, body, fresh)] = found
    if not fresh:
        sql.run("DELETE FROM jobs_api_answer WHERE id = %s", [number])
        return ticket
    if fingerprint != ticket.fingerprint:
        raise Problem(
            422, "idempotency-key-reused", "this key came with another request before",
        )  # fmt: skip
    if status == UNDER_WAY:
        raise _in_use()
    return _again(status, headers if isinstance(headers, dict) else json.loads(headers), body)


def _fingerprint(request: bytes) -> str:
    """Return what shows that a request is the same; with a key, what is in it cannot be guessed."""
    found = hashlib.sha256(request).hexdigest()
    has_key = bool(conf.settings().INDEX_KEY)
    return keyring.blind_index(found, "jobs.api.answer") if has_key else found


def _again(status: int, headers: dict[str, str], body: str) -> HttpResponse:
    response = HttpResponse(body, status=status)
    for name, value in headers.items():
        response[name] = value
    response["Idempotent-Replayed"] = "true"
    return response
