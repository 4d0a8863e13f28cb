"""Idempotency-Key: a POST that is sent twice has its effect once, and the same answer twice.

The answer is kept in the transaction of its effect, for a day. The key belongs to a principal, a
method and a path. Errors are not kept: whoever repeats them tries again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse

from jobs import conf
from jobs.api.problem import Problem
from jobs.engine import sql

HOURS = 24
_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")
_KEPT_HEADERS = ("Content-Type", "Location", "ETag")
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0x6964656d))"
_FIND = """
SELECT id, fingerprint, status, headers, body,
  created_at > jobs_clock() - make_interval(hours => %s)
FROM jobs_api_answer WHERE principal = %s AND method = %s AND path = %s AND key = %s
"""
_KEEP = """
INSERT INTO jobs_api_answer
  (principal, method, path, key, fingerprint, status, headers, body, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s::jsonb, %s, jobs_clock())
"""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A key that is being used by this request."""

    place: tuple[str, str, str, str]
    fingerprint: str
    secrets: tuple[str, ...] = ()

    def keep(self, response: HttpResponse) -> None:
        """Whoever repeats the request gets this answer; members that are secret are not kept."""
        body = response.content.decode()
        if self.secrets and body:
            data = json.loads(body)
            body = json.dumps({**data, **{name: None for name in self.secrets if name in data}})
        headers = {name: response[name] for name in _KEPT_HEADERS if name in response}
        values = [*self.place, self.fingerprint, response.status_code, json.dumps(headers), body]
        sql.run(_KEEP, values)


def key_of(request: HttpRequest) -> str | None:
    """The key that the request bears; raises a Problem where it is none, or is missed."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        if conf.settings().API_NEEDS_IDEMPOTENCY_KEY and request.method == "POST":
            raise Problem(400, "idempotency-key-missing", "Idempotency-Key is needed")
        return None
    if request.method != "POST":
        return None
    if not _KEY.match(key):
        raise Problem(
            400, "idempotency-key-invalid",
            "Idempotency-Key must have 1 to 255 printable ASCII characters",
        )  # fmt: skip
    return key


def begin(
    request: HttpRequest, principal: str, secrets: Iterable[str] = ()
) -> Ticket | HttpResponse | None:
    """A ticket to keep the answer with, or the kept answer; None where the request bears no key.

    To be called in the transaction of the effect. Raises a Problem where the same key came with
    another request, or its request is under way.
    """
    key = key_of(request)
    if key is None:
        return None
    place = (principal, str(request.method), request.get_full_path()[:2000], key)
    whole = (request.content_type or "").encode() + b"\0" + request.body
    ticket = Ticket(place, hashlib.sha256(whole).hexdigest(), tuple(secrets))
    if sql.rows(_LOCK, ["\0".join(place).replace("\0", "\n")]) != [(True,)]:
        raise Problem(
            409, "idempotency-key-in-use", "a request with this key is under way",
            headers={"Retry-After": "1"},
        )  # fmt: skip
    found = sql.rows(_FIND, [HOURS, *place])
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
    return _again(status, headers if isinstance(headers, dict) else json.loads(headers), body)


def _again(status: int, headers: dict[str, str], body: str) -> HttpResponse:
    response = HttpResponse(body, status=status)
    for name, value in headers.items():
        response[name] = value
    response["Idempotent-Replayed"] = "true"
    return response
