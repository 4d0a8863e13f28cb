"""Who calls, for which user, and how a refusal becomes a problem.

Users act for themselves; what belongs to others does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Schema

import jobs
from jobs.acts import Principal
from jobs.api import Problem, Section, auth
from trading.errors import Refused
from trading.permissions import USE, acting_user, as_oneself

BASE = "/trading"
_STATUS = {
    "NOT_FOUND": 404, "CONFLICT": 409, "NO_LINK": 422, "VENUE_OFF": 404, "NO_LOGIN": 409,
    "SEVERAL_LINKS": 422, "LINK_PAUSED": 409,
    "LINK_REVOKED": 409, "VENUE_AWAY": 502, "VENUE_ERROR": 502, "VENUE_LIMITED": 503,
    "BAD_PAGE": 502,
}  # fmt: skip


def problem_of(error: jobs.JobsError) -> Exception:
    """Convert a Refused to a problem; return any other error unchanged."""
    if not isinstance(error, Refused):
        return error
    pointer = f"/{error.field.replace('.', '/')}" if error.field else ""
    seconds = error.details.get("retry_after")
    headers = {"Retry-After": str(int(seconds) + 1)} if seconds else None
    code = error.code.lower().replace("_", "-")
    made = Problem(
        _STATUS.get(error.code, 422), code, error.message, pointer=pointer, headers=headers
    )
    made.audit = error.audit
    return made


section = Section("trading", login=auth.default(), translate=problem_of)


def user_of(request: HttpRequest) -> int:
    """Return the user for whom the caller acts."""
    who = auth.who(request)
    found = acting_user(who)
    if found is None:
        raise Problem(403, "no-user", f"needs one user: a key for one tenant, with {USE}")
    return found


def oneself(request: HttpRequest) -> Principal:
    """Return the caller with what users may do with their own data."""
    return as_oneself(auth.who(request), user_of(request))


def answered(call: Callable[[], Any]) -> Any:
    """Return what the call returns; a refusal becomes a problem."""
    try:
        return call()
    except Refused as error:
        raise problem_of(error) from None
    except jobs.errors.UnknownTarget:
        raise missing("thing") from None


def missing(name: str) -> Problem:
    """Return the problem for something that does not exist, or belongs to others."""
    return Problem(404, "not-found", f"there is no such {name}")


class StartedOut(Schema):
    """A job that was enqueued."""

    jobId: UUID
