"""What is asked of a bulk operation: by whom, of which jobs, and what a preview has shown of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from django.core import signing

from jobs.engine import sql
from jobs.errors import Denied, InvalidOption
from jobs.operate import acts, bulkscan
from jobs.operate.bulkplans import ACTIONS, action_of, checked_options
from jobs.operate.bulkscan import Selection
from jobs.operate.permissions import RUN_BULK
from jobs.operate.query import parse
from jobs.operate.verbs import deny
from jobs.principals import By, Principal, principal

TOKEN_LIFE = timedelta(minutes=15)
_SALT = "jobs.bulk.confirm"
_QUERY_LIMIT = 2000


def allowed(action: str, by: By, function: Callable[..., Any] | None = None) -> Principal:
    """Return the principal who may do it to many at once; raise Denied, which the audit keeps.

    ``function`` is the verb that is asked for; without one it is only a preview.
    """
    who = principal(by)
    for permission in (RUN_BULK, action_of(action).permission):
        if not who.may(permission):
            if function is not None:
                raise deny(function, permission, by)
            raise acts.deny(Denied(permission), by, "bulk.preview", kind="bulk")
    return who


def options_of(action: str, options: dict[str, Any], who: Principal) -> dict[str, Any]:
    """The options as they are kept; jobs are moved to no queue outside the scope."""
    kept = checked_options(action, options)
    if not who.scope.covers(queue=kept.get("queue")):
        raise InvalidOption("queue", f"there is no queue {kept['queue']!r}")
    return kept


def now() -> datetime:
    """The moment until which jobs count as created."""
    [(at,)] = sql.rows("SELECT jobs_clock()")
    return cast(datetime, at)


def are_ids(ids: Sequence[Any] | None, query: str | None) -> bool:
    """Whether ids are given, and not a query; raises InvalidOption where it is not one of both."""
    if (ids is None) == (query is None):
        raise InvalidOption("ids", "give either ids or a query")
    return ids is not None


def selection(action: str, query: str | None, before: datetime, who: Principal) -> Selection:
    """The jobs of the query; raises InvalidOption or Denied where it may not be asked."""
    if not isinstance(query, str) or len(query) > _QUERY_LIMIT:
        raise InvalidOption("query", f"must be text of at most {_QUERY_LIMIT} characters")
    asked = parse(query)
    if not asked.terms:
        raise InvalidOption("query", "is empty: say which jobs")
    for permission in sorted(asked.permissions):
        if not who.may(permission):
            raise Denied(permission)
    # Frozen, so that "two hours ago" is the same moment whenever a portion is looked for.
    return Selection(str(asked.frozen(before)), before, who.scope, ACTIONS[action].on_letters)


def token_of(
    action: str, options: dict[str, Any], ids: Sequence[Any] | None, query: str | None,
    before: datetime, who: Principal,
) -> str:  # fmt: skip
    """What shows that this very operation was looked at."""
    content = _subject(action, options, ids, query, who)
    return signing.dumps(
        {"of": content, "before": before.isoformat(),
         "until": (before + TOKEN_LIFE).isoformat()}, salt=_SALT, compress=True,
    )  # fmt: skip


def confirmed(
    token: str, action: str, options: dict[str, Any], ids: Sequence[Any] | None,
    query: str | None, now: datetime, who: Principal,
) -> datetime:  # fmt: skip
    """The bound that was looked at; raises InvalidOption where it is another operation's token."""
    try:
        data = signing.loads(token, salt=_SALT)
    except signing.BadSignature:
        raise InvalidOption("token", "is none that a preview gave") from None
    if data["of"] != _subject(action, options, ids, query, who):
        raise InvalidOption("token", "confirms another operation: look at a preview of this one")
    if now > datetime.fromisoformat(data["until"]):
        raise InvalidOption("token", "is too old: look at a preview again")
    return datetime.fromisoformat(data["before"])


def _subject(
    action: str, options: dict[str, Any], ids: Sequence[Any] | None, query: str | None,
    who: Principal,
) -> list[Any]:  # fmt: skip
    wanted = sorted({str(one) for one in ids}) if ids is not None else None
    return [action, options, wanted, query, who.identity, who.via, bulkscan.as_json(who.scope)]
