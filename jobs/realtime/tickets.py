"""Tickets: what opens one socket or stream for a page that can show nothing else.

A page cannot send headers with a socket. So a known caller asks for a ticket, hands it to the
page, and that shows it once, within a minute, as ``?ticket=…``. A ticket is signed and says who
asked; what he may see is looked up again when it is shown, and while the socket is open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

from django.contrib.auth import get_user_model
from django.core import signing

from jobs.engine import rq, sql
from jobs.errors import EventError
from jobs.operate import apikeys, people
from jobs.principals import Principal, Scope

SECONDS = 60
"""How long a ticket may be shown."""
LONGEST = 4000
"""Characters of a ticket: it has to go into an address."""
_SALT = "jobs.realtime.ticket"


class Away(Exception):
    """Nobody can say whether the ticket was shown before."""


def issue(who: Principal, tenants: list[str] | None = None) -> str:
    """A ticket for the caller; with ``tenants`` it shows no more than theirs, and nothing that
    is meant for the staff. Raises EventError.
    """
    told: dict[str, Any] = {"number": uuid4().hex, "until": _now() + SECONDS}
    if tenants is not None:
        told["tenants"] = sorted({name for name in tenants if who.scope.covers(tenant=name)})
    if who.user_id:
        told["user"] = who.user_id
    elif who.key:
        told["key"] = who.key
    else:
        told["other"] = [who.name, who.via, who.is_staff, *map(_listed, _parts(who.scope))]
    text = signing.dumps(told, salt=_SALT, compress=True)
    if len(text) > LONGEST:
        raise EventError("tenants", "are too many for a ticket")
    return text


def holder(text: str, *, is_shown_again: bool = False, request_id: str = "") -> Principal | None:
    """Whoever shows the ticket, as he is now; None where it is good for nothing, or not any more.

    What was opened with a ticket stays open: the ticket is shown again there, and is not used up.
    Raises Away.
    """
    try:
        told = signing.loads(text, salt=_SALT)
    except signing.BadSignature:
        return None
    if not is_shown_again and told["until"] < _now():
        return None
    who = _asker(told, request_id)
    if who is None or not (is_shown_again or _is_first(told["number"])):
        return None
    if "tenants" not in told:
        return who
    wanted = frozenset(told["tenants"])
    seen = wanted if who.scope.tenants is None else wanted & who.scope.tenants
    return replace(who, scope=Scope(seen, who.scope.queues), is_staff=False)


def _asker(told: dict[str, Any], request_id: str) -> Principal | None:
    if "user" in told:
        user = get_user_model()._default_manager.filter(pk=told["user"]).first()
        if user is None or not user.is_active:
            return None
        return people.of_user(user, via="api", request_id=request_id)
    if "key" in told:
        return apikeys.holder(told["key"], request_id=request_id)
    name, via, is_staff, tenants, queues = told["other"]
    scope = Scope(_set(tenants), _set(queues))
    return Principal(name, via, frozenset(), scope, is_staff, request_id)


def _is_first(number: str) -> bool:
    try:
        return rq.is_first(f"jobs:ticket:{number}", SECONDS * 2)
    except rq.Unavailable as error:
        raise Away from error


def _now() -> float:
    [(now,)] = sql.rows("SELECT extract(epoch FROM jobs_clock())::float8")
    return float(now)


def _parts(scope: Scope) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    return scope.tenants, scope.queues


def _listed(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _set(names: list[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)
